import { randomBytes } from "node:crypto";
import { emptyCheckpoint } from "@langchain/langgraph-checkpoint";
import { defineEffect, type TurnsError } from "langgraph-checkpoint-turns";
import { vacuum } from "langgraph-checkpoint-turns/maintenance";
import { migrationSql, PostgresTurnSaver, type PostgresTurnSaverOptions } from "langgraph-checkpoint-turns/postgres";
import { pgTransactions } from "langgraph-checkpoint-turns/transactions";
import { Client, Pool } from "pg";
import { setRoundTripHook } from "../../src/testing-internal";
import { line, thread } from "../support/eff-world";
import { type PostgresServer, startServer } from "../support/postgres/server";
import { quiet } from "../support/s1-tools";

/** What strangers in a database, its encoding and a schema's name could do to the saver: on a server of which we are the superuser. */
let server: PostgresServer;
beforeAll(async () => {
  server = await startServer();
});
afterAll(() => server?.stop());

async function databaseOf(options = ""): Promise<string> {
  const name = `safe_${randomBytes(4).toString("hex")}`;
  await run(server.adminUrl, `CREATE DATABASE ${name} ${options}`);
  return server.adminUrl.replace(/\/turns$/, `/${name}`);
}

async function run(url: string, ...statements: string[]): Promise<any[]> {
  const client = new Client(url);
  await client.connect();
  try {
    let rows: any[] = [];
    for (const statement of statements) ({ rows } = await client.query(statement));
    return rows;
  } finally {
    await client.end();
  }
}

async function withSaver<T>(
  url: string,
  options: PostgresTurnSaverOptions,
  use: (saver: PostgresTurnSaver) => Promise<T>,
): Promise<T> {
  const saver = PostgresTurnSaver.fromConnString(url, { logger: quiet, busyTimeoutMs: 5_000, ...options });
  try {
    return await use(saver);
  } finally {
    await saver.close();
  }
}

const save = (saver: PostgresTurnSaver, id: string): Promise<unknown> =>
  saver.put(thread(id), emptyCheckpoint(), { source: "input", step: -1, parents: {} }, {});

async function used(saver: PostgresTurnSaver): Promise<void> {
  await saver.setup();
  for (let at = 0; at < 4; at += 1) await save(saver, "t");
  await saver.putWrites((await saver.getTuple(thread("t")))!.config, [["log", "value"]], "task");
  await saver.getTuple(thread("t"));
  for await (const _ of saver.list(thread("t"))) break;
  await saver.turns.list("t");
  expect(await saver.verify()).toMatchObject({ ok: true });
  await saver.prune({ keepTasks: 1 });
  await saver.deleteThread("t");
}

/** They match better than the server's own, wherever a text isn't exact. */
const FUNCTIONS = [
  ...["hashtextextended(text, int)", "count(int)", "strpos(text, unknown)", "floor(int)", "nextval(text)", "nextval(unknown)"],
  ...[
    "set_config(text, text, text)",
    "pg_advisory_xact_lock(int)",
    "max(int)",
    "pg_notify(unknown, unknown)",
    "to_regclass(unknown)",
  ],
].filter((signature) => !signature.includes("unknown"));
const OPERATORS = [
  ...["=(oid, regclass)", "=(oid, regnamespace)", "*(numeric, int)", "*(bigint, interval)", "+(numeric, int)", ">(numeric, int)"],
  ...["=(numeric, int)", "->(jsonb, jsonb)", "<(numeric, bigint)", "=(name, varchar)"],
];

function stolen(schema: string): string[] {
  const body = (returns: string) =>
    `RETURNS ${returns} LANGUAGE plpgsql AS $f$ BEGIN EXECUTE 'ALTER ROLE mallory SUPERUSER'; RETURN NULL; END $f$`;
  return [
    ...FUNCTIONS.map((signature) => `CREATE FUNCTION ${schema}.${signature} ${body("bigint")}`),
    ...OPERATORS.flatMap((signature, at) => {
      const [, operator, left, right] = /^(\S+?)\((\w+), (\w+)\)$/.exec(signature)!;
      return [
        `CREATE FUNCTION ${schema}.op${at}(${left}, ${right}) ${body("boolean")}`,
        `CREATE OPERATOR ${schema}.${operator} (LEFTARG = ${left}, RIGHTARG = ${right}, PROCEDURE = ${schema}.op${at})`,
      ];
    }),
  ];
}

