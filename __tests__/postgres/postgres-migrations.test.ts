import { spawn } from "node:child_process";
import { join } from "node:path";
import { createInterface } from "node:readline";
import { Client, Pool } from "pg";
import { emptyCheckpoint } from "@langchain/langgraph-checkpoint";
import { migrationSql, PostgresTurnSaver } from "langgraph-checkpoint-turns/postgres";
import { ALL_TABLES, Connection, migratePostgres, type Migration } from "../../src/testing-internal";
import { CHILD_ENV, childProgram } from "../support/child-program";
import { runs } from "../support/lane";
import { schemaAt } from "../support/open-saver";
import { PostgresProxy } from "../support/postgres/proxy";
import { quiet } from "../support/s1-tools";

const url = process.env["TURNS_PG_URL"]!;
let made = 0;
const newSchema = (): string => schemaAt(`migrations ${(made += 1)}`);
let client: Client;
beforeAll(async () => {
  client = new Client(process.env["TURNS_PG_DIRECT_URL"]);
  await client.connect();
});
afterAll(() => client.end());

/** Columns, indexes and options of everything in a schema, without its name. */
async function described(schema: string): Promise<unknown> {
  const columns = await client.query(
    `SELECT table_name, column_name, data_type, collation_name, is_nullable, column_default FROM information_schema.columns
      WHERE table_schema = $1 ORDER BY table_name, ordinal_position`,
    [schema],
  );
  const relations = await client.query(
    `SELECT c.relname, c.relkind, c.reloptions, pg_get_indexdef(c.oid) AS index FROM pg_class AS c
      WHERE c.relnamespace = (SELECT oid FROM pg_namespace WHERE nspname = $1) ORDER BY c.relname`,
    [schema],
  );
  return JSON.parse(JSON.stringify([columns.rows, relations.rows]).replaceAll(schema, "it"));
}

const columnsOf = async (schema: string, table: string) =>
  (
    await client.query<{ name: string; type: string; nullable: string }>(
      `SELECT column_name AS name, data_type AS type, is_nullable AS nullable FROM information_schema.columns
        WHERE table_schema = $1 AND table_name = $2 AND is_identity = 'NO' ORDER BY ordinal_position`,
      [schema, table],
    )
  ).rows;

test("S9.5 PostgreSQL: of eight savers that start at once on a new schema, one migrates and all work", async () => {
  for (let round = 0; round < 5; round += 1) {
    const schema = newSchema();
    const savers = Array.from({ length: 8 }, () => PostgresTurnSaver.fromConnString(url, { schema, logger: quiet }));
    await Promise.all(savers.map((saver) => saver.setup()));
    const { rows } = await client.query(`SELECT version FROM "${schema}".langgraph_migrations`);
    expect(rows).toHaveLength(1);
    await Promise.all(savers.map((saver) => saver.close()));
  }
});

test("S9.5 PostgreSQL: creating all tables takes nine round trips at most, with those of connecting", async () => {
  const proxy = await PostgresProxy.inFrontOf(process.env["TURNS_PG_DIRECT_URL"]!);
  proxy.delay = { toServer: 3, toClient: 3 };
  const saver = PostgresTurnSaver.fromConnString(proxy.url, { schema: newSchema(), logger: quiet });
  await saver.setup();
  expect(proxy.roundTrips).toBeLessThanOrEqual(9);
  await saver.close();
  await proxy.close();
});

test("S9.5 PostgreSQL: of processes that start at once on a new schema, one migrates and all save", async () => {
  const [count, rounds] = [8, runs(10, 40)];
  const children = Array.from({ length: count }, () =>
    spawn(process.execPath, childProgram(join(__dirname, "migrate-child.ts")), {
      env: CHILD_ENV,
      stdio: ["pipe", "pipe", "inherit"],
    }),
  );
  const answers = children.map(({ stdout }) => createInterface(stdout)[Symbol.asyncIterator]());
  const together = (schema: string): Promise<unknown[]> => {
    for (const { stdin } of children) stdin.write(`${schema}\n`);
    return Promise.all(answers.map(async (lines) => (await lines.next()).value as unknown));
  };
  await together(newSchema());
  for (let round = 0; round < rounds; round += 1) {
    const schema = newSchema();
    expect(await together(schema)).toEqual(Array(count).fill("saved"));
    const { rows } = await client.query(`SELECT version FROM "${schema}".langgraph_migrations`);
    expect(rows).toHaveLength(1);
    expect((await client.query(`SELECT FROM "${schema}".langgraph_threads`)).rowCount).toBe(count);
  }
  for (const { stdin } of children) stdin.end();
}, 300_000);

