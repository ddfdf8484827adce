import { Annotation, MessagesAnnotation, START, StateGraph } from "@langchain/langgraph";
import { emptyCheckpoint } from "@langchain/langgraph-checkpoint";
import { effect, GraphRunner } from "langgraph-checkpoint-turns";
import { Client, Pool } from "pg";
import { PostgresTurnSaver } from "langgraph-checkpoint-turns/postgres";
import { internalsOf } from "../../src/testing-internal";
import { thread } from "../support/eff-world";
import { schemaAt } from "../support/open-saver";
import { quiet } from "../support/s1-tools";

/** Somebody else holds a lock: a table as `VACUUM FULL` and `ALTER TABLE` lock it, or a row. */
const url = process.env["TURNS_PG_DIRECT_URL"]!;
const schema = schemaAt("locks");
const BUSY_MS = 1_000;
/** A second more for the last try, and what a busy machine takes. Without a limit it would take for ever. */
const AT_MOST_MS = BUSY_MS + 1_000 + 28_000;
const savers: PostgresTurnSaver[] = [];
let locker: Client;
let admin: Client;

const open = (busyTimeoutMs = BUSY_MS): PostgresTurnSaver => {
  const saver = PostgresTurnSaver.fromConnString(url, { schema, logger: quiet, busyTimeoutMs });
  savers.push(saver);
  return saver;
};
const put = (saver: PostgresTurnSaver, id: string) =>
  saver.put(thread(id), emptyCheckpoint(), { source: "input", step: -1, parents: {} }, {});

beforeAll(async () => {
  [locker, admin] = [new Client(url), new Client(url)];
  await Promise.all([locker.connect(), admin.connect()]);
  await put(open(), "t");
});
afterEach(async () => {
  await locker.query("ROLLBACK");
  await Promise.all(savers.splice(0).map((saver) => saver.close()));
});
afterAll(() => Promise.all([locker.end(), admin.end()]));

/** What it fails with, and how long that took. */
async function failure(work: Promise<unknown>): Promise<{ error: unknown; ms: number }> {
  const since = performance.now();
  const error: unknown = await work.then(
    () => undefined,
    (caught: unknown) => caught,
  );
  return { error, ms: performance.now() - since };
}

/** How many backends wait for the lock. */
async function waiting(): Promise<number> {
  const { rows: own } = await locker.query<{ pid: number }>("SELECT pg_backend_pid() AS pid");
  const { rows } = await admin.query<{ n: number }>(
    "SELECT count(*)::int AS n FROM pg_stat_activity WHERE $1 = ANY(pg_blocking_pids(pid))",
    [own[0]?.pid],
  );
  return rows[0]?.n ?? 0;
}

/** A backend may take a moment to notice its own time limit. Without one it would wait until the lock is free. */
async function nobodyWaits(): Promise<void> {
  const since = performance.now();
  while ((await waiting()) > 0 && performance.now() - since < AT_MOST_MS) await new Promise((resolve) => setTimeout(resolve, 50));
  expect(await waiting()).toBe(0);
}

test.each([
  ["langgraph_commits", false],
  ["langgraph_threads", true],
  ["langgraph_snapshots", true],
])(
  "S9.3 PostgreSQL: while somebody locks the table %s, all fails with STORE_BUSY in time, and nobody keeps waiting",
  async (table, isRead) => {
    const [reader, writer] = [open(), open()];
    await Promise.all([reader.setup(), writer.setup()]);
    await locker.query(`BEGIN; LOCK TABLE "${schema}".${table} IN ACCESS EXCLUSIVE MODE`);
    const all = await Promise.all([failure(put(writer, "t")), ...(isRead ? [failure(reader.getTuple(thread("t")))] : [])]);
    await nobodyWaits();
    for (const { error, ms } of all) {
      expect(error).toMatchObject({ code: "STORE_BUSY", data: { sqlstate: "55P03" } });
      expect(ms).toBeGreaterThan(BUSY_MS * 0.9);
      expect(ms).toBeLessThan(AT_MOST_MS);
    }
    if (!isRead) expect(await reader.getTuple(thread("t"))).toBeDefined();
    await locker.query("ROLLBACK");
    await put(writer, "t");
    expect(await reader.getTuple(thread("t"))).toBeDefined();
  },
);

