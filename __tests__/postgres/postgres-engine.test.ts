import fc from "fast-check";
import { Client, Pool } from "pg";
import { TurnsError } from "../../src/index";
import {
  type Bound,
  CommitInDoubt,
  migratePostgres,
  PostgresEngine,
  type Program,
  StaleFacts,
  type Statement,
} from "../../src/testing-internal";
import { schemaAt } from "../support/open-saver";
import { isCommit, isCommitAnswer } from "../support/postgres/messages";
import { type Fate, nth, PostgresProxy } from "../support/postgres/proxy";

/** The engine alone: programs of plain statements on a real server, behind a proxy. */
const schema = schemaAt("engine");
const INSERT = "INSERT INTO langgraph_settings (name, value) VALUES (?, ?)";
const READ = "SELECT value FROM langgraph_settings WHERE name = ?";
const THREAD = `INSERT INTO langgraph_threads (thread, thread_id, tag, created_at, seq, epoch, generation, pruned_seq, unswept,
  snapshots, writes, turns, effects, others, checksum) VALUES (?, ?, ?, '', ?, 0, 0, 0, 0, 0, 0, 0, 0, 0, '')`;
let proxy: PostgresProxy;
let pool: Pool;
let engine: PostgresEngine;
let names = 0;

beforeAll(async () => {
  proxy = await PostgresProxy.inFrontOf(process.env["TURNS_PG_DIRECT_URL"]!);
  pool = new Pool({ connectionString: proxy.url, application_name: schema });
  pool.on("error", () => undefined);
  engine = new PostgresEngine(() => pool, { name: "test", schema, busyTimeoutMs: 5_000 });
  await engine.connected((connection) => migratePostgres(connection, { database: "test", schema }));
});
afterEach(() => {
  proxy.fate = () => "pass";
  proxy.delay = { toServer: 0, toClient: 0 };
});
afterAll(async () => {
  await engine.close();
  await pool.end();
  await proxy.close();
});

function* ask<T>(text: string, values: readonly Bound[], returns: Statement["returns"] = "none", guards?: number): Program<T> {
  return (yield { text, values, returns, ...(guards === undefined ? {} : { guards }) }) as T;
}

const newName = (): string => `name ${(names += 1)}`;
const valueOf = (name: string) => engine.read(() => ask<{ value: string } | undefined>(READ, [name], "one"));

/** Nobody waits for the COMMIT of a read. */
async function idle(): Promise<void> {
  while (pool.idleCount < pool.totalCount) await new Promise((done) => setTimeout(done, 5));
}

test("S9.3 PostgreSQL: the server ends a read whose process has stopped in its middle, as it does a save; a limit of the role changes neither", async () => {
  const LIMIT = "SELECT pg_catalog.current_setting('idle_in_transaction_session_timeout') AS value";
  const limit = (): Program<{ value: string }> => ask<{ value: string }>(LIMIT, [], "one");
  expect(await engine.read(limit)).toEqual({ value: "1min" });
  expect(await engine.write(limit)).toEqual({ value: "2500ms" });
});

test("S9.3 PostgreSQL: a read in whose middle the process stood still longer than the server waits is made again", async () => {
  const hasty = new PostgresEngine(() => pool, { name: "test", schema, busyTimeoutMs: 300 });
  let tries = 0;
  const found = await hasty.read(function* () {
    tries += 1;
    yield* ask("SELECT pg_catalog.set_config('idle_in_transaction_session_timeout', '100', true)", [], "one");
    if (tries === 1) Atomics.wait(new Int32Array(new SharedArrayBuffer(4)), 0, 0, 1_500);
    return yield* ask<{ value: number }>("SELECT 1 AS value", [], "one");
  });
  expect([found, tries]).toEqual([{ value: 1 }, 2]);
  await hasty.close();
});

test("PostgreSQL: a program that asks nothing costs one round trip, however much it writes", async () => {
  proxy.delay = { toServer: 5, toClient: 5 };
  await valueOf("connected");
  await idle();
  proxy.reset();
  await engine.write(function* () {
    for (let row = 0; row < 10; row += 1) yield* ask(INSERT, [newName(), "x"]);
  });
  expect(proxy.flights).toHaveLength(1);
  expect(proxy.flights[0]!.statements).toHaveLength(14);
});

test("PostgreSQL: every text and all bytes are read as they were saved, NUL and halves of surrogate pairs included", async () => {
  const value = fc.oneof(
    fc.string({ unit: "binary" }),
    fc.constantFrom("\0", "\u0001", "a\u0001\u0004b", "\ud800", "\udc00x", "\ud83d\ude00"),
    fc.uint8Array(),
  );
  await fc.assert(
    fc.asyncProperty(value, fc.string({ unit: "binary" }), async (given, name) => {
      const key = `${newName()}${name}`;
      await engine.write(() => ask(INSERT, [key, given]));
      expect(await valueOf(key)).toEqual({ value: given });
    }),
    { numRuns: 60 },
  );
});