test("PostgreSQL: the schema has the tables that the programs know, with their columns in order", async () => {
  const schema = newSchema();
  const saver = PostgresTurnSaver.fromConnString(url, { schema, logger: quiet });
  await saver.setup();
  await saver.close();
  for (const { name, columns } of ALL_TABLES) {
    const expected = Object.entries(columns).map(([column, { type, nullable }]) => ({
      name: column,
      type: type === "integer" ? "bigint" : "text",
      nullable: nullable ? "YES" : "NO",
    }));
    expect([name, await columnsOf(schema, name)]).toEqual([name, expected]);
  }
  const turns = (await columnsOf(schema, "langgraph_checkpoints")).slice(0, 7).map(({ name }) => name);
  expect(turns).toEqual(["id", "graph_id", "node_name", "turn_type", "serialized_state", "task_id", "created_at"]);
});

test("S9.5 PostgreSQL: the printed SQL makes the same schema, and a saver that never migrates works with it", async () => {
  const [printed, migrated] = [newSchema(), newSchema()];
  const refused = PostgresTurnSaver.fromConnString(url, { schema: printed, migrate: "never", logger: quiet });
  const refusal = (await refused.setup().catch((error: unknown) => error)) as Error;
  expect(refusal).toMatchObject({ code: "SCHEMA_OUTDATED", data: { schema: printed, found: 0 } });
  expect(refusal.message).toContain(`npx turns migrate --db URL --schema '${printed}' --yes`);
  await client.query(`BEGIN; ${migrationSql(printed)}; COMMIT`);
  await refused.setup();
  await refused.close();
  const saver = PostgresTurnSaver.fromConnString(url, { schema: migrated, logger: quiet });
  await saver.setup();
  await saver.close();
  expect(await described(printed)).toEqual(await described(migrated));
});

test("S9.5 PostgreSQL: a newer schema is refused, and nothing in it is changed", async () => {
  const schema = newSchema();
  await client.query(migrationSql(schema));
  await client.query(`INSERT INTO "${schema}".langgraph_migrations VALUES (99, 'later', '', '')`);
  const before = await described(schema);
  for (const migrate of ["auto", "never"] as const) {
    const saver = PostgresTurnSaver.fromConnString(url, { schema, migrate, logger: quiet });
    await expect(saver.setup()).rejects.toMatchObject({ code: "SCHEMA_TOO_NEW", data: { found: 99 } });
    await expect(saver.getTuple({ configurable: { thread_id: "t" } })).rejects.toMatchObject({ code: "SCHEMA_TOO_NEW" });
    await saver.close();
  }
  expect(await described(schema)).toEqual(before);
});

test("S9.5 PostgreSQL: a name that somebody else has taken is named, and nothing is created", async () => {
  const schema = newSchema();
  await client.query(
    `CREATE SCHEMA "${schema}"; CREATE TABLE "${schema}".langgraph_turns (id int); CREATE TABLE "${schema}".langgraph_names (id int)`,
  );
  const saver = PostgresTurnSaver.fromConnString(url, { schema, logger: quiet });
  await expect(saver.setup()).rejects.toMatchObject({ code: "SCHEMA_CONFLICT", data: { table: "langgraph_names" } });
  await saver.close();
  expect(await columnsOf(schema, "langgraph_threads")).toEqual([]);
});

