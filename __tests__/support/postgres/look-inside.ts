import { existsSync } from "node:fs";
import { createRequire } from "node:module";
import { MessageChannel, receiveMessageOnPort, Worker } from "node:worker_threads";
import { migrationSql } from "../../../src/postgres/index";
import { fromText, toBound } from "../../../src/testing-internal";
import { schemaAt } from "../open-saver";

/**
 * Stands in for better-sqlite3 where tests look into a store with it, on PostgreSQL (see ./resolver.cjs): a path means the schema that
 * stands for it. If there is none it's made, as a file would be when a saver opens it: so tests can have triggers before its first access. It has as much of better-sqlite3 as the tests use, and answers at once like it, by waiting for a thread.
 */
export default class Database {
  readonly #connection: Connection;

  constructor(path: string, options: object = {}) {
    this.#connection = { number: (connections += 1), schema: schemaAt(path) };
    // A file, e.g. of the official saver.
    if (existsSync(path)) {
      const Sqlite = createRequire(__filename)("better-sqlite3") as new (path: string, options: object) => never;
      return new Sqlite(path, options);
    }
  }

  prepare(text: string): Statement {
    return new Statement(this.#connection, text);
  }

  exec(text: string): this {
    // Of a file only.
    if (!text.startsWith("PRAGMA ")) ask(this.#connection, inPostgres(text), []);
    return this;
  }

  /** Of a file only. */
  pragma(): void {}

  close(): void {
    ask(this.#connection, "", []);
  }
}

interface Connection {
  readonly number: number;
  readonly schema: string;
}
let connections = 0;

class Statement {
  readonly #connection: Connection;
  readonly #text: string;
  #isPlucked = false;

  constructor(connection: Connection, text: string) {
    this.#connection = connection;
    let count = 0;
    this.#text = inPostgres(text).replace(/'[^']*'|\?(\d*)/g, (part, number: string | undefined) =>
      part.startsWith("?") ? `$${number || (count += 1)}` : part,
    );
  }

  pluck(): this {
    this.#isPlucked = true;
    return this;
  }

  all(...values: unknown[]): unknown[] {
    const { rows } = ask(this.#connection, this.#text, values);
    // As on SQLite, "*" doesn't mean it.
    if (!/\browid\b/.test(this.#text)) for (const row of rows) delete row["rowid"];
    for (const row of rows) for (const [name, value] of Object.entries(row)) row[name] = asStored(value);
    return this.#isPlucked ? rows.map((row) => Object.values(row)[0]) : rows;
  }

  get(...values: unknown[]): unknown {
    return this.all(...values)[0];
  }

  run(...values: unknown[]): { changes: number } {
    if (this.#text.startsWith("VACUUM INTO"))
      return ask(this.#connection, copied(this.#connection.schema, schemaAt(String(values[0]))), []);
    return { changes: ask(this.#connection, this.#text, values).changes };
  }
}

const RAISING =
  /CREATE TRIGGER (\w+)\s+(BEFORE|AFTER) (INSERT|UPDATE(?: OF \w+)?|DELETE) ON (\w+)(?:\s+WHEN (.*?))?\s+BEGIN\s+SELECT RAISE\(\w+, '([^']*)'\);\s+END/gis;

/** A trigger that refuses. Its condition is in the function, where it may have a subquery. */
function raising(
  _: string,
  name: string,
  time: string,
  what: string,
  table: string,
  when: string | undefined,
  message: string,
): string {
  const refuse = `IF ${when ?? "true"} THEN RAISE EXCEPTION '${message}'; END IF; RETURN ${what === "DELETE" ? "OLD" : "NEW"};`;
  const head = `CREATE OR REPLACE FUNCTION "${name}"() RETURNS trigger LANGUAGE plpgsql SET search_path FROM CURRENT`;
  return `${head} AS $body$ BEGIN ${refuse} END $body$;
    CREATE TRIGGER "${name}" ${time} ${what} ON ${table} FOR EACH ROW EXECUTE FUNCTION "${name}"()`;
}

/** The CHECKs of a table in SQLite's words. */
const CHECKS = `SELECT string_agg(regexp_replace(regexp_replace(regexp_replace(pg_get_constraintdef(oid), '::(text|bigint)', '', 'g'),
    '\\((\\d+)\\)', '\\1', 'g'),
    '\\(\\((\\w+) = ANY \\(\\(?ARRAY\\[(.*?)\\]\\)?(\\[\\])?\\)\\)\\)', '(\\1 IN (\\2))'), ', ') FROM pg_constraint WHERE conrelid = pg_class.oid`;
/** The columns of a table but its rowid. */
const COLUMNS = `(SELECT a.attnum AS cid, a.attname::text AS name, CASE WHEN a.atttypid = 20 THEN 'INTEGER' ELSE 'TEXT' END AS type,
    a.attnotnull::int AS "notnull", coalesce(array_position(i.indkey::smallint[], a.attnum), -1) + 1 AS pk
  FROM pg_attribute AS a LEFT JOIN pg_index AS i ON i.indrelid = a.attrelid AND i.indisprimary
  WHERE a.attrelid = to_regclass(?) AND a.attnum > 0 AND NOT a.attisdropped AND a.attidentity = '') AS columns`;

/** What tests say to SQLite in words of its own. */
function inPostgres(text: string): string {
  return (
    text
      .replace(RAISING, raising)
      .replace(/json_extract\((\w+), '\$\.(\w+)'\)/g, "(($1::json)->>'$2')::bigint")
      // What is deleted can't be looked for.
      .replace(/;\s*VACUUM$/, "")
      // Readers aren't held up, writers are.
      .replace("BEGIN IMMEDIATE", "BEGIN; LOCK TABLE langgraph_threads IN EXCLUSIVE MODE")
      .replace(/DROP TRIGGER (\w+)/g, 'DROP FUNCTION "$1" CASCADE')
      .replace(
        /\bsqlite_schema\b/g,
        `(SELECT 'table' AS type, relname::text COLLATE "C" AS name, (${CHECKS}) AS sql FROM pg_class
          WHERE relkind = 'r' AND relnamespace = current_schema()::regnamespace) AS tables`,
      )
      .replace(/\* FROM pragma_table_info\(\?\)/, `name, type, "notnull", pk FROM ${COLUMNS}`)
      .replace(/SELECT name FROM pragma_table_info\(\?\) ORDER BY cid/, `SELECT name FROM ${COLUMNS} ORDER BY cid`)
  );
}

/** Makes a schema with the same rows in all tables, and sequences at the same place. */
function copied(from: string, to: string): string {
  return `${migrationSql(to)};
  DO $copy$ DECLARE name text; place bigint; BEGIN
    DELETE FROM ${to}.langgraph_migrations;
    FOR name IN SELECT table_name FROM information_schema.tables WHERE table_schema = '${from}' LOOP
      EXECUTE format('INSERT INTO ${to}.%I OVERRIDING SYSTEM VALUE SELECT * FROM ${from}.%I', name, name);
    END LOOP;
    FOR name, place IN SELECT sequencename, last_value FROM pg_sequences WHERE schemaname = '${from}' LOOP
      PERFORM setval(format('${to}.%I', name)::regclass, coalesce(place, 1), place IS NOT NULL);
    END LOOP;
  END $copy$`;
}

interface Answer {
  rows: Record<string, unknown>[];
  changes: number;
  error?: string;
  code?: string;
}

const WORK = `
const { workerData: { pg, url, flag, port, migration } } = require("node:worker_threads");
const { Client, types } = require(pg);
types.setTypeParser(20, Number);
types.setTypeParser(1700, Number);
const SCHEMA = '"the schema"';
const clients = new Map();
async function clientOf({ number, schema }) {
  if (!clients.has(number)) {
    const client = new Client({ connectionString: url, options: "-c search_path=" + schema + " -c lock_timeout=5s" });
    await client.connect();
    const isThere = "SELECT 1 FROM pg_class WHERE oid = to_regclass('langgraph_migrations')";
    if ((await client.query(isThere)).rowCount === 0) {
      await client.query("BEGIN");
      await client.query("SELECT pg_advisory_xact_lock(hashtextextended($1, 0))", ["langgraph-checkpoint-turns " + schema]);
      if ((await client.query(isThere)).rowCount === 0) await client.query(migration.replaceAll(SCHEMA, schema));
      await client.query("COMMIT");
    }
    clients.set(number, client);
  }
  return clients.get(number);
}
async function answerTo({ connection, text, values }) {
  if (text !== "") {
    const result = [await (await clientOf(connection)).query(text, values.length > 0 ? values : undefined)].flat().at(-1);
    return { rows: result.rows, changes: result.rowCount };
  }
  await clients.get(connection.number)?.end();
  clients.delete(connection.number);
  return { rows: [], changes: 0 };
}
port.on("message", async ({ number, ...question }) => {
  const answer = await answerTo(question).catch((error) => ({ rows: [], changes: 0, error: error.message, code: error.code }));
  port.postMessage({ number, answer });
  Atomics.add(new Int32Array(flag), 0, 1);
  Atomics.notify(new Int32Array(flag), 0);
});
`;
const LIMIT_MS = 60_000;
let asked = 0;
let thread: { worker: Worker; port: import("node:worker_threads").MessagePort; flag: Int32Array } | undefined;

/** Waits for the answer. @throws what the server says, or if it says nothing */
function ask(connection: Connection, text: string, values: unknown[]): Answer {
  thread ??= startThread();
  const number = (asked += 1);
  thread.port.postMessage({ number, connection, text, values: values.flatMap(numbered).map(asBound) });
  const end = Date.now() + LIMIT_MS;
  let answer: Answer | undefined;
  while (answer === undefined) {
    const seen = Atomics.load(thread.flag, 0);
    answer = answerFrom(thread.port, number);
    if (answer !== undefined) break;
    if (Date.now() > end) throw new Error(`no answer: ${text}`);
    Atomics.wait(thread.flag, 0, seen, 1_000);
  }
  if (answer.error !== undefined) {
    const code = answer.code?.startsWith("23") === true ? "SQLITE_CONSTRAINT" : answer.code;
    throw Object.assign(new Error(`${answer.error}: ${text}`), { code });
  }
  return answer;
}

/** Undefined if it isn't there yet. An answer that comes after nobody waits for it any more is dropped. */
function answerFrom(port: import("node:worker_threads").MessagePort, number: number): Answer | undefined {
  for (let found = receiveMessageOnPort(port); found !== undefined; found = receiveMessageOnPort(port)) {
    const message = found.message as { number: number; answer: Answer };
    if (message.number === number) return message.answer;
  }
  return undefined;
}

/** Bytes and some characters are written as text of another kind. */
function asStored(value: unknown): unknown {
  const stored = typeof value === "string" ? fromText(value) : value;
  return stored instanceof Uint8Array ? Buffer.from(stored) : stored;
}

function asBound(value: unknown): unknown {
  return typeof value === "string" || value instanceof Uint8Array ? toBound(value) : value;
}

/** The values of `{ 1: …, 2: … }`. */
function numbered(value: unknown): unknown {
  const isPlain = value !== null && Object.getPrototypeOf(value) === Object.prototype;
  return isPlain ? Object.values(value as object) : value;
}

function startThread(): NonNullable<typeof thread> {
  const { port1, port2 } = new MessageChannel();
  const flag = new SharedArrayBuffer(4);
  const data = {
    pg: require.resolve("pg"),
    url: process.env["TURNS_PG_DIRECT_URL"],
    flag,
    port: port2,
    migration: migrationSql("the schema"),
  };
  const worker = new Worker(WORK, { eval: true, workerData: data, transferList: [port2] });
  worker.unref();
  port1.unref();
  return { worker, port: port1, flag: new Int32Array(flag) };
}

afterAll(async () => {
  await thread?.worker.terminate();
  thread = undefined;
});
