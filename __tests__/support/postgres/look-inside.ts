import { existsSync } from "node:fs";
import { createRequire } from "node:module";
import { MessageChannel, receiveMessageOnPort, Worker } from "node:worker_threads";
import { schemaAt } from "../open-saver";

/**
 * Stands in for better-sqlite3 where tests look into a store with it, on PostgreSQL (see ./resolver.cjs): a path means the schema that
 * stands for it. It has as much of better-sqlite3 as the tests use, and answers at once like it, by waiting for a thread.
 */
export default class Database {
  readonly #schema: string;

  constructor(path: string, options: object = {}) {
    this.#schema = schemaAt(path);
    // A file, e.g. of the official saver.
    if (existsSync(path)) {
      const Sqlite = createRequire(__filename)("better-sqlite3") as new (path: string, options: object) => never;
      return new Sqlite(path, options);
    }
  }

  prepare(text: string): Statement {
    return new Statement(this.#schema, text);
  }

  exec(text: string): this {
    ask(this.#schema, inPostgres(text), []);
    return this;
  }

  /** Of a file only. */
  pragma(): void {}

  close(): void {}
}

class Statement {
  readonly #schema: string;
  readonly #text: string;
  #isPlucked = false;

  constructor(schema: string, text: string) {
    this.#schema = schema;
    let count = 0;
    this.#text = inPostgres(text).replace(/'[^']*'|\?/g, (part) => (part === "?" ? `$${(count += 1)}` : part));
  }

  pluck(): this {
    this.#isPlucked = true;
    return this;
  }

  all(...values: unknown[]): unknown[] {
    const { rows } = ask(this.#schema, this.#text, values);
    return this.#isPlucked ? rows.map((row) => Object.values(row)[0]) : rows;
  }

  get(...values: unknown[]): unknown {
    return this.all(...values)[0];
  }

  run(...values: unknown[]): { changes: number } {
    return { changes: ask(this.#schema, this.#text, values).changes };
  }
}

const RAISING =
  /CREATE TRIGGER (\w+) (BEFORE|AFTER) (INSERT|UPDATE|DELETE) ON (\w+)(?: WHEN (.*?))? BEGIN SELECT RAISE\(\w+, '([^']*)'\); END/g;

/** What tests say to SQLite in words of its own. */
function inPostgres(text: string): string {
  return text
    .replace(RAISING, (_, name: string, time: string, what: string, table: string, when: string | undefined, message: string) => {
      const refuse = `CREATE OR REPLACE FUNCTION ${name}() RETURNS trigger LANGUAGE plpgsql AS 'BEGIN RAISE EXCEPTION ''${message}''; END'`;
      const condition = when === undefined ? "" : ` WHEN (${when})`;
      return `${refuse}; CREATE TRIGGER ${name} ${time} ${what} ON ${table} FOR EACH ROW${condition} EXECUTE FUNCTION ${name}()`;
    })
    .replace(/DROP TRIGGER (\w+)/g, "DROP FUNCTION $1 CASCADE")
    .replace(
      /\bsqlite_schema\b/g,
      "(SELECT 'table' AS type, table_name::text COLLATE \"C\" AS name FROM information_schema.tables WHERE table_schema = current_schema()) AS tables",
    )
    .replace(
      /SELECT name FROM pragma_table_info\(\?\) ORDER BY cid/,
      "SELECT column_name::text AS name FROM information_schema.columns WHERE table_schema = current_schema() AND table_name = ? ORDER BY ordinal_position",
    );
}

interface Answer {
  rows: Record<string, unknown>[];
  changes: number;
  error?: string;
}

const WORK = `
const { workerData: { pg, url, flag, port } } = require("node:worker_threads");
const { Client, types } = require(pg);
types.setTypeParser(20, Number);
types.setTypeParser(1700, Number);
const clients = new Map();
async function clientOf(schema) {
  const client = clients.get(schema) ?? new Client({ connectionString: url, options: "-c search_path=" + schema + " -c lock_timeout=5s" });
  if (!clients.has(schema)) await client.connect();
  clients.set(schema, client);
  return client;
}
port.on("message", async ({ schema, text, values }) => {
  let answer;
  try {
    const results = [await (await clientOf(schema)).query(text, values.length > 0 ? values : undefined)].flat();
    answer = { rows: results.at(-1).rows, changes: results.at(-1).rowCount };
  } catch (error) {
    answer = { rows: [], changes: 0, error: error.message };
  }
  port.postMessage(answer);
  Atomics.store(new Int32Array(flag), 0, 1);
  Atomics.notify(new Int32Array(flag), 0);
});
`;
const LIMIT_MS = 20_000;
let thread: { worker: Worker; port: import("node:worker_threads").MessagePort; flag: Int32Array } | undefined;

/** Waits for the answer. @throws what the server says, or if it says nothing */
function ask(schema: string, text: string, values: unknown[]): Answer {
  thread ??= startThread();
  Atomics.store(thread.flag, 0, 0);
  thread.port.postMessage({ schema, text, values: values.flat() });
  if (Atomics.wait(thread.flag, 0, 0, LIMIT_MS) === "timed-out") throw new Error(`no answer: ${text}`);
  const { message } = receiveMessageOnPort(thread.port) as { message: Answer };
  if (message.error !== undefined) throw new Error(`${message.error}: ${text}`);
  return message;
}

function startThread(): NonNullable<typeof thread> {
  const { port1, port2 } = new MessageChannel();
  const flag = new SharedArrayBuffer(4);
  const data = { pg: require.resolve("pg"), url: process.env["TURNS_PG_DIRECT_URL"], flag, port: port2 };
  const worker = new Worker(WORK, { eval: true, workerData: data, transferList: [port2] });
  worker.unref();
  port1.unref();
  return { worker, port: port1, flag: new Int32Array(flag) };
}

afterAll(async () => {
  await thread?.worker.terminate();
  thread = undefined;
});
