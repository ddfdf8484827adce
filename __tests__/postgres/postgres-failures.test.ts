import { execFileSync } from "node:child_process";
import { randomBytes } from "node:crypto";
import { chownSync, mkdirSync, mkdtempSync, rmSync, statSync } from "node:fs";
import { connect, createServer, type Server } from "node:net";
import { join } from "node:path";
import { inspect } from "node:util";
import { Client, Pool } from "pg";
import { emptyCheckpoint } from "@langchain/langgraph-checkpoint";
import { TurnsError } from "langgraph-checkpoint-turns";
import {
  migrationSql,
  PostgresCheckpointPersister,
  PostgresTurnSaver,
  type PostgresTurnSaverOptions,
} from "langgraph-checkpoint-turns/postgres";
import { internalsOf } from "../../src/testing-internal";
import { thread } from "../support/eff-world";
import { schemaAt } from "../support/open-saver";
import { type PostgresServer, startServer } from "../support/postgres/server";
import { SideEffects } from "../support/run-world";
import { listener, quiet } from "../support/s1-tools";
import { tempFile } from "../support/temp";
import { stepRunner } from "../runner/recover-world";

/** Whatever is wrong with the server or the way to it: a code, what is wrong, and what to do about it; and never a password. */
const SECRET = "hush4711";
const schema = schemaAt("failures");
let server: PostgresServer;
let admin: Client;
const listening: Server[] = [];
beforeAll(async () => {
  server = await startServer();
  admin = new Client(server.adminUrl);
  admin.on("error", () => undefined);
  await admin.connect();
  const saver = PostgresTurnSaver.fromConnString(server.url, { schema });
  await saver.setup();
  await saver.close();
});
afterAll(async () => {
  for (const one of listening) one.close();
  await server.stop();
});

/** The server's URL with other parts. */
function url(parts: Partial<Record<"username" | "password" | "hostname" | "port" | "pathname" | "search", string>>): string {
  return Object.assign(new URL(server.url), { password: SECRET, ...parts }).href;
}

/** A role with a password that nobody may read, and with settings of its own. */
async function role(name: string, ...statements: string[]): Promise<string> {
  await admin.query(`CREATE ROLE ${name} LOGIN PASSWORD '${SECRET}'`);
  for (const statement of statements)
    await admin.query(statement.replaceAll(/\bIT\b/g, name).replaceAll("SCHEMA_OF", `"${schema}"`));
  return url({ username: name });
}

/** A server that isn't PostgreSQL. */
async function stranger(answer: string | Buffer | undefined): Promise<string> {
  const one = createServer((socket) => {
    socket.on("error", () => undefined);
    if (answer !== undefined) socket.end(answer);
  });
  listening.push(one);
  await new Promise<void>((done) => one.listen(0, "127.0.0.1", done));
  return `postgres://u:${SECRET}@127.0.0.1:${(one.address() as { port: number }).port}/d`;
}

/** A message of the server. */
function message(type: string, body: string): Buffer {
  const bytes = Buffer.from(`${type}0000${body}`, "latin1");
  bytes.writeUInt32BE(bytes.length - 1, 1);
  return bytes;
}

/** What the first save fails with. Its message, its stack and everything in it, and what was logged, don't have the password. */
async function failure(source: string | Pool, options: PostgresTurnSaverOptions = {}): Promise<TurnsError> {
  const logger = listener();
  let error: unknown;
  try {
    const own = { schema, logger, busyTimeoutMs: 300, ...options };
    const saver = typeof source === "string" ? PostgresTurnSaver.fromConnString(source, own) : new PostgresTurnSaver(source, own);
    try {
      await saver.put(thread("t"), emptyCheckpoint(), { source: "input", step: -1, parents: {} }, {});
    } finally {
      await saver.close();
    }
  } catch (caught) {
    error = caught;
  }
  expect(TurnsError.is(error)).toBe(true);
  const told = [inspect(error, { depth: 20, showHidden: true }), JSON.stringify(error), JSON.stringify(logger.lines)].join("\n");
  expect(told).not.toContain(SECRET);
  return error as TurnsError;
}