test("PostgreSQL: texts are ordered by their bytes, as on SQLite, also those with characters that are escaped", async () => {
  const prefix = newName();
  const texts = ["", "\0", "\u0001", "\u0002", " ", "A", "Z", "a", "z", "ä", "ﬀ", "😀"].map((text) => `${prefix}${text}`);
  await engine.write(function* () {
    for (const text of texts.toReversed()) yield* ask(INSERT, [text, ""]);
  });
  const found = await engine.read(() =>
    ask<[string][]>(
      "SELECT name FROM langgraph_settings WHERE substr(name, 1, CAST(? AS integer)) = ? ORDER BY name",
      [prefix.length, prefix],
      "arrays",
    ),
  );
  expect(found.flat()).toEqual(texts);
});

test("PostgreSQL: a guard fails if others have written to the thread: nothing of the transaction is saved", async () => {
  const guard = engine.dialect.guards!.thread;
  await engine.write(() => ask(THREAD, [1, "guarded", "guarded", 7]));
  const name = newName();
  const guarded = (seq: number) =>
    engine.write(function* () {
      yield* ask(INSERT, [name, "x"]);
      yield* ask(guard, [1, seq, 0], "none", 1);
    });
  await expect(guarded(6)).rejects.toBeInstanceOf(StaleFacts);
  expect(await valueOf(name)).toBeUndefined();
  await guarded(7);
  expect(await valueOf(name)).toEqual({ value: "x" });
});

test("PostgreSQL: guards lock threads in ascending order, so two transactions on the same threads don't deadlock", async () => {
  const guard = engine.dialect.guards!.thread;
  await engine.write(function* () {
    for (const thread of [21, 22]) yield* ask(THREAD, [thread, `t${thread}`, `t${thread}`, 1]);
  });
  const both = (...threads: number[]) =>
    engine.write(function* () {
      for (const thread of threads) yield* ask(guard, [thread, 1, 0], "none", thread);
    });
  await Promise.all(Array.from({ length: 20 }, (_, at) => (at % 2 === 0 ? both(21, 22) : both(22, 21))));
});

describe("PostgreSQL: the error of a statement that nobody waits for", () => {
  test("PostgreSQL: is thrown at the next one that is waited for, and nothing is saved", async () => {
    const [taken, other] = [newName(), newName()];
    await engine.write(() => ask(INSERT, [taken, "x"]));
    const failed = engine.write(function* () {
      yield* ask(INSERT, [other, "x"]);
      yield* ask(INSERT, [taken, "y"]);
      yield* ask(READ, [other], "one");
    });
    await expect(failed).rejects.toMatchObject({ code: "STORE_FAILED", data: { sqlstate: "23505" } });
    expect(await valueOf(other)).toBeUndefined();
  });

  test("PostgreSQL: is thrown at the commit, even if the program has swallowed it", async () => {
    const [taken, other] = [newName(), newName()];
    await engine.write(() => ask(INSERT, [taken, "x"]));
    for (const asks of [false, true]) {
      const failed = engine.write(function* () {
        yield* ask(INSERT, [other, "x"]);
        yield* ask(INSERT, [taken, "y"]);
        if (!asks) return;
        try {
          yield* ask(READ, [other], "one");
        } catch {
          // A program that goes on.
        }
      });
      await expect(failed).rejects.toMatchObject({ code: "STORE_FAILED" });
      expect(await valueOf(other)).toBeUndefined();
    }
  });

  test("PostgreSQL: undoes no more than its part, if it is in one", async () => {
    const [taken, other] = [newName(), newName()];
    await engine.write(() => ask(INSERT, [taken, "x"]));
    await engine.write(function* () {
      yield* ask(INSERT, [other, "x"]);
      yield* ask("SAVEPOINT part", []);
      try {
        yield* ask(INSERT, [taken, "y"]);
        yield* ask("RELEASE part", []);
      } catch {
        yield* ask("ROLLBACK TO part", []);
        yield* ask("RELEASE part", []);
      }
    });
    expect([await valueOf(other), await valueOf(taken)]).toEqual([{ value: "x" }, { value: "x" }]);
  });
});