test.each(["langgraph_migrations", "langgraph_settings"])(
  "S9.3 PostgreSQL: a process that starts while somebody locks the table %s fails with STORE_BUSY in time, and can start later",
  async (table) => {
    const saver = open();
    await locker.query(`BEGIN; LOCK TABLE "${schema}".${table} IN ACCESS EXCLUSIVE MODE`);
    const { error, ms } = await failure(saver.getTuple(thread("t")));
    await nobodyWaits();
    expect(error).toMatchObject({ code: "STORE_BUSY", data: { sqlstate: "55P03" } });
    expect(ms).toBeLessThan(AT_MOST_MS);
    await locker.query("ROLLBACK");
    expect(await saver.getTuple(thread("t"))).toBeDefined();
  },
);

test("S9.3 PostgreSQL: a lock that is released in time makes a read and a save wait, and nothing more", async () => {
  const [reader, writer] = [open(20_000), open(20_000)];
  await Promise.all([reader.setup(), writer.setup()]);
  await locker.query(`BEGIN; LOCK TABLE "${schema}".langgraph_threads IN ACCESS EXCLUSIVE MODE`);
  const both = Promise.all([reader.getTuple(thread("t")), put(writer, "t")]);
  while ((await waiting()) < 2) await new Promise((resolve) => setTimeout(resolve, 20));
  await locker.query("ROLLBACK");
  await expect(both).resolves.toMatchObject([{ config: thread("t") }, {}]);
});

test("S9.3 PostgreSQL: settling an effect locks its thread before its row, as all others do, so that they don't deadlock", async () => {
  const saver = open(20_000);
  const graph = saver.attach(
    new StateGraph(MessagesAnnotation)
      .addNode("n", async () => void (await effect("mail", () => Promise.reject(new Error("timeout")), { onError: "unknown" })))
      .addEdge(START, "n")
      .compile({ checkpointer: saver }),
  );
  await expect(graph.invoke({ messages: [] }, thread("doubt"))).rejects.toThrow();
  const { id } = (await saver.effects.list("doubt"))[0]!;
  // One that knows the thread already, and one that doesn't.
  for (const settler of [saver, open(20_000)]) {
    await settler.setup();
    await locker.query("BEGIN");
    await locker.query(`SELECT FROM "${schema}".langgraph_threads WHERE thread_id = 'doubt' FOR UPDATE`);
    const { store } = internalsOf(settler);
    const settled = store.settleEffect(id, { status: "failed", outcome: undefined, endedAt: "", settledBy: "person" });
    while ((await waiting()) < 1) await new Promise((resolve) => setTimeout(resolve, 20));
    await locker.query(`SELECT FROM "${schema}".langgraph_effects WHERE id = '${id}' FOR UPDATE NOWAIT`);
    await locker.query("ROLLBACK");
    expect(await settled).toMatchObject({ id, status: "failed" });
  }
});

