import { emptyCheckpoint } from "@langchain/langgraph-checkpoint";
import { PostgresTurnSaver } from "langgraph-checkpoint-turns/postgres";
import { type Client, Pool } from "pg";
import { CommitInDoubt, migratePostgres, PostgresEngine, type Program } from "../../src/testing-internal";
import { schemaAt } from "../support/open-saver";
import { startPgBouncer } from "../support/postgres/pgbouncer";
import { PostgresProxy } from "../support/postgres/proxy";
import { rowsRead } from "../support/postgres/rows-read";
import { quiet } from "../support/s1-tools";

/** Statements go out together, and where no pooler is in between, the server keeps those that come often. */
const direct = process.env["TURNS_PG_DIRECT_URL"]!;
const schema = schemaAt("plans");
const KEPT = "SELECT name, statement FROM pg_prepared_statements WHERE statement LIKE $1";
const OURS = `%"${schema}".%`;
const SAVES = 12;
const pools: Pool[] = [];

function poolOf(connectionString: string, options: object = {}): Pool {
  const pool = new Pool({ connectionString, max: 1, ...options });
  pool.on("error", () => undefined);
  pools.push(pool);
  return pool;
}

function saverOn(pool: Pool): PostgresTurnSaver {
  return new PostgresTurnSaver(pool, { schema, logger: quiet, busyTimeoutMs: 5_000 });
}

async function engineOn(pool: Pool, itsSchema = schema): Promise<PostgresEngine> {
  const engine = new PostgresEngine(() => pool, { name: "test", schema: itsSchema, busyTimeoutMs: 5_000 });
  await engine.connected((connection) => migratePostgres(connection, { database: "test", schema: itsSchema }));
  return engine;
}

function* insert(name: string, value: string | null): Program {
  yield { text: "INSERT INTO langgraph_settings (name, value) VALUES (?, ?)", values: [name, value], returns: "none" };
}

const thread = (id: string) => ({ configurable: { thread_id: id, checkpoint_ns: "" } });

async function save(saver: PostgresTurnSaver, id: string, count = SAVES): Promise<void> {
  for (let at = 0; at < count; at += 1) {
    const checkpoint = { ...emptyCheckpoint(), channel_values: { log: [at] }, channel_versions: { log: at + 1 } };
    await saver.put(thread(id), checkpoint, { source: "loop", step: at, parents: {} }, { log: at + 1 });
  }
}

async function countOf(saver: PostgresTurnSaver, id: string): Promise<number> {
  let count = 0;
  for await (const _ of saver.list(thread(id))) count += 1;
  return count;
}

afterEach(async () => {
  await Promise.all(pools.splice(0).map((pool) => pool.end()));
});

test("S9.2 PostgreSQL: the server keeps the statements of a save, and their plans find rows by index however small the tables are", async () => {
  const pool = poolOf(direct);
  const saver = saverOn(pool);
  await saver.setup();
  await save(saver, "a", 1);
  await pool.query(`ANALYZE "${schema}".langgraph_threads`);
  await save(saver, "a");
  const { rows } = await pool.query<{ name: string; statement: string }>(KEPT, [OURS]);
  expect(rows.map(({ statement }) => /langgraph_\w+/.exec(statement)?.[0])).toEqual(
    expect.arrayContaining(["langgraph_commits", "langgraph_snapshots", "langgraph_threads"]),
  );
  const guard = rows.find(({ statement }) => statement.includes("FOR NO KEY UPDATE"))!;
  // A plan is kept for the path that it was made for.
  await pool.query("BEGIN");
  await pool.query("SET LOCAL search_path TO pg_catalog");
  const plan = await pool.query<{ "QUERY PLAN": string }>(`EXPLAIN EXECUTE "${guard.name}" (1, 2, 3)`);
  await pool.query("COMMIT");
  expect(plan.rows.map((row) => row["QUERY PLAN"]).join("\n")).toMatch(/Index Scan using langgraph_threads_pkey/);
  await saver.close();
});

test("S9.2 PostgreSQL: a page of a thread's checkpoints reads their rows alone, however many the thread has", async () => {
  const pool = poolOf(direct);
  const saver = saverOn(pool);
  await save(saver, "long", 400);
  await pool.query(`ANALYZE "${schema}".langgraph_snapshots, "${schema}".langgraph_writes, "${schema}".langgraph_chunks`);
  const before = await rowsRead(pool, schema);
  let listed = 0;
  for await (const _ of saver.list(thread("long"), { limit: 10 })) listed += 1;
  expect(listed).toBe(10);
  expect((await rowsRead(pool, schema)) - before).toBeLessThan(100);
  await saver.close();
});