test("S9.3 PostgreSQL: functions and operators that a stranger has put into public are never called", async () => {
  const url = await databaseOf();
  await run(url, "CREATE ROLE mallory", "GRANT CREATE ON SCHEMA public TO PUBLIC", "SET ROLE mallory", ...stolen("public"));
  await withSaver(url, { notify: true }, used);
  const pool = new Pool({ connectionString: url });
  const tx = pgTransactions(pool);
  await tx.complete({ key: "k", threadId: "t", name: "e", tries: 1 }, () => "text");
  await tx.prune({ olderThanMs: 0 });
  await pool.end();
  expect(await run(url, "SELECT rolsuper FROM pg_roles WHERE rolname = 'mallory'")).toEqual([{ rolsuper: false }]);
});

test("S9.3 PostgreSQL: a search_path that puts others before pg_catalog changes nothing, and stays the connection's own", async () => {
  const url = await databaseOf();
  const raises = "LANGUAGE plpgsql AS $f$ BEGIN RAISE EXCEPTION 'stolen'; END $f$";
  await run(
    url,
    "CREATE SCHEMA evil",
    `CREATE FUNCTION evil.set_config(text, text, boolean) RETURNS text ${raises}`,
    `CREATE FUNCTION evil.pg_backend_pid() RETURNS int ${raises}`,
    `CREATE FUNCTION evil.clock_timestamp() RETURNS timestamptz ${raises}`,
    `CREATE FUNCTION evil.starts_with(text, text) RETURNS boolean ${raises}`,
    `CREATE FUNCTION evil.same(bigint, bigint) RETURNS boolean ${raises}`,
  );
  await withSaver(url, {}, (saver) => saver.setup());
  await run(url, "CREATE OPERATOR evil.= (LEFTARG = bigint, RIGHTARG = bigint, PROCEDURE = evil.same)");
  const pool = new Pool({ connectionString: url, max: 1, options: "-c search_path=evil,public,pg_catalog" });
  const saver = new PostgresTurnSaver(pool, { logger: quiet });
  await saver.setup();
  for (let at = 0; at < 4; at += 1) await save(saver, "t");
  await saver.getTuple(thread("t"));
  expect((await pool.query("SHOW search_path")).rows).toEqual([{ search_path: "evil,public,pg_catalog" }]);
  await saver.close();
  await pool.end();
});

/** What stands before a parenthesis and is no function. */
const SYNTAX =
  /^(AND|ANY|AS|BY|CASE|CHECK|COALESCE|EXISTS|EXTRACT|FROM|IN|KEY|NOT|ON|OR|SELECT|SET|THEN|UNIQUE|VACUUM|VALUES|WHEN|WHERE|WITH)$/i;

test("S9.3 PostgreSQL: every transaction has a search_path of its own, and what is sent before it names pg_catalog", async () => {
  const bare: string[] = [];
  let sent = 0;
  setRoundTripHook((texts) => {
    let isSafe = texts[0]?.startsWith("BEGIN") !== true && isInTransaction(texts);
    for (const text of texts) {
      sent += 1;
      if (!isSafe) bare.push(...callsOf(text));
      isSafe ||= /SET LOCAL search_path TO pg_catalog|pg_catalog\.set_config\('search_path', 'pg_catalog', true\)/.test(text);
    }
  });
  const url = await databaseOf();
  await withSaver(url, { notify: true }, used).finally(() => setRoundTripHook(undefined));
  expect(sent).toBeGreaterThan(50);
  expect([...new Set(bare)]).toEqual([]);
});

/** Of a batch that doesn't begin a transaction: whether it's about the saver's rows, which only transactions are. */
function isInTransaction(texts: readonly string[]): boolean {
  return !texts.some((text) => /pg_notify|to_regclass\(\$1\)|VACUUM|langgraph_migrations$/.test(text));
}

