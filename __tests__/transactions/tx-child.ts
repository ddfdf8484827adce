import Database from "better-sqlite3";
import { type DefinedEffect, defineEffect, GraphRunner } from "langgraph-checkpoint-turns";
import { pgTransactions, sqliteTransactions } from "langgraph-checkpoint-turns/transactions";
import { Pool, type PoolClient } from "pg";
import { setFailpointHandler } from "../../src/testing-internal";
import { line, quietLogger } from "../support/eff-world";
import { openSaver } from "../support/open-saver";

/**
 * A process that charges in transactions: `tx-child <role> <tasks> <db>`, the bank in the environment. `run` runs tasks `a,b` one by one. It dies at event KILL_AT: before and after
 * each statement to the bank, and at every failpoint. With STOP_AT it stops there instead, until somebody continues it.
 */
const [role = "", tasks = "", path = ""] = process.argv.slice(2);
const { BANK = "", BANK_SCHEMA, KILL_AT = "0", STOP_AT = "", TOGETHER } = process.env;
const saver = openSaver(path, { logger: quietLogger() });
/** With TOGETHER, the journal is in the bank's database. */
const options = TOGETHER === undefined ? {} : { journal: saver };

let events = 0;
let hasStopped = false;
function event(name: string): void {
  events += 1;
  if (events === Number(KILL_AT)) process.kill(process.pid, "SIGKILL");
  if (STOP_AT === "" || hasStopped || !name.includes(STOP_AT)) return;
  hasStopped = true;
  process.kill(process.pid, "SIGSTOP");
}

const NAME = "charge";
const settings = (more: object) => ({ ...more, onError: () => "retryable" as const });

function onPostgres(): DefinedEffect<number, number> {
  const pool = new Pool({ connectionString: BANK, max: 3 });
  pool.on("error", () => undefined);
  pool.on("connect", (client) => {
    const query = client.query.bind(client) as (...args: unknown[]) => Promise<unknown>;
    client.query = ((...args: unknown[]) => {
      const text = typeof args[0] === "string" ? args[0] : "";
      event(`before ${text}`);
      const made = query(...args);
      event(`sent ${text}`);
      return made instanceof Promise ? made.finally(() => event(`after ${text}`)) : made;
    }) as never;
  });
  return defineEffect(NAME, {
    tx: pgTransactions(pool, { schema: BANK_SCHEMA, ...options }),
    run: async (cents: number, { db, key }: { db: PoolClient; key: string }) => {
      await db.query(`INSERT INTO ${BANK_SCHEMA}.charges VALUES ($1, $2)`, [key, cents]);
      return cents;
    },
    undo: ({ db, key }) => db.query(`DELETE FROM ${BANK_SCHEMA}.charges WHERE key = $1`, [key]),
    ...settings({}),
  });
}

function onSqlite(): DefinedEffect<number, number> {
  const db = new Database(BANK);
  const watched = {
    exec: (sql: string) => {
      event(`before ${sql}`);
      db.exec(sql);
      event(`after ${sql}`);
    },
    prepare: (sql: string) => {
      const statement = db.prepare(sql);
      const around =
        <T>(run: () => T) =>
        (): T => {
          event(`before ${sql}`);
          const made = run();
          event(`after ${sql}`);
          return made;
        };
      return {
        reader: statement.reader,
        all: (...values: unknown[]) => around(() => statement.all(...values))(),
        run: (...values: unknown[]) => around(() => statement.run(...values))(),
      };
    },
  };
  return defineEffect(NAME, {
    tx: sqliteTransactions(watched, options),
    run: (cents: number, { db: handle, key }) => {
      handle.prepare("INSERT INTO charges VALUES (?, ?)").run(key, cents);
      return cents;
    },
    undo: ({ db: handle, key }) => handle.prepare("DELETE FROM charges WHERE key = ?").run(key),
    ...settings({}),
  });
}

const charge = BANK_SCHEMA === undefined ? onSqlite() : onPostgres();

async function main(): Promise<unknown> {
  setFailpointHandler((point) => event(point));
  if (role === "rewind") {
    const { effects } = await saver.rewind({ threadId: "t", toTask: "a" });
    return effects.undone.length + effects.undoneBefore.length;
  }
  const node = (cents: number) => async () => ({ log: [String(await charge(cents)), String(await charge(cents + 1))] });
  const graph = line({ one: node(10), two: node(20) }).compile({ checkpointer: saver });
  const runner = new GraphRunner(graph, { nodes: { one: { idempotent: true }, two: { idempotent: true } } });
  if (role === "resume") return (await runner.resume({ threadId: "t" })).log;
  let log: string[] = [];
  for (const taskId of tasks.split(",")) ({ log } = await runner.invoke({ log: [] }, { threadId: "t", taskId }));
  return log;
}

void main()
  .then(
    (value) => ({ value, events }),
    ({ code, message }: { code?: string; message: string }) => ({ code, message, events }),
  )
  .then((ended) => {
    process.stdout.write(JSON.stringify(ended), () => process.exit(0));
  });