test("S9.2 PostgreSQL: the settings for plans end with the transaction", async () => {
  const pool = poolOf(direct);
  const saver = saverOn(pool);
  await save(saver, "settings");
  for (const name of ["enable_seqscan", "jit", "lock_timeout", "idle_in_transaction_session_timeout"]) {
    const { rows } = await pool.query<{ setting: string; reset_val: string }>(
      "SELECT setting, reset_val FROM pg_settings WHERE name = $1",
      [name],
    );
    expect(rows[0]?.setting).toBe(rows[0]?.reset_val);
  }
  await saver.close();
});

test("S9.2 PostgreSQL: no statement has a name where a pooler is in between", async () => {
  const pooler = await startPgBouncer(direct, { poolSize: 1 });
  try {
    const saver = saverOn(poolOf(pooler.url));
    await save(saver, "pooled");
    expect(await countOf(saver, "pooled")).toBe(SAVES);
    const { rows } = await poolOf(pooler.url).query(KEPT, [OURS]);
    expect(rows).toEqual([]);
    await saver.close();
  } finally {
    await pooler.stop();
  }
});

test.each(["DISCARD ALL", "DEALLOCATE ALL"])("S9.2 PostgreSQL: a transaction survives %s on its connection", async (forget) => {
  const pool = poolOf(direct);
  const engine = await engineOn(pool);
  const count = async (): Promise<number> => (await pool.query(KEPT, [OURS])).rows.length;
  for (let at = 0; at < SAVES; at += 1) await engine.write(() => insert(`${forget} ${at}`, "1"));
  expect(await count()).toBeGreaterThan(0);
  await pool.query(forget);
  for (let at = 0; at < SAVES; at += 1) await engine.write(() => insert(`${forget} again ${at}`, "1"));
  // Somebody else rules over this connection.
  expect(await count()).toBe(0);
  await engine.close();
});

test("S9.2 PostgreSQL: a plan for columns that somebody has given another type is made again", async () => {
  const other = schemaAt("plans, altered");
  const pool = poolOf(direct);
  const engine = await engineOn(pool, other);
  const valueOf = () =>
    engine.write(function* (): Program<unknown> {
      return yield { text: "SELECT value FROM langgraph_settings WHERE name = ?", values: ["altered"], returns: "one" };
    });
  await engine.write(() => insert("altered", "1"));
  for (let at = 0; at < SAVES; at += 1) expect(await valueOf()).toEqual({ value: "1" });
  await pool.query(`ALTER TABLE "${other}".langgraph_settings ALTER COLUMN value TYPE bigint USING value::bigint`);
  for (let at = 0; at < SAVES; at += 1) expect(await valueOf()).toEqual({ value: 1 });
  await engine.close();
});

test("S9.3 PostgreSQL: a pool in pipeline mode is in it again when it gets its connection", async () => {
  const pool = poolOf(direct, { pipeline: true });
  const saver = saverOn(pool);
  await save(saver, "pipelined");
  const client = await pool.connect();
  expect((client as unknown as Client & { pipeline: boolean }).pipeline).toBe(true);
  const both = await Promise.all([client.query("SELECT 1 AS one"), client.query("SELECT 2 AS two")]);
  expect(both.map(({ rows }) => rows)).toEqual([[{ one: 1 }], [{ two: 2 }]]);
  client.release();
  await saver.close();
});

test("S9.3 PostgreSQL: nothing of a batch is done behind a statement that fails", async () => {
  const pool = poolOf(direct);
  const engine = await engineOn(pool);
  const program = function* (): Program {
    yield* insert("before", "1");
    yield* insert("fails", null);
    yield* insert("behind", "1");
  };
  await expect(engine.write(program)).rejects.toMatchObject({ data: { sqlstate: "23502" } });
  // The connection is fit for use, and in no transaction.
  const { rows } = await pool.query(
    `SELECT name FROM "${schema}".langgraph_settings WHERE name IN ('before', 'fails', 'behind')`,
  );
  expect(rows).toEqual([]);
  await engine.close();
});

test("S9.3 PostgreSQL: a commit is in doubt if a pooler says that it lost its server before the answer", async () => {
  const proxy = await PostgresProxy.inFrontOf(direct);
  const pooler = await startPgBouncer(proxy.url, { poolSize: 1 });
  try {
    const engine = await engineOn(poolOf(pooler.url));
    proxy.fate = (message) => {
      // The server has answered all of the batch in one piece. Nothing of that arrives.
      if (message.from !== "server" || message.type !== "C" || message.text !== "BEGIN") return "pass";
      proxy.fate = () => "pass";
      return "cut";
    };
    const failure: unknown = await engine.write(() => insert("pooled", "1")).catch((error: unknown) => error);
    expect(failure).toBeInstanceOf(CommitInDoubt);
    expect(await (failure as CommitInDoubt).isCommitted()).toBe(true);
    await engine.close();
  } finally {
    await pooler.stop();
    await proxy.close();
  }
});