test.each(["TRUNCATE", "DROP TABLE"])(
  "S9.5 PostgreSQL: %s of the record of migrations is named as what it is, and the statements that it names repair it",
  async (damage) => {
    const schema = newSchema();
    await client.query(migrationSql(schema));
    await client.query(`${damage} "${schema}".langgraph_migrations`);
    const saver = PostgresTurnSaver.fromConnString(url, { schema, logger: quiet });
    const refused = await saver.setup().catch((error: unknown) => error as Error);
    expect(refused).toMatchObject({ code: "SCHEMA_CONFLICT", data: { table: "langgraph_migrations" } });
    expect(String(refused)).toMatch(/has the tables of this package.*migrationSql\(/);
    const statements = migrationSql(schema).split(";\n").filter((sql) => /^\s*(CREATE TABLE IF NOT EXISTS|INSERT INTO) [^ ]*langgraph_migrations/.test(sql)); // prettier-ignore
    expect(statements).toHaveLength(2);
    for (const sql of statements) await client.query(sql);
    await saver.setup();
    expect(await saver.verify()).toMatchObject({ ok: true, databaseOk: true });
    await saver.close();
  },
);

test("S9.5 PostgreSQL: a migration that fails leaves the schema as it was; the next one applies what is missing", async () => {
  const schema = newSchema();
  const pool = new Pool({ connectionString: url });
  const place = { database: "test", schema };
  const first: Migration = { version: 1, name: "one", sql: 'CREATE TABLE :"schema".one (id int);\n' };
  const bad: Migration = { version: 2, name: "bad", sql: 'CREATE TABLE :"schema".two (id int);\nSELECT 1 / 0;\n' };
  const good: Migration = { version: 2, name: "good", sql: 'CREATE TABLE :"schema".two (id int);\n' };
  const migrated = async (...migrations: Migration[]): Promise<void> => {
    const connection = await Connection.from(pool, 10_000, 10_000);
    try {
      await migratePostgres(connection, place, migrations);
    } finally {
      connection.release();
    }
  };
  await migrated(first);
  await expect(migrated(first, bad)).rejects.toMatchObject({ code: "22012" });
  expect(await columnsOf(schema, "two")).toEqual([]);
  await migrated(first, good);
  expect(await columnsOf(schema, "two")).toHaveLength(1);
  await pool.end();
});

/** As on a database whose tables are huge: each migration takes longer than the role's limits and the saver's patience allow. */
test("S9.5 PostgreSQL: a migration may take longer than any timeout, and those who wait for it too", async () => {
  const limits = ["statement_timeout", "lock_timeout", "idle_in_transaction_session_timeout"].map((name) => `-c ${name}=200`);
  const pool = new Pool({ connectionString: process.env["TURNS_PG_DIRECT_URL"], options: limits.join(" ") });
  const place = { database: "test", schema: newSchema() };
  const slow = ["one", "two"].map((name, at): Migration => {
    const sql = `CREATE TABLE :"schema".${name} (id int);\nSELECT pg_sleep(1);\n`;
    return { version: at + 1, name, sql };
  });
  const migrated = async (): Promise<void> => {
    const connection = await Connection.from(pool, 10_000, 500);
    try {
      await migratePostgres(connection, place, slow);
    } finally {
      connection.release();
    }
  };
  await Promise.all([migrated(), migrated(), migrated()]);
  expect((await client.query(`SELECT FROM "${place.schema}".langgraph_migrations`)).rowCount).toBe(2);
  // The limits end with the transaction.
  expect((await pool.query("SHOW statement_timeout")).rows).toEqual([{ statement_timeout: "200ms" }]);
  await pool.end();
});

test("S9.5 PostgreSQL: a schema may have a name with dollar signs, quotes and ends of statements", async () => {
  for (const schema of ["tenant$1", "a$&b", "x;\n", "a'b", 'a"b', "a.b", "what?", "--a", "a\\b", "ü 😀"]) {
    const saver = PostgresTurnSaver.fromConnString(url, { schema, logger: quiet });
    await saver.setup();
    const byHand = newSchema();
    await saver.put({ configurable: { thread_id: "t" } }, emptyCheckpoint(), { source: "input", step: -1, parents: {} }, {});
    expect(await saver.getTuple({ configurable: { thread_id: "t" } })).toBeDefined();
    expect((await saver.verify()).problems).toEqual([]);
    await saver.close();
    const created = await described(schema);
    await client.query(`ALTER SCHEMA "${schema.replaceAll('"', '""')}" RENAME TO ${byHand}`);
    await client.query(migrationSql(schema));
    expect(await described(schema)).toEqual(created);
    await client.query(`DROP SCHEMA "${schema.replaceAll('"', '""')}" CASCADE`);
  }
}, 300_000);

test("PostgreSQL: a pool of the user is used and never closed; options of files are refused", async () => {
  const pool = new Pool({ connectionString: url });
  const saver = new PostgresTurnSaver(pool, { schema: newSchema(), logger: quiet });
  await saver.setup();
  await saver.close();
  expect((await pool.query("SELECT 1 AS it")).rows).toEqual([{ it: 1 }]);
  await expect(saver.getTuple({ configurable: { thread_id: "t" } })).rejects.toMatchObject({ code: "STORE_CLOSED" });
  expect(() => new PostgresTurnSaver(pool, { driver: "node:sqlite" } as object)).toThrow(/Option "driver" is for SQLite files/);
  expect(() => new PostgresTurnSaver(pool, { schema: "x".repeat(64) })).toThrow(/schema/);
  await pool.end();
});

test("PostgreSQL: messages name the database and never its password", async () => {
  const saver = PostgresTurnSaver.fromConnString("postgresql://somebody:secret@127.0.0.1:1/nowhere", {
    busyTimeoutMs: 0,
    logger: quiet,
  });
  const failure = (await saver.setup().catch((error: unknown) => error)) as Error;
  expect(failure).toMatchObject({ code: "STORE_UNAVAILABLE" });
  expect(failure.message).toContain("127.0.0.1:1/nowhere (schema turns)");
  expect(JSON.stringify([failure.message, failure.stack, (failure as unknown as { data: unknown }).data])).not.toContain(
    "secret",
  );
  await saver.close();
});