test.each<[string, () => string | Promise<string>, string, RegExp]>([
  ["a wrong password", () => url({}), "STORE_UNAVAILABLE", /refuses the login.*Check user, password/],
  ["a user that isn't there", () => url({ username: "nobody" }), "STORE_UNAVAILABLE", /refuses the login.*Check user, password/],
  ["no password", () => url({ password: "" }), "STORE_UNAVAILABLE", /refuses the login.*Check user, password/],
  [
    "a database that isn't there",
    () => url({ pathname: "/nowhere", password: new URL(server.url).password }),
    "STORE_UNAVAILABLE",
    /nowhere .*doesn't exist.*Create it/,
  ],
  [
    "a host that isn't there",
    () => url({ hostname: "no-such-host.invalid" }),
    "STORE_UNAVAILABLE",
    /can't be reached.*ENOTFOUND.*host/,
  ],
  [
    "a port where nobody listens",
    () => url({ port: "1" }),
    "STORE_UNAVAILABLE",
    /can't be reached.*ECONNREFUSED.*Check that the server runs/,
  ],
  [
    "a server without TLS",
    () => url({ search: "?sslmode=verify-full" }),
    "STORE_UNAVAILABLE",
    /encrypted connection.*does not support SSL.*sslmode/,
  ],
  [
    "a certificate that isn't there",
    () => url({ search: "?sslmode=verify-full&sslrootcert=/nonexistent" }),
    "STORE_UNAVAILABLE",
    /encrypted connection.*nonexistent.*sslrootcert/,
  ],
  ["a port that is no number", () => `postgres://u:${SECRET}@host:port/d`, "INVALID_OPTION", /connection string/],
  // The driver takes a percent sign as it is, unless a byte's number follows.
  ["a percent sign", () => `postgres://u:${SECRET}@127.0.0.1:1/%zz`, "STORE_UNAVAILABLE", /127\.0\.0\.1:1\/%zz .*ECONNREFUSED/],
  ["half a letter in a database's name", () => `postgres://u:${SECRET}@h/%c3`, "INVALID_OPTION", /h\/%c3 .*encodeURIComponent/],
  ["half a letter in a password", () => `postgres://u:${SECRET}%c3@h/d`, "INVALID_OPTION", /h\/d .*encodeURIComponent/],
  ["half a letter in a user's name", () => `postgres://%c3:${SECRET}@h/d`, "INVALID_OPTION", /h\/d .*encodeURIComponent/],
  ["no connection string", () => "", "INVALID_OPTION", /connection string/],
  [
    "a connection string of another kind",
    () => `host=localhost password=${SECRET}`,
    "INVALID_OPTION",
    /connection string.*postgresql:\/\//,
  ],
  [
    "another database's connection string",
    () => `mysql://u:${SECRET}@localhost/d`,
    "INVALID_OPTION",
    /connection string.*postgresql:\/\//,
  ],
  [
    "a server that admits nobody without encryption",
    () => stranger(message("E", 'SFATAL\0VFATAL\0C28000\0Mno pg_hba.conf entry for host "h", no encryption\0\0')),
    "STORE_UNAVAILABLE",
    /refuses the login \(28000: .*sslmode/,
  ],
  [
    "a server whose configuration is wrong",
    () => stranger(message("E", "SFATAL\0VFATAL\0CF0000\0Ma root certificate is missing\0\0")),
    "STORE_UNAVAILABLE",
    /closed the connection \(F0000: a root certificate is missing\)/,
  ],
  [
    "the same from a server that speaks another language",
    () => stranger(message("E", "SFATALE\0VFATAL\0CF0000\0Mmanca un certificato\0\0")),
    "STORE_UNAVAILABLE",
    /closed the connection \(F0000: manca un certificato\)/,
  ],
  ["a server that isn't PostgreSQL", () => stranger("HTTP/1.1 400 Bad Request\r\n\r\n"), "STORE_UNAVAILABLE", /can't be reached/],
])("S9.3 PostgreSQL: %s", async (_, at, code, message) => {
  const error = await failure(await at());
  expect(error).toMatchObject({ code });
  expect(error.message).toMatch(message);
});

test.each(["pg_foo", "pg_", "\ud800", "a\0b", "a\u0001b", "", "x".repeat(64), "é".repeat(32)])(
  "S9.3 PostgreSQL: the schema %j, which no server keeps as it is, is refused before anything is connected",
  (name) => {
    const refused = expect.objectContaining({ code: "INVALID_OPTION", message: expect.stringContaining("pg_") });
    const options = { schema: name, logger: quiet };
    expect(() => PostgresTurnSaver.fromConnString(url({}), options)).toThrow(refused);
    expect(() => PostgresCheckpointPersister.fromConnString(url({}), options)).toThrow(refused);
    expect(() => migrationSql(name)).toThrow(refused);
  },
);

test("S9.3 PostgreSQL: a schema may have any other name", async () => {
  for (const name of [
    "x".repeat(63),
    "é😀",
    "a.b",
    "a\n",
    "\u0002",
    "$$",
    "a\\b",
    "UPPER",
    "select",
    "'%s\"",
    " ",
    "PG_FOO",
    "pg",
  ]) {
    const saver = PostgresTurnSaver.fromConnString(server.url, { schema: name, logger: quiet });
    await saver.put(thread("t"), emptyCheckpoint(), { source: "input", step: -1, parents: {} }, {});
    expect([name, (await saver.verify()).problems]).toEqual([name, []]);
    await saver.close();
  }
});

test("S9.3 PostgreSQL: a pool that was closed, and one that has no connection left", async () => {
  const pool = new Pool({ connectionString: server.url, max: 1 });
  const client = await pool.connect();
  const busy = failure(pool, { busyTimeoutMs: 200 });
  expect(await Promise.race([busy, new Promise((done) => setTimeout(done, 60_000).unref())])).toMatchObject({
    code: "STORE_UNAVAILABLE",
  });
  expect((await busy).message).toMatch(/no connection of the pool.*`max`/);
  client.release();
  // What came too late goes back.
  expect((await pool.query("SELECT 1 AS it")).rows).toEqual([{ it: 1 }]);
  await pool.end();
  const error = await failure(pool, { busyTimeoutMs: 60_000 });
  expect(error).toMatchObject({ code: "STORE_UNAVAILABLE" });
  expect(error.message).toMatch(/pool.*is closed.*Close the saver before/);
});

test("S9.3 PostgreSQL: a crowded pool is named, even if its own connectionTimeoutMillis ends the wait first", async () => {
  const pool = new Pool({ connectionString: server.url, max: 1 });
  const client = await pool.connect();
  // Not before: a machine under load connects in more than 50 ms.
  pool.options.connectionTimeoutMillis = 50;
  const { code, message } = await failure(pool, { busyTimeoutMs: 200 });
  client.release();
  await pool.end();
  expect(code).toBe("STORE_UNAVAILABLE");
  expect(message).toMatch(/no connection of the pool.*`max`/);
});

test("S9.3 PostgreSQL: a server that accepts no connection within busyTimeoutMs isn't taken for a crowded pool", async () => {
  // Like a host that drops packets: the handshake is never answered.
  const error = await failure(await stranger(undefined), { busyTimeoutMs: 1_000 });
  expect(error).toMatchObject({ code: "STORE_UNAVAILABLE" });
  expect(error.message).toMatch(/can't be reached \(the server accepted no connection for \d+ ms\)/);
});

test("S9.5 PostgreSQL: a role that may not create what is missing is told who may, and how", async () => {
  const error = await failure(await role("no_create"), { schema: "another" });
  expect(error).toMatchObject({ code: "SCHEMA_OUTDATED", data: { schema: "another", found: 0 } });
  expect(error.message).toMatch(/may not create them \(permission denied.*migrationSql/);
});

test("S9.5 PostgreSQL: a role that lacks rights is told which ones; with these it works", async () => {
  const poor = await role("poor");
  for (const grant of [
    "USAGE ON SCHEMA SCHEMA_OF",
    "SELECT ON ALL TABLES IN SCHEMA SCHEMA_OF",
    "INSERT, UPDATE, DELETE ON ALL TABLES IN SCHEMA SCHEMA_OF",
    "USAGE ON ALL SEQUENCES IN SCHEMA SCHEMA_OF",
  ]) {
    for (const migrate of ["never", "auto"] as const) {
      const error = await failure(poor, { migrate });
      expect(error).toMatchObject({ code: "STORE_UNAVAILABLE", data: { sqlstate: "42501" } });
      expect(error.message).toMatch(/lack of rights.*permission denied.*USAGE on the schema/);
    }
    await admin.query(`GRANT ${grant.replaceAll("SCHEMA_OF", `"${schema}"`)} TO poor`);
  }
  const saver = PostgresTurnSaver.fromConnString(poor, { schema, migrate: "never" });
  await saver.put(thread("t"), emptyCheckpoint(), { source: "input", step: -1, parents: {} }, {});
  await saver.close();
});

test("S9.5 PostgreSQL: the rights that are documented are enough for an encrypted database, and its role is told which ones it lacks", async () => {
  const sealed = await role("poor_sealed");
  const own = schemaAt("failures-sealed");
  const owner = PostgresTurnSaver.fromConnString(server.url, { schema: own });
  await owner.setup();
  await owner.close();
  const options = { schema: own, migrate: "never", encryption: { key: randomBytes(32), keyId: "k" } } as const;
  await admin.query(
    `GRANT USAGE ON SCHEMA "${own}" TO poor_sealed; GRANT SELECT, INSERT, UPDATE, DELETE ON ALL TABLES IN SCHEMA "${own}" TO poor_sealed`,
  );
  const error = await failure(sealed, options);
  expect(error.message).toMatch(/lack of rights.*permission denied for sequence.*USAGE on its sequence/);
  await admin.query(`GRANT USAGE ON ALL SEQUENCES IN SCHEMA "${own}" TO poor_sealed`);
  const saver = PostgresTurnSaver.fromConnString(sealed, options);
  await saver.put(thread("t"), emptyCheckpoint(), { source: "input", step: -1, parents: {} }, {});
  expect(await saver.verify()).toMatchObject({ ok: true });
  await saver.close();
});

test.each([
  [
    "42501",
    "row-level security that the tables' owner has to obey",
    "ALTER TABLE IT ENABLE ROW LEVEL SECURITY, FORCE ROW LEVEL SECURITY",
    /row-level security \(42501.*ALTER TABLE name NO FORCE ROW LEVEL SECURITY;/s,
    "ALTER TABLE IT NO FORCE ROW LEVEL SECURITY",
  ],
  [
    "55000",
    "a published table without a replica identity",
    "ALTER TABLE IT REPLICA IDENTITY NOTHING; CREATE PUBLICATION published FOR TABLE IT",
    /55000.*ALTER TABLE name REPLICA IDENTITY DEFAULT;/s,
    "ALTER TABLE IT REPLICA IDENTITY DEFAULT",
  ],
])(
  "S9.5 PostgreSQL: a save that fails with %s for %s says so, with the statement that helps",
  async (code, _, change, says, repair) => {
    const own = { schema: schemaAt(`failures-${code}`), logger: quiet };
    const saver = PostgresTurnSaver.fromConnString(server.url, own);
    const save = async () => saver.put(thread("t"), emptyCheckpoint(), { source: "input", step: -1, parents: {} }, {});
    await saver.setup();
    const run = (text: string) => admin.query(text.replaceAll(/\bIT\b/g, () => `"${own.schema}".langgraph_threads`));
    await save();
    await run(change);
    await expect(save()).rejects.toMatchObject({ code: "STORE_UNAVAILABLE", message: expect.stringMatching(says) });
    await run(repair);
    await save();
    await saver.close();
  },
);

test("S9.3 PostgreSQL: a database that accepts no connections says so, with the statement that helps", async () => {
  await admin.query("CREATE DATABASE closed ALLOW_CONNECTIONS false");
  const error = await failure(url({ pathname: "/closed", password: new URL(server.url).password }));
  expect(error).toMatchObject({ code: "STORE_UNAVAILABLE", data: { sqlstate: "55000" } });
  expect(error.message).toMatch(/55000.*ALTER DATABASE name ALLOW_CONNECTIONS true;/s);
});

test("S9.3 PostgreSQL: a role whose transactions are read-only is told so, and saves nothing", async () => {
  const rights = ["GRANT turns TO IT", "ALTER ROLE IT SET default_transaction_read_only = on"];
  const reads = await role("reads", ...rights);
  for (const options of [{}, { schema: "another" }]) {
    const error = await failure(reads, options);
    expect(error).toMatchObject({ code: "STORE_UNAVAILABLE", data: { sqlstate: "25006" } });
    expect(error.message).toMatch(/read-only.*primary.*default_transaction_read_only/);
  }
});

describe("PostgreSQL: a process that starts where nothing can be written", () => {
  const encryption = { keys: { one: randomBytes(32) }, current: "one" };
  const save = (saver: PostgresTurnSaver) =>
    saver.put(thread("there"), emptyCheckpoint(), { source: "input", step: -1, parents: {} }, {});

  test.each([
    ["in the clear", undefined],
    ["encrypted", encryption],
  ])("S9.3 PostgreSQL: reads what is there, is told so at a save, and saves once it may (%s)", async (name, keys) => {
    const own = { schema: schemaAt(`reader ${name}`), logger: quiet, ...(keys && { encryption: keys }) };
    const first = PostgresTurnSaver.fromConnString(server.url, own);
    await save(first);
    await first.close();
    const user = name.replaceAll(" ", "_");
    const reads = await role(user, "GRANT turns TO IT", "ALTER ROLE IT SET default_transaction_read_only = on");
    for (const migrate of ["auto", "never"] as const) {
      const saver = PostgresTurnSaver.fromConnString(reads, { ...own, migrate });
      await saver.setup();
      expect(await saver.getTuple(thread("there"))).toBeDefined();
      expect(await saver.turns.list("t")).toEqual([]);
      expect(await saver.verify()).toMatchObject({ ok: true });
      const error = (await save(saver).catch((caught: unknown) => caught)) as TurnsError;
      expect(error).toMatchObject({ code: "STORE_UNAVAILABLE", data: { sqlstate: "25006" } });
      expect(error.message).toMatch(/is read-only.*Connect to the primary, or turn default_transaction_read_only off/);
      if (migrate === "never") {
        await admin.query(`ALTER ROLE ${user} RESET default_transaction_read_only`);
        await admin.query(`SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE usename = '${user}'`);
        await save(saver);
      }
      await saver.close();
    }
  });

  test("S9.5 PostgreSQL: is told so if the tables aren't there, and creates none", async () => {
    const reads = await role("reads_nothing", "GRANT turns TO IT", "ALTER ROLE IT SET default_transaction_read_only = on");
    const saver = PostgresTurnSaver.fromConnString(reads, { schema: "missing", logger: quiet });
    await expect(saver.getTuple(thread("t"))).rejects.toMatchObject({ code: "STORE_UNAVAILABLE", data: { sqlstate: "25006" } });
    await saver.close();
    expect((await admin.query("SELECT FROM pg_namespace WHERE nspname = 'missing'")).rowCount).toBe(0);
  });
});

test("S9.3 PostgreSQL: limits that a role has are met, or named", async () => {
  const limits: Record<string, string> = {
    lock_timeout: "'1ms'",
    idle_in_transaction_session_timeout: "'1s'",
    default_transaction_isolation: "serializable",
    default_transaction_deferrable: "on",
    search_path: "''",
    standard_conforming_strings: "off",
    client_encoding: "LATIN1",
    row_security: "off",
    quote_all_identifiers: "on",
    transform_null_equals: "on",
    bytea_output: "escape",
    extra_float_digits: "-15",
    datestyle: "'SQL, DMY'",
  };
  for (const [name, value] of Object.entries(limits)) {
    const limited = await role(`limited_${name}`, "GRANT turns TO IT", `ALTER ROLE IT SET ${name} = ${value}`);
    const saver = PostgresTurnSaver.fromConnString(limited, { schema });
    await saver.put(thread("ä😀"), emptyCheckpoint(), { source: "input", step: -1, parents: {} }, {});
    expect(await saver.getTuple(thread("ä😀"))).toBeDefined();
    expect([name, (await saver.verify()).problems]).toEqual([name, []]);
    expect([name, await internalsOf(saver).store.inspect.schemaDrift()]).toEqual([name, []]);
    await saver.close();
  }
});

test("S9.3 PostgreSQL: a role's statement_timeout that ends a wait for a lock is named", async () => {
  const hasty = await role("hasty", "GRANT turns TO IT", "ALTER ROLE IT SET statement_timeout = '300ms'");
  await admin.query(`BEGIN; LOCK TABLE "${schema}".langgraph_threads`);
  const error = await failure(hasty, { busyTimeoutMs: 20_000 });
  await admin.query("ROLLBACK");
  expect(error).toMatchObject({ code: "STORE_FAILED", data: { sqlstate: "57014" } });
  expect(error.message).toMatch(/cancelled a statement.*statement_timeout/);
});

test("S9.4 PostgreSQL: a statement that the server cancels doesn't end a worker's loop", async () => {
  const hasty = await role("hasty_worker", "GRANT turns TO IT");
  const logger = listener();
  const saver = PostgresTurnSaver.fromConnString(hasty, { schema, logger });
  await saver.setup();
  // Not before: on a busy machine a statement of the set-up takes longer. New connections have the limit.
  await admin.query("ALTER ROLE hasty_worker SET statement_timeout = '300ms'");
  await admin.query("SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE usename = 'hasty_worker'");
  const stop = new AbortController();
  const worker = (async () => {
    const runner = stepRunner(saver, new SideEffects(`${tempFile()}.ledger`));
    for await (const _ of runner.recoveries({ everyMs: 10, signal: stop.signal }));
  })();
  const looks = () => logger.lines.filter(({ text }) => text.includes("couldn't read the database"));
  try {
    await admin.query(`BEGIN; LOCK TABLE "${schema}".langgraph_runs`);
    while (looks().length < 2) await Promise.race([worker, new Promise((resolve) => setTimeout(resolve, 20))]);
  } finally {
    await admin.query("ROLLBACK");
    stop.abort();
  }
  await worker;
  expect(looks()[0]?.fields["error"]).toMatch(/57014/);
  await saver.close();
});

test("S9.3 PostgreSQL: a server that has no connection left, and one that never answers", async () => {
  const few = await role("few", "ALTER ROLE IT CONNECTION LIMIT 0");
  expect((await failure(few)).message).toMatch(/no connection left.*`max`/);
  const silent = new Pool({ connectionString: await stranger(undefined), connectionTimeoutMillis: 200 });
  silent.on("error", () => undefined);
  expect(await failure(silent)).toMatchObject({ code: "STORE_UNAVAILABLE" });
  await silent.end();
});

/** A database on a disk of its own, with so much room; where the system lets a test mount one. */
const mayMount = process.getuid?.() === 0 && process.env["TURNS_WITHOUT_MOUNT"] !== "1" && process.platform === "linux";
(mayMount ? test : test.skip)(
  "S9.3 PostgreSQL: a full disk is named; what was saved is there, and saving continues when there is room",
  async () => {
    const disk = mkdtempSync("/tmp/turns-disk-");
    execFileSync("mount", ["-t", "tmpfs", "-o", "size=28m,mode=777", "none", disk]);
    try {
      const place = join(disk, "space");
      mkdirSync(place);
      const { uid, gid } = statSync(server.folder);
      chownSync(place, uid, gid);
      await admin.query(`CREATE TABLESPACE small LOCATION '${place}'`);
      await admin.query("CREATE DATABASE small OWNER turns TABLESPACE small");
      const small = url({ pathname: "/small", password: new URL(server.url).password });
      const filler = new Client(small);
      await filler.connect();
      const saver = PostgresTurnSaver.fromConnString(small, { schema, busyTimeoutMs: 5_000, logger: quiet });
      const saved: string[] = [];
      let error: unknown;
      for (let at = 0; error === undefined && at < 100; at += 1) {
        const checkpoint = {
          ...emptyCheckpoint(),
          channel_values: { a: randomBytes(1_500_000).toString("hex") },
          channel_versions: { a: 1 },
        };
        await saver.put(thread(`t${at}`), checkpoint, { source: "input", step: -1, parents: {} }, { a: 1 }).then(
          () => saved.push(`t${at}`),
          (caught: unknown) => (error = caught),
        );
        if (at === 1)
          await filler.query("CREATE TABLE filler AS SELECT repeat(md5(i::text), 50) AS it FROM generate_series(1, 6000) AS i");
      }
      expect(error).toMatchObject({ code: "STORE_FAILED", data: { sqlstate: "53100" } });
      expect((error as Error).message).toMatch(/no room left.*Free space/);
      expect(saved.length).toBeGreaterThan(1);
      await filler.query("DROP TABLE filler");
      await saver.put(thread("after"), emptyCheckpoint(), { source: "input", step: -1, parents: {} }, {});
      for (const id of saved) expect(await saver.getTuple(thread(id))).toBeDefined();
      expect(await saver.verify()).toMatchObject({ ok: true });
      await saver.close();
      await filler.end();
      await admin.query("DROP DATABASE small WITH (FORCE)");
      await admin.query("DROP TABLESPACE small");
    } finally {
      execFileSync("umount", ["-l", disk]);
      rmSync(disk, { recursive: true, force: true });
    }
  },
  300_000,
);

test("S9.3 PostgreSQL: a connection that the server ends at once, with its greeting, doesn't end the process", async () => {
  const ended = ["SFATAL", "C57P01", "Mterminating connection due to administrator command", ""].join("\0");
  const greeting = [message("R", "\0\0\0\0"), message("Z", "I"), message("E", `${ended}\0`)];
  let connections = 0;
  const { port, hostname } = new URL(server.url);
  const between = createServer((socket) => {
    socket.on("error", () => undefined);
    connections += 1;
    if (connections % 2 === 1) return void socket.once("data", () => socket.end(Buffer.concat(greeting)));
    const onward = connect(Number(port), hostname);
    onward.on("error", () => undefined);
    onward.pipe(socket).pipe(onward);
  });
  listening.push(between);
  await new Promise<void>((done) => between.listen(0, "127.0.0.1", done));
  const through = Object.assign(new URL(server.url), { port: String((between.address() as { port: number }).port) }).href;
  const pool = new Pool({ connectionString: through });
  pool.on("error", () => undefined);
  for (const saver of [
    PostgresTurnSaver.fromConnString(through, { schema, logger: quiet }),
    new PostgresTurnSaver(pool, { schema, logger: quiet }),
  ]) {
    await saver.put(thread("t"), emptyCheckpoint(), { source: "input", step: -1, parents: {} }, {});
    await saver.close();
  }
  await pool.end();
  expect(connections).toBeGreaterThan(3);
});

// The last one: the server stays as it is then.
test("S9.3 PostgreSQL: a replica is told from the primary, and can be read", async () => {
  const saver = PostgresTurnSaver.fromConnString(server.url, { schema, migrate: "never", logger: quiet });
  await saver.put(thread("primary"), emptyCheckpoint(), { source: "input", step: -1, parents: {} }, {});
  await admin.end();
  await server.demote();
  const error = await failure(server.url);
  expect(error).toMatchObject({ code: "STORE_UNAVAILABLE", data: { sqlstate: "25006" } });
  expect(error.message).toMatch(/read-only.*primary/);
  expect(await saver.getTuple(thread("primary"))).toBeDefined();
  expect(await saver.verify()).toMatchObject({ ok: true });
  await saver.close();
  const late = PostgresTurnSaver.fromConnString(server.url, { schema, logger: quiet });
  expect(await late.getTuple(thread("primary"))).toBeDefined();
  expect(await late.verify()).toMatchObject({ ok: true });
  await late.close();
});