describe("heartbeats", () => {
  const run = (id: string) => ({ runId: id, threadId: id, host: "h", boot: "b", pid: 1, pidStart: "", startedAt: "", beatAt: 1 });
  const beats = async (): Promise<Record<string, number>> => {
    const { rows } = await admin.query<{ run_id: string; beat_at: string }>(
      `SELECT run_id, beat_at FROM "${schema}".langgraph_runs`,
    );
    return Object.fromEntries(rows.map(({ run_id, beat_at }) => [run_id, Number(beat_at)]));
  };

  /** A busy machine may hold up one of them: then it's the time of the next one that counts. */
  async function beatRefused(store: ReturnType<typeof internalsOf>["store"], id: string): ReturnType<typeof failure> {
    let found = await failure(Promise.resolve(store.beatRuns([id], 1)));
    for (let tries = 1; tries < 4 && found.ms >= 10_000; tries += 1)
      found = await failure(Promise.resolve(store.beatRuns([id], 1)));
    return found;
  }

  test("S9.4 PostgreSQL: a run whose row somebody has locked keeps no other run from its heartbeat", async () => {
    const { store } = internalsOf(open(30_000));
    const ids = ["one", "two", "three"];
    for (const id of ids) await store.beginRun(run(id), () => []);
    const before = await beats();
    await locker.query("BEGIN");
    await locker.query(`SELECT FROM "${schema}".langgraph_runs WHERE run_id = 'two' FOR UPDATE`);
    const since = performance.now();
    // A run whose row is skipped still has it.
    expect([...(await store.beatRuns([...ids, "gone"], 1))].toSorted()).toEqual(ids.toSorted());
    expect(performance.now() - since).toBeLessThan(25_000);
    const during = await beats();
    for (const id of ids) expect([id, during[id]! > before[id]!]).toEqual([id, id !== "two"]);
    await locker.query("ROLLBACK");
    expect(await store.beatRuns(ids, 1)).toHaveLength(3);
    expect((await beats())["two"]!).toBeGreaterThan(before["two"]!);
  });

  test("S9.4 PostgreSQL: a heartbeat gives up after a few seconds where all runs are locked, so that the next one comes in time", async () => {
    const { store } = internalsOf(open(30_000));
    await store.beginRun(run("four"), () => []);
    await locker.query(`BEGIN; LOCK TABLE "${schema}".langgraph_runs IN ACCESS EXCLUSIVE MODE`);
    const { error, ms } = await beatRefused(store, "four");
    expect(error).toMatchObject({ code: "STORE_BUSY" });
    expect(ms).toBeLessThan(10_000);
    await locker.query("ROLLBACK");
    expect(await store.beatRuns(["four"], 1)).toEqual(["four"]);
  });

  test("S9.4 PostgreSQL: a heartbeat gives up after a few seconds where others have all connections of the pool", async () => {
    const pool = new Pool({ connectionString: url, max: 1 });
    const saver = new PostgresTurnSaver(pool, { schema, logger: quiet, busyTimeoutMs: 30_000 });
    const { store } = internalsOf(saver);
    await store.beginRun(run("five"), () => []);
    // A new saver looks for leftovers in the background; the heartbeat would wait behind that.
    await new Promise((resolve) => setTimeout(resolve, 50));
    await store.listRuns("five");
    const client = await pool.connect();
    const { error, ms } = await beatRefused(store, "five");
    expect(error).toMatchObject({ code: "STORE_UNAVAILABLE", message: expect.stringContaining("no connection of the pool") });
    expect(ms).toBeLessThan(10_000);
    client.release();
    expect(await store.beatRuns(["five"], 1)).toEqual(["five"]);
    await saver.close();
    await pool.end();
  });
});

/*
 * Some forms of ALTER TABLE write the whole table again, and leave it empty for states of the database that are older (PostgreSQL's documentation,
 * "Caveats" of its concurrency control). `VACUUM FULL` and `CLUSTER` don't.
 */
test.each([
  ["adds a column with a default of its own for each row", "ADD COLUMN added int DEFAULT (random() * 10)::int"],
  ["makes it unlogged", "SET UNLOGGED"],
])("S9.3 PostgreSQL: reads that wait for a table while somebody %s find everything in it", async (_, change) => {
  const [saver, other] = [open(30_000), open(30_000)];
  const state = Annotation.Root({ log: Annotation<string[]>({ reducer: (a, b) => a.concat(b), default: () => [] }) });
  const graph = new StateGraph(state)
    .addNode("only", async () => ({ log: [await effect("greet", () => "hello")] }))
    .addEdge(START, "only")
    .compile({ checkpointer: saver });
  const runner = new GraphRunner(graph);
  const threadId = `rewritten, ${change}`;
  await runner.invoke({ log: [] }, { threadId });
  const seen = async (from: PostgresTurnSaver) => {
    const tuples = [];
    for await (const { checkpoint } of from.list(thread(threadId))) tuples.push(checkpoint.id);
    return {
      state: (await from.getTuple(thread(threadId)))?.checkpoint.channel_values,
      tuples,
      turns: (await from.turns.list(threadId)).map(({ id }) => id),
      effects: (await from.effects.list(threadId)).map(({ id }) => id),
      verified: (await from.verify({ threadId })).problems,
    };
  };
  const before = await seen(other);
  expect(before).toMatchObject({ state: { log: ["hello"] }, turns: [{}, {}], effects: [{}], verified: [] });
  for (const table of ["threads", "snapshots", "writes", "checkpoints", "effects", "tasks", "graphs", "migrations"]) {
    await locker.query(`BEGIN; ALTER TABLE "${schema}".langgraph_${table} ${change}`);
    const reads = Promise.all([seen(saver), seen(other)]);
    while ((await waiting()) === 0) await new Promise((resolve) => setTimeout(resolve, 20));
    await locker.query("COMMIT");
    expect([table, ...(await reads)]).toEqual([table, before, before]);
    await locker.query(
      `ALTER TABLE "${schema}".langgraph_${table} ${change.startsWith("ADD") ? "DROP COLUMN added" : "SET LOGGED"}`,
    );
  }
});