describe("PostgreSQL: a connection that is lost", () => {
  test("PostgreSQL: before the commit was sent: the transaction is tried again", async () => {
    const name = newName();
    proxy.fate = nth(1, ({ from, text }) => from === "client" && text.startsWith("INSERT"), "cut");
    let attempts = 0;
    await engine.write(function* () {
      attempts += 1;
      yield* ask(INSERT, [name, "x"]);
      yield* ask(READ, [name], "one");
    });
    expect([attempts, await valueOf(name)]).toEqual([2, { value: "x" }]);
  });

  test.each<[string, Fate, typeof isCommit, boolean]>([
    ["before COMMIT", "cut", isCommit, false],
    ["behind COMMIT", "cut-after", isCommit, true],
    ["before the answer", "cut", isCommitAnswer, true],
    ["before COMMIT, which comes late", { lateBy: 500 }, isCommit, true],
  ])(
    "PostgreSQL: %s: the commit is in doubt, and what the engine then finds out doesn't change any more",
    async (_, fate, matches, isSaved) => {
      const name = newName();
      await idle();
      proxy.fate = nth(1, matches, fate);
      const doubt = await engine
        .write(function* () {
          yield* ask(INSERT, [name, "x"]);
          // An answer: the server has the transaction's mark before COMMIT is on its way.
          yield* ask(READ, [name], "one");
        })
        .catch((error: unknown) => error as CommitInDoubt);
      expect(doubt).toBeInstanceOf(CommitInDoubt);
      expect(await (doubt as CommitInDoubt).isCommitted()).toBe(isSaved);
      expect((await valueOf(name)) !== undefined).toBe(isSaved);
    },
  );

  test("PostgreSQL: in one flight with COMMIT, which comes late: saved or refused, and never the other afterwards", async () => {
    for (const lateBy of [0, 1, 2, 5, 20, 100, 400]) {
      const name = newName();
      await idle();
      proxy.fate = nth(1, isCommit, { lateBy });
      const doubt = await engine.write(() => ask(INSERT, [name, "x"])).catch((error: unknown) => error as CommitInDoubt);
      expect(doubt).toBeInstanceOf(CommitInDoubt);
      // Which of the two it is depends on who inserts the mark first: the transaction, or the one that asks what became of it.
      const isSaved = await (doubt as CommitInDoubt).isCommitted();
      expect((await valueOf(name)) !== undefined).toBe(isSaved);
      await new Promise((done) => setTimeout(done, lateBy + 50));
      expect((await valueOf(name)) !== undefined).toBe(isSaved);
    }
  });

  test("PostgreSQL: while it is idle: nobody notices", async () => {
    await Promise.all([valueOf("a"), valueOf("b")]);
    const client = new Client(process.env["TURNS_PG_DIRECT_URL"]);
    await client.connect();
    // This suite's alone: other suites have connections to the same server.
    const { rowCount } = await client.query(
      "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE application_name = $1 AND query LIKE '%COMMIT%'",
      [schema],
    );
    expect(rowCount).toBeGreaterThan(0);
    await client.end();
    expect(await valueOf("a")).toBeUndefined();
  });

  test("PostgreSQL: for good: STORE_UNAVAILABLE, after the time that an option gives", async () => {
    const hasty = new PostgresEngine(() => pool, { name: "test", schema, busyTimeoutMs: 100 });
    proxy.incoming = "refuse";
    proxy.cutAll();
    try {
      const failure: unknown = await hasty.write(() => ask(INSERT, [newName(), "x"])).catch((error: unknown) => error);
      expect(TurnsError.is(failure, "STORE_UNAVAILABLE")).toBe(true);
    } finally {
      proxy.incoming = "serve";
    }
  });
});

test("PostgreSQL: a lock that others hold for too long: STORE_BUSY", async () => {
  const name = newName();
  await engine.write(() => ask(INSERT, [name, "x"]));
  const hasty = new PostgresEngine(() => pool, { name: "test", schema, busyTimeoutMs: 100 });
  const holder = await pool.connect();
  try {
    await holder.query("BEGIN");
    await holder.query(`SELECT 1 FROM "${schema}".langgraph_settings WHERE name = $1 FOR UPDATE`, [name]);
    const waiting = hasty.write(() => ask("UPDATE langgraph_settings SET value = ? WHERE name = ?", ["y", name]));
    await expect(waiting).rejects.toMatchObject({ code: "STORE_BUSY" });
  } finally {
    await holder.query("ROLLBACK");
    holder.release();
  }
});

test("PostgreSQL: numbers are 64 bits wide, lists are bound as JSON, and null may be asked for", async () => {
  const rows = await engine.read(function* () {
    const product = yield* ask<[number]>("SELECT ?1 * 67108864", [134_217_726], "arrays");
    const sum = yield* ask<[number]>(
      "SELECT sum(n) FROM (SELECT CAST(? AS bigint) AS n) AS numbers",
      [Number.MAX_SAFE_INTEGER],
      "arrays",
    );
    const listed = yield* ask<[string][]>(engine.dialect.texts("?"), [JSON.stringify(["a", "it's", '"', "\u0001"])], "arrays");
    const isNull = yield* ask<[number]>("SELECT ?1 IS NULL, ?2 IS NULL", [null, "x"], "arrays");
    return [product, sum, listed, isNull];
  });
  expect(rows).toEqual([
    [[134_217_726 * 67_108_864]],
    [[Number.MAX_SAFE_INTEGER]],
    [["a"], ["it's"], ['"'], ["\u0001"]],
    [[1, 0]],
  ]);
});