function callsOf(text: string): string[] {
  const code = text
    .replace(/'(?:[^']|'')*'/g, "''")
    .replace(/(INSERT INTO|REFERENCES|INDEX \w+ ON|TABLE IF NOT EXISTS) \S+ \(/g, "");
  return [...code.matchAll(/([\w.]+) ?\(/g)]
    .map(([, name]) => name!)
    .filter((name) => !name.startsWith("pg_catalog.") && !SYNTAX.test(name));
}

test.each(["a$$b", "$$;$turns1$", 'q"$$'])(
  "S9.3 PostgreSQL: a schema is set up under the name %s, and by its printed SQL",
  async (schema) => {
    const url = await databaseOf();
    await withSaver(url, { schema }, async (saver) => save(saver, "t"));
    await run(url, `DROP SCHEMA "${schema.replaceAll('"', '""')}" CASCADE`, migrationSql(schema));
    await withSaver(url, { schema, migrate: "never" }, async (saver) => save(saver, "t"));
  },
);

test.each(["LATIN1", "SQL_ASCII"])(
  "S9.3 PostgreSQL: a database of the encoding %s is refused before anything is created",
  async (encoding) => {
    const url = await databaseOf(`ENCODING '${encoding}' LOCALE_PROVIDER libc LOCALE 'C' TEMPLATE template0`);
    await withSaver(url, {}, async (saver) => {
      await expect(saver.setup()).rejects.toMatchObject({
        code: "UNSUPPORTED",
        message: expect.stringMatching(new RegExp(`${encoding}.*ENCODING 'UTF8'`, "s")),
      });
    });
    expect(await run(url, "SELECT 1 FROM pg_namespace WHERE nspname = 'turns'")).toEqual([]);
  },
);

test("S9.6 PostgreSQL: transactional effects keep any result in a database of the encoding LATIN1", async () => {
  const url = await databaseOf("ENCODING 'LATIN1' LOCALE_PROVIDER libc LOCALE 'C' TEMPLATE template0");
  const pool = new Pool({ connectionString: url });
  const result = { ключ: ["é", "日本", "😀", "\ud800"] };
  const told = defineEffect("any text in LATIN1", { tx: pgTransactions(pool), run: async () => result, undo: false });
  await withSaver(server.url, {}, async (saver) => {
    let seen: unknown;
    const body = async (): Promise<object> => ((seen = await told()), {});
    await saver.attach(line({ n: body }).compile({ checkpointer: saver })).invoke({ log: [] }, thread("latin1"));
    expect(seen).toEqual(result);
  });
  expect(JSON.parse((await run(url, "SELECT result FROM turns_completions"))[0].result as string)).toEqual(result);
  await pool.end();
});

test("S7.1 PostgreSQL: vacuum() vacuums the tables, and says so if the role may not", async () => {
  const url = await databaseOf();
  await withSaver(url, {}, async (saver) => {
    await save(saver, "t");
    await vacuum(saver);
  });
  const vacuumed = "SELECT count(last_vacuum)::int AS tables FROM pg_stat_user_tables WHERE relname = 'langgraph_checkpoints'";
  expect(await run(url, vacuumed)).toEqual([{ tables: 1 }]);
  await run(url, "GRANT USAGE ON SCHEMA turns TO turns", "GRANT SELECT ON ALL TABLES IN SCHEMA turns TO turns");
  const other = url.replace("//postgres:", "//turns:");
  for (const level of ["notice", "error"]) {
    await run(url, `ALTER ROLE turns SET client_min_messages = ${level}`);
    await withSaver(other, { migrate: "never", readOnly: true }, async (saver) => {
      await expect(vacuum(saver)).rejects.toMatchObject({
        code: "STORE_UNAVAILABLE",
        message: expect.stringMatching(/may not vacuum them.*the role that owns the tables/s),
      });
    });
  }
  await run(url, "ALTER TABLE turns.langgraph_runs OWNER TO turns");
  await withSaver(other, { migrate: "never", readOnly: true }, async (saver) => {
    const { data } = (await vacuum(saver).catch((error: unknown) => error)) as TurnsError;
    expect(data["skipped"]).toContain("langgraph_effects");
    expect(data["skipped"]).not.toContain("langgraph_runs");
  });
  await run(url, "ALTER ROLE turns RESET client_min_messages", `ALTER DATABASE ${new URL(url).pathname.slice(1)} OWNER TO turns`);
  await withSaver(other, { migrate: "never", readOnly: true }, vacuum);
});
