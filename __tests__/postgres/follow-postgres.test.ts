import { Client, Pool } from "pg";
import { Annotation, START, StateGraph } from "@langchain/langgraph";
import { type Change, GraphRunner } from "../../src/index";
import { PostgresTurnSaver, type PostgresTurnSaverOptions } from "../../src/postgres/index";
import { Changes, internalsOf } from "../../src/testing-internal";
import { schemaAt, waitingPool } from "../support/open-saver";
import { type Pooler, startPgBouncer } from "../support/postgres/pgbouncer";
import { PostgresProxy } from "../support/postgres/proxy";
import { rowsRead } from "../support/postgres/rows-read";

const quiet = { debug() {}, info() {}, warn() {}, error() {} };
const direct = (): string => process.env["TURNS_PG_DIRECT_URL"]!;
const open = (url: string, schema: string, options: PostgresTurnSaverOptions = {}): PostgresTurnSaver =>
  PostgresTurnSaver.fromConnString(url, { schema, logger: quiet, ...options });
const input = { source: "input", step: -1, parents: {} } as const;
let count = 0;

async function save(saver: PostgresTurnSaver, threadId: string): Promise<void> {
  count += 1;
  const id = `1f0${String(count).padStart(5, "0")}-0000-6000-8000-000000000000`;
  const checkpoint = { v: 4, id, ts: new Date().toISOString(), channel_values: {}, channel_versions: {}, versions_seen: {} };
  await saver.put({ configurable: { thread_id: threadId, checkpoint_ns: "" } }, checkpoint, input, {});
}

test("S10.4 with notifications, a follower that wouldn't look for a minute is told at once", async () => {
  const schema = schemaAt("notify");
  const [writer, follower] = [open(direct(), schema, { notify: true }), open(direct(), schema, { notify: true })];
  await writer.setup();
  const never = 60_000;
  const pace = { shortestMs: never, longestMs: never, cheapMs: never };
  const changes = new Changes(internalsOf(follower).store, { threadId: "t" }, pace);
  for (let round = 0; round < 3; round += 1) {
    let isTold = false;
    const told = changes.next().then(({ value }) => {
      isTold = true;
      return value;
    });
    // Only the first ones may come before it listens.
    while (!isTold) {
      await save(writer, "t");
      await new Promise((resolve) => setTimeout(resolve, 100));
    }
    expect((await told) as Change).toMatchObject({ kind: "checkpoint", threadId: "t" });
  }
  await changes.return();
  await Promise.all([writer.close(), follower.close()]);
});

test("S10.4 a follower that is told of commits looks as often as one that isn't, so it misses no process that tells nobody", async () => {
  const proxy = await PostgresProxy.inFrontOf(direct());
  const schema = schemaAt("notify-alone");
  const [writer, follower] = [open(direct(), schema), open(proxy.url, schema, { notify: true })];
  await writer.setup();
  const { store } = internalsOf(follower);
  const hints = store.listen?.(() => undefined);
  while (hints?.areHeard !== true) await new Promise((resolve) => setTimeout(resolve, 20));
  const changes = follower.follow({ threadId: "t" });
  await changes.ready;
  const next = changes.next();
  await new Promise((resolve) => setTimeout(resolve, 4_000));
  const looks = (): number =>
    proxy.flights.filter(({ statements }) => statements.some((text) => text.includes("langgraph_threads"))).length;
  // Each second; on a busy machine fewer, so it is tried again.
  for (let tries = 0; tries < 10 && looks() <= 2; tries += 1) {
    proxy.reset();
    await new Promise((resolve) => setTimeout(resolve, 5_000));
  }
  expect(looks()).toBeGreaterThan(2);
  await save(writer, "t");
  expect((await next).value).toMatchObject({ threadId: "t" });
  await changes.return();
  hints.stop();
  await Promise.all([writer.close(), follower.close()]);
  await proxy.close();
});

test("S10.4 where notifications don't arrive (PgBouncer in transaction mode), a follower is told of everything by looking", async () => {
  let pooler: Pooler | undefined;
  try {
    pooler = await startPgBouncer(direct(), { poolSize: 3 });
    const schema = schemaAt("notify-pooler");
    const [writer, follower] = [open(pooler.url, schema, { notify: true }), open(pooler.url, schema, { notify: true })];
    await writer.setup();
    const changes = follower.follow();
    await changes.ready;
    const told: string[] = [];
    const following = (async () => {
      for await (const change of changes) if (told.push(change.threadId) === 20) break;
    })();
    for (let round = 0; round < 20; round += 1) await save(writer, `t${round % 4}`);
    await following;
    expect(told.filter((id) => id === "t3")).toHaveLength(5);
    await Promise.all([writer.close(), follower.close()]);
  } finally {
    await pooler?.stop();
  }
});

