import { EventEmitter } from "node:events";
import { emptyCheckpoint } from "@langchain/langgraph-checkpoint";
import { PostgresTurnSaver, type PostgresTurnSaverOptions } from "langgraph-checkpoint-turns/postgres";
import { Pool, type PoolConfig } from "pg";
import { thread } from "../support/eff-world";
import { schemaAt } from "../support/open-saver";
import { isCommit } from "../support/postgres/messages";
import { PostgresProxy } from "../support/postgres/proxy";
import { quiet } from "../support/s1-tools";

/** What a pool's connections are left in, what its options and its server's do to the saver. */
const direct = process.env["TURNS_PG_DIRECT_URL"]!;
const schema = schemaAt("pools");
const closing: (() => Promise<void>)[] = [];
let proxy: PostgresProxy;
beforeAll(async () => {
  proxy = await PostgresProxy.inFrontOf(direct);
});
afterEach(async () => {
  proxy.fate = () => "pass";
  proxy.incoming = "serve";
  for (const close of closing.splice(0).toReversed()) await close();
});
afterAll(() => proxy.close());

function pooled(config: PoolConfig = {}): Pool {
  const pool = new Pool({ connectionString: direct, ...config });
  closing.push(() => pool.end());
  return pool;
}

function opened(source: Pool | string, options: PostgresTurnSaverOptions = {}): PostgresTurnSaver {
  const all = { schema, logger: quiet, busyTimeoutMs: 5_000, ...options };
  const saver = typeof source === "string" ? PostgresTurnSaver.fromConnString(source, all) : new PostgresTurnSaver(source, all);
  closing.push(() => saver.close());
  return saver;
}

const save = (saver: PostgresTurnSaver, id: string): Promise<unknown> =>
  saver.put(thread(id), emptyCheckpoint(), { source: "input", step: -1, parents: {} }, {});

const pause = (ms: number): Promise<void> => new Promise((resolve) => setTimeout(resolve, ms));

test("S9.3 PostgreSQL: a connection that is lost while a process tells others of a commit doesn't end the process", async () => {
  const saver = opened(proxy.url, { notify: true });
  await saver.setup();
  let cuts = 0;
  proxy.fate = ({ type, text }) => {
    if (type !== "B" || !text.includes("pg_notify")) return "pass";
    cuts += 1;
    return "cut";
  };
  await save(saver, "told");
  while (cuts === 0) await pause(10);
  await pause(300);
  expect(cuts).toBe(1);
  await save(saver, "told");
});

test("S9.3 PostgreSQL: a connection on which a commit couldn't be settled isn't left in a transaction", async () => {
  const pool = pooled({ connectionString: proxy.url, max: 1 });
  const saver = opened(pool, { busyTimeoutMs: 100 });
  await save(opened(direct), "settled");
  let error: unknown;
  // The transaction is still open on the server when the saver looks for it. On a busy machine it looks too late, now and then.
  while (error === undefined) {
    let isStruck = false;
    proxy.fate = (message) => {
      if (isStruck || !isCommit(message)) return "pass";
      isStruck = true;
      return { lateBy: 1_200 };
    };
    error = await save(saver, "settled").then(
      () => undefined,
      (caught: unknown) => caught,
    );
  }
  expect(error).toMatchObject({ code: "STORE_UNAVAILABLE", data: { inDoubt: true } });
  const { rows } = await pool.query("SELECT 1 AS one");
  expect(rows).toEqual([{ one: 1 }]);
  await pause(1_500);
});

test("S9.3 PostgreSQL: with the pool's query_timeout, no timer outlives its statements", async () => {
  const pool = pooled({ query_timeout: 60_000 });
  const saver = opened(pool);
  await saver.setup();
  await save(saver, "timers");
  const timers = (): number => process.getActiveResourcesInfo().filter((one) => one === "Timeout").length;
  const before = timers();
  for (let at = 0; at < 20; at += 1) await save(saver, "timers");
  expect(timers() - before).toBeLessThan(5);
});

test("S9.3 PostgreSQL: a pool whose query_timeout is over in the middle of a commit is found out", async () => {
  const pool = pooled({ connectionString: proxy.url, query_timeout: 400 });
  pool.on("error", () => undefined);
  const [saver, other] = [opened(pool), opened(direct)];
  await save(other, "slow");
  await save(saver, "slow");
  let isStruck = false;
  proxy.fate = (message) => {
    if (isStruck || !isCommit(message)) return "pass";
    isStruck = true;
    return { delay: 900 };
  };
  await save(saver, "slow");
  expect((await other.turns.list("slow")).length).toBe(0);
  expect(await saver.getTuple(thread("slow"))).toBeDefined();
  expect(await other.verify()).toMatchObject({ ok: true });
});

test("S9.3 PostgreSQL: a server that ends idle sessions (idle_session_timeout) while the process is busy fails no save", async () => {
  const pool = pooled({ options: "-c idle_session_timeout=200", max: 1 });
  const saver = opened(pool);
  await saver.setup();
  await save(saver, "idle");
  // The process is busy, and sees the end of the session only after it has sent its statements.
  Atomics.wait(new Int32Array(new SharedArrayBuffer(4)), 0, 0, 500);
  await save(saver, "idle");
});