test("S10.4 connections that are cut, again and again, make a follower neither miss nor repeat anything", async () => {
  const proxy = await PostgresProxy.inFrontOf(direct());
  const schema = schemaAt("follow-cut");
  const [writer, follower] = [open(direct(), schema, { notify: true }), open(proxy.url, schema, { notify: true })];
  await writer.setup();
  const told: number[] = [];
  const changes = follower.follow({ threadId: "t" });
  await changes.ready;
  const following = (async () => {
    for await (const { seq } of changes) if (told.push(seq) === 60) break;
  })();
  for (let round = 0; round < 60; round += 1) {
    await save(writer, "t");
    if (round % 10 === 5) {
      proxy.cutAll();
      await new Promise((resolve) => setTimeout(resolve, 100));
    }
  }
  await following;
  const seqs = await (async () => {
    const all: number[] = [];
    for await (const { seq } of follower.follow({ threadId: "t", from: "start" })) if (all.push(seq) === 60) break;
    return all;
  })();
  expect(new Set(told).size).toBe(60);
  expect(told).toEqual(seqs);
  await Promise.all([writer.close(), follower.close()]);
  await proxy.close();
});

test("S10.4 a server that is away for longer than busyTimeoutMs ends the loop, and the cursor continues it", async () => {
  const proxy = await PostgresProxy.inFrontOf(direct());
  const schema = schemaAt("follow-away");
  const [writer, follower] = [open(direct(), schema), open(proxy.url, schema, { busyTimeoutMs: 200 })];
  await writer.setup();
  const changes = follower.follow({ threadId: "t" });
  await changes.ready;
  await save(writer, "t");
  expect((await changes.next()).done).toBe(false);
  proxy.incoming = "refuse";
  proxy.cutAll();
  await save(writer, "t");
  await expect(changes.next()).rejects.toMatchObject({ code: "STORE_UNAVAILABLE" });
  proxy.incoming = "serve";
  await save(writer, "t");
  const again = follower.follow({ threadId: "t", after: changes.cursor });
  const seqs = [(await again.next()).value, (await again.next()).value].map((change) => (change as Change).seq);
  expect(seqs[1]).toBeGreaterThan(seqs[0]!);
  await again.return();
  await Promise.all([writer.close(), follower.close()]);
  await proxy.close();
});

test("S10.4 while nothing is saved, a look is one round trip for all followed threads", async () => {
  const proxy = await PostgresProxy.inFrontOf(direct());
  proxy.delay = { toServer: 2, toClient: 2 };
  const schema = schemaAt("follow-trips");
  const [writer, follower] = [open(direct(), schema), open(proxy.url, schema)];
  await writer.setup();
  for (let thread = 0; thread < 5; thread += 1) await save(writer, `t${thread}`);
  const changes = follower.follow({ threadId: ["t0", "t1", "t2", "t3", "t4", "t5"] });
  await changes.ready;
  const next = changes.next();
  await new Promise((resolve) => setTimeout(resolve, 500));
  proxy.reset();
  await new Promise((resolve) => setTimeout(resolve, 1_500));
  const looks = (): number =>
    proxy.flights.filter(({ statements }) => statements.some((text) => text.includes("langgraph_threads"))).length;
  while (looks() === 0) await new Promise((resolve) => setTimeout(resolve, 100));
  const others = proxy.flights.filter(({ statements }) =>
    statements.some((text) => !/langgraph_threads|lock_timeout|^BEGIN|^SET LOCAL|^COMMIT/.test(text)),
  );
  expect(others).toEqual([]);
  await save(writer, "t5");
  expect((await next).value).toMatchObject({ threadId: "t5" });
  await changes.return();
  await Promise.all([writer.close(), follower.close()]);
  await proxy.close();
});

test("S10.4 a look reads what is new, and not the rows that were there, however many", async () => {
  const schema = schemaAt("follow-rows");
  const pool = new Pool({ connectionString: direct(), max: 1 });
  const [writer, follower] = [open(direct(), schema), new PostgresTurnSaver(pool, { schema, logger: quiet })];
  for (let step = 0; step < 200; step += 1) await save(writer, "long");
  await pool.query(`ANALYZE "${schema}".langgraph_snapshots, "${schema}".langgraph_checkpoints`);
  const changes = follower.follow();
  await changes.ready;
  const before = await rowsRead(pool, schema);
  await save(writer, "long");
  await save(writer, "new");
  expect((await changes.next()).value).toMatchObject({ threadId: "long" });
  expect((await changes.next()).value).toMatchObject({ threadId: "new" });
  expect((await rowsRead(pool, schema)) - before).toBeLessThan(100);
  await changes.return();
  await Promise.all([writer.close(), follower.close()]);
  await pool.end();
});

test("S10.4 a pool of one is left to the saves: a follower listens only where a connection is left", async () => {
  for (const max of [1, 2]) {
    const pool = new Pool({ connectionString: direct(), max });
    const saver = new PostgresTurnSaver(pool, { schema: schemaAt(`notify-${max}`), logger: quiet, notify: true });
    await saver.setup();
    const { store } = internalsOf(saver);
    const hints = [store.listen?.(() => undefined), store.listen?.(() => undefined)];
    await new Promise((resolve) => setTimeout(resolve, 300));
    for (let at = 0; at < 5; at += 1) {
      const since = performance.now();
      await save(saver, "t");
      expect(performance.now() - since).toBeLessThan(20_000);
    }
    if (max === 1) expect(hints.map((hint) => hint?.areHeard)).toEqual([false, false]);
    else while (hints[0]?.areHeard !== true) await new Promise((resolve) => setTimeout(resolve, 20));
    const changes = saver.follow({ threadId: "t" });
    await changes.ready;
    await save(saver, "t");
    expect((await changes.next()).value).toMatchObject({ threadId: "t" });
    await changes.return();
    for (const hint of hints) hint?.stop();
    await saver.close();
    await pool.end();
  }
});

test("S10.4 a follower that comes while the last one's connection is still being made doesn't make two of them listen", async () => {
  const name = schemaAt("notify-twice");
  const pool = new Pool({ connectionString: direct(), allowExitOnIdle: true, application_name: name });
  let hold: Promise<void> | undefined;
  const waiting = waitingPool(pool, () => hold);
  const saver = new PostgresTurnSaver(waiting, { schema: name, logger: quiet, notify: true });
  await saver.setup();
  const { store } = internalsOf(saver);
  let go = (): void => undefined;
  hold = new Promise((resolve) => (go = resolve));
  const first = store.listen?.(() => undefined);
  first?.stop();
  const second = store.listen?.(() => undefined);
  go();
  hold = undefined;
  while (second?.areHeard !== true) await new Promise((resolve) => setTimeout(resolve, 20));
  const admin = new Client(process.env["TURNS_PG_DIRECT_URL"]);
  await admin.connect();
  const listening =
    "SELECT count(*)::int AS n FROM pg_stat_activity WHERE application_name = $1 AND query LIKE 'LISTEN langgraph%' AND state = 'idle'";
  await new Promise((resolve) => setTimeout(resolve, 100));
  const { rows } = await admin.query<{ n: number }>(listening, [name]);
  await admin.end();
  second?.stop();
  await saver.close();
  await pool.end();
  expect(rows).toEqual([{ n: 1 }]);
});

test("S10.4 a follower and a worker's loop that are aborted don't wait for a server that has fallen silent", async () => {
  const proxy = await PostgresProxy.inFrontOf(direct());
  // Longer than this test may take: that long they would wait.
  const saver = open(proxy.url, schemaAt("silent"), { busyTimeoutMs: 600_000 });
  await saver.setup();
  await save(saver, "t");
  const builder = new StateGraph(Annotation.Root({})).addNode("a", () => ({})).addEdge(START, "a");
  const runner = new GraphRunner(builder.compile({ checkpointer: saver }));
  const stop = new AbortController();
  const changes = saver.follow({ signal: stop.signal });
  await changes.ready;
  const { cursor } = changes;
  // Each asks the next thing of a connection that swallows it.
  proxy.fate = () => "freeze";
  const next = changes.next();
  const starting = saver.follow({ signal: stop.signal }).next();
  const reports = runner.recoveries({ signal: stop.signal }).next();
  await new Promise((resolve) => setTimeout(resolve, 500));
  stop.abort();
  expect(await next).toEqual({ done: true, value: undefined });
  expect(await starting).toEqual({ done: true, value: undefined });
  expect(await reports).toEqual({ done: true, value: undefined });
  expect(changes.cursor).toBe(cursor);
  proxy.fate = () => "pass";
  proxy.cutAll();
  await saver.close();
  await proxy.close();
});