test("S9.3 PostgreSQL: a pool of pg-native is refused in plain words", async () => {
  class Native extends EventEmitter {
    readonly native = {};
    connect(connected: () => void): void {
      connected();
    }
    end(ended: () => void): void {
      ended();
    }
  }
  const saver = opened(pooled({ Client: Native as never }));
  await expect(save(saver, "native")).rejects.toMatchObject({
    code: "INVALID_OPTION",
    message: expect.stringMatching(/pg-native, which can't send statements in one piece.*Pass a Pool that pg exports itself/s),
  });
});

test("S9.3 PostgreSQL: any number of savers on one pool have one listener together, and the last one that closes removes it", async () => {
  const pool = pooled({ max: 2 });
  const listeners = (): number[] => [pool.listenerCount("error"), pool.listenerCount("connect")];
  const before = listeners();
  const savers = Array.from({ length: 15 }, () => opened(pool));
  await Promise.all(savers.map((saver, at) => save(saver, `many ${at}`)));
  const together = before.map((count) => count + 1);
  expect(listeners()).toEqual(together);
  await Promise.all(savers.slice(1).map((saver) => saver.close()));
  expect(listeners()).toEqual(together);
  await savers[0]!.close();
  expect(listeners()).toEqual(before);
  const again = opened(pool);
  await save(again, "many and one more");
  expect(listeners()).toEqual(together);
});

test("S9.3 PostgreSQL: two copies of the package on one pool, such as ESM beside CommonJS, agree about prepared statements", async () => {
  const pool = pooled({ max: 1 });
  const copies = [PostgresTurnSaver];
  jest.isolateModules(() =>
    copies.push(jest.requireActual<typeof import("../../src/postgres/index")>("../../src/postgres/index").PostgresTurnSaver),
  );
  expect(copies[1]).not.toBe(copies[0]);
  const savers = copies.map((Copy) => new Copy(pool, { schema, logger: quiet, busyTimeoutMs: 5_000 }));
  for (let at = 0; at < 4; at += 1) for (const saver of savers) await save(saver, `copy ${at % 2}`);
  const names =
    "SELECT name, statement, generic_plans + custom_plans AS uses FROM pg_prepared_statements WHERE name LIKE 'turns%'";
  const { rows } = await pool.query<{ statement: string; uses: string }>(names);
  const mark = rows.filter(({ statement }) => statement.includes("langgraph_commits"));
  expect(mark).toHaveLength(1);
  expect(Number(mark[0]!.uses)).toBeGreaterThanOrEqual(6);
  await Promise.all(savers.map((saver) => saver.close()));
});

test("S9.3 PostgreSQL: a statement that somebody else has prepared under our name fails no save", async () => {
  const pool = pooled({ max: 1 });
  const saver = opened(pool);
  for (let at = 0; at < 3; at += 1) await save(saver, "theirs");
  const { rows } = await pool.query<{ name: string; statement: string }>("SELECT name, statement FROM pg_prepared_statements");
  const client = await pool.connect();
  await client.query("DISCARD ALL");
  for (const { name } of rows) await client.query({ name, text: "SELECT 1 AS theirs" });
  // It knows nothing of the connection any more, like a copy of the package that was loaded later.
  for (const key of Object.getOwnPropertySymbols(client)) if (String(key).includes("turns")) (client as any)[key] = new Map();
  client.release();
  await save(saver, "theirs");
});

test("S9.3 PostgreSQL: what a client of the pool has left uncommitted is never committed by a save or a read", async () => {
  const pool = pooled({ max: 1 });
  const saver = opened(pool);
  await saver.setup();
  await pool.query("CREATE TABLE left_open (id text)");
  const leave = async (): Promise<void> => {
    const client = await pool.connect();
    await client.query("BEGIN; INSERT INTO left_open VALUES ('half done')");
    client.release();
  };
  await leave();
  await save(saver, "left open");
  await leave();
  expect(await saver.getTuple(thread("left open"))).toBeDefined();
  const { rows } = await pool.query("SELECT count(*)::int AS n FROM left_open");
  await pool.query("DROP TABLE left_open");
  expect(rows).toEqual([{ n: 0 }]);
});

test("S9.3 PostgreSQL: a client_encoding that somebody has set on the pool's connection changes nothing that is saved or read", async () => {
  const pool = pooled({ max: 1 });
  await pool.query("SET client_encoding TO 'LATIN1'");
  const saver = opened(pool);
  const [id, text] = ["Zoë 😀", "Müller, Åse, 😀"];
  const checkpoint = { ...emptyCheckpoint(), channel_values: { text }, channel_versions: { text: 1 } };
  await saver.put(thread(id), checkpoint, { source: "input", step: -1, parents: {} }, { text: 1 });
  for (const reader of [saver, opened(direct)])
    expect((await reader.getTuple(thread(id)))?.checkpoint.channel_values).toEqual({ text });
  expect((await opened(pool).verify({ threadId: id })).problems).toEqual([]);
  const { rows } = await pool.query<{ client_encoding: string }>("SHOW client_encoding");
  expect(rows).toEqual([{ client_encoding: "LATIN1" }]);
});

test("S9.3 PostgreSQL: a connection that was left in an aborted transaction is dropped, and the save is tried on another", async () => {
  const pool = pooled({ max: 1 });
  const saver = opened(pool);
  const abort = async (): Promise<void> => {
    const client = await pool.connect();
    await client.query("BEGIN");
    await expect(client.query("SELECT 1 / 0")).rejects.toThrow();
    client.release();
  };
  await abort();
  await saver.setup();
  for (const id of ["aborted", "aborted again", "aborted"]) {
    await abort();
    await save(saver, id);
    await abort();
    expect(await saver.getTuple(thread(id))).toBeDefined();
  }
});
