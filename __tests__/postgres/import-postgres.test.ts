import { isDeepStrictEqual } from "node:util";
import { Command } from "@langchain/langgraph";
import { type CheckpointTuple, emptyCheckpoint, TASKS, uuid6 } from "@langchain/langgraph-checkpoint";
import { PostgresSaver } from "@langchain/langgraph-checkpoint-postgres";
import { importOfficialPostgres } from "langgraph-checkpoint-turns/import";
import { TurnSaver } from "langgraph-checkpoint-turns";
import { PostgresTurnSaver } from "langgraph-checkpoint-turns/postgres";
import { Pool } from "pg";
import { setRoundTripHook } from "../../src/testing-internal";
import { fillThreads, say, worldGraph } from "../import/imp-world";
import { collect, thread } from "../support/diff-harness";
import { refusal } from "../support/eff-world";
import { openSaver, schemaAt, WORKER } from "../support/open-saver";
import { runProgram } from "../support/s1-programs";
import { quiet } from "../support/s1-tools";
import { tempFile } from "../support/temp";

jest.setTimeout(300_000);
const THREADS = ["answered", "exit", "flaky", "forked", "waiting"];
/** A name that has to be quoted. */
const SCHEMA = `${WORKER}Official "saver"`.toLowerCase().replaceAll('"', "");
const url = process.env["TURNS_PG_URL"] ?? "";
let pool: Pool;
let official: PostgresSaver;
const savers: TurnSaver[] = [];

beforeAll(async () => {
  pool = new Pool({ connectionString: url });
  official = new PostgresSaver(pool, undefined, { schema: SCHEMA });
  await official.setup();
  await fillThreads(official);
});
afterEach(() => {
  for (const saver of savers.splice(0)) saver.close();
});
afterAll(async () => {
  await pool.query(`DROP SCHEMA "${SCHEMA}" CASCADE`);
  await pool.end();
});

const TARGETS: readonly (readonly [string, (path?: string) => TurnSaver])[] = [
  ["PostgreSQL", (path = tempFile()) => openSaver(path, { logger: quiet })],
  ["SQLite", (path = tempFile()) => TurnSaver.fromPath(path, { logger: quiet })],
];
const opened = (saver: TurnSaver): TurnSaver => {
  savers.push(saver);
  return saver;
};

describe.each(TARGETS)("into %s", (_, open) => {
  test("S9.7 every checkpoint of real graphs reads as the official saver reads it, and a second import writes nothing", async () => {
    const saver = opened(open());
    const seen: string[] = [];
    const report = await importOfficialPostgres(saver, url, {
      schema: SCHEMA,
      onThread: ({ threadId }) => seen.push(threadId),
    });
    expect(report.threads.map(({ threadId, outcome, verified }) => [threadId, outcome, verified])).toEqual(
      THREADS.map((id) => [id, "imported", true]),
    );
    expect(seen).toEqual(THREADS);
    expect(report.file).not.toMatch(/:[^/@]*@/);
    for (const id of THREADS) {
      const wanted = (await collect(official.list(thread(id)))).map(comparable);
      expect(wanted.length).toBeGreaterThan(2);
      const found = new Map(
        (await collect(saver.list(thread(id)))).map(comparable).map((one: any) => [`${one.ns} ${one.id}`, one]),
      );
      for (const one of wanted as any[]) expect(found.get(`${one.ns} ${one.id}`)).toEqual(one);
      expect(found.size).toBe(wanted.length);
      expect(comparable(await saver.getTuple(thread(id)))).toEqual(comparable(await official.getTuple(thread(id))));
    }
    expect((await saver.verify()).problems).toEqual([]);
    const again = await importOfficialPostgres(saver, pool, { schema: SCHEMA });
    expect(again.threads.map(({ outcome }) => outcome)).toEqual(THREADS.map(() => "present"));
    // The pool is the caller's and still works.
    expect((await pool.query("SELECT 1 AS it")).rows).toEqual([{ it: 1 }]);
  });

  test("S9.7 an imported thread continues: a person's answer, a fork, a task that failed", async () => {
    const saver = opened(open());
    await importOfficialPostgres(saver, pool, { schema: SCHEMA, threads: ["waiting"], mapThreadId: () => "mine" });
    const graph = worldGraph(saver);
    const done = await graph.invoke(new Command({ resume: "yes" }), thread("mine"));
    expect(done.log.slice(-2)).toEqual(["answer yes", "done"]);
    expect((await saver.listThreads()).map(({ threadId }) => threadId)).toEqual(["mine"]);
    await graph.invoke(say("more"), thread("mine"));
  });

  test("S9.7 checkpoints before format 4 read as the official saver reads them: pending Sends of the parent in a channel", async () => {
    const id = `old-${_}`;
    const ids = [0, 1, 2].map((index) => uuid6(index));
    for (const [index, checkpointId] of ids.entries()) {
      const checkpoint = {
        ...{ ...emptyCheckpoint(), v: [1, 2, 3][index]!, id: checkpointId },
        channel_values: { x: index },
        channel_versions: { x: index + 1 },
      };
      const config = thread(id, { checkpoint_ns: "", ...(index > 0 && { checkpoint_id: ids[index - 1] }) });
      await official.put(config, checkpoint, { source: "loop", step: index, parents: {} }, { x: index + 1 });
    }
    const sends = ["task-b", "task-a"];
    for (const task of sends)
      await official.putWrites(
        thread(id, { checkpoint_ns: "", checkpoint_id: ids[1] }),
        [[TASKS, { lg_name: "Send", node: "n", args: { task } }]],
        task,
      );
    const saver = opened(open());
    await importOfficialPostgres(saver, pool, { schema: SCHEMA, threads: [id] });
    for (const checkpointId of ids) {
      const at = thread(id, { checkpoint_ns: "", checkpoint_id: checkpointId });
      expect(comparable(await saver.getTuple(at))).toEqual(comparable(await official.getTuple(at)));
    }
    await official.deleteThread(id);
  });

  test("S9.7 an import that was killed is completed by the next one", async () => {
    const path = tempFile();
    const died = runProgram("postgres/import-child.ts", _, path, SCHEMA, "7");
    expect(died.signal).toBe("SIGKILL");
    const saver = opened(open(path));
    const report = await importOfficialPostgres(saver, pool, { schema: SCHEMA });
    expect(report.threads.map(({ threadId }) => threadId)).toEqual(THREADS);
    expect(report.threads.filter(({ outcome }) => outcome === "completed").length).toBe(1);
    for (const id of THREADS)
      expect(comparable(await saver.getTuple(thread(id)))).toEqual(comparable(await official.getTuple(thread(id))));
  });

  test("S9.7 what can't be imported is refused before anything is written", async () => {
    const saver = opened(open());
    const from = (source: string | Pool | number, options: object) =>
      refusal(importOfficialPostgres(saver, source as string, options));
    expect(await from(pool, { schema: "nowhere" })).toMatchObject({ code: "SCHEMA_CONFLICT" });
    expect(await from("postgresql://nobody:secret@127.0.0.1:1/none", {})).toMatchObject({ code: "STORE_UNAVAILABLE" });
    expect((await from("postgresql://nobody:secret@127.0.0.1:1/none", {})).message).not.toContain("secret");
    expect(await from(pool, { schema: SCHEMA, threads: ["nobody"] })).toMatchObject({ code: "THREAD_NOT_FOUND" });
    expect(await from(pool, { schema: "" })).toMatchObject({ code: "INVALID_OPTION" });
    expect(await from(7, {})).toMatchObject({ code: "INVALID_OPTION" });
    expect(await from(pool, { shema: "x" })).toMatchObject({ code: "INVALID_OPTION" });
    expect((await saver.listThreads()).length).toBe(0);
  });
});

/** What both must agree on. The official saver reads bytes among pending writes right here, other than on SQLite. */
function comparable(tuple: CheckpointTuple | undefined): unknown {
  if (tuple === undefined) return undefined;
  const { checkpoint, pendingWrites = [], metadata } = tuple;
  const { pending_sends: _, ...rest } = checkpoint as any;
  // For a parent without Sends, the official PostgresSaver leaves the channel out, and SqliteSaver has an empty one.
  if (rest.v < 4 && tuple.parentConfig !== undefined && rest.channel_values[TASKS] === undefined) {
    rest.channel_values = { ...rest.channel_values, [TASKS]: [] };
    rest.channel_versions = {
      ...rest.channel_versions,
      [TASKS]: Math.max(...Object.values<number>(rest.channel_versions)),
    };
  }
  const parent = tuple.parentConfig?.configurable?.["checkpoint_id"] as string | undefined;
  // No saver promises an order of tasks.
  const tasks = [...new Set(pendingWrites.map(([task]) => task))].sort();
  return {
    checkpoint: rest,
    metadata,
    id: tuple.config.configurable?.["checkpoint_id"],
    ns: tuple.config.configurable?.["checkpoint_ns"],
    parent: parent === checkpoint.id ? undefined : parent,
    writes: tasks.map((task) => pendingWrites.filter(([one]) => isDeepStrictEqual(one, task))),
  };
}

test("S9.7 an import from a pool of one that its saver uses is refused at once; with a second connection it works", async () => {
  for (const max of [1, 2]) {
    const own = new Pool({ connectionString: url, max });
    const saver = new PostgresTurnSaver(own, { schema: schemaAt(`import-${max}`), logger: quiet });
    const imported = importOfficialPostgres(saver, own, { schema: SCHEMA, threads: ["waiting"] });
    if (max === 1) {
      expect(await refusal(imported)).toMatchObject({
        code: "INVALID_OPTION",
        message: expect.stringMatching(/max: 1.*connection string/),
      });
      expect(await saver.listThreads()).toEqual([]);
      // A pool of its own may be as small.
      const other = new Pool({ connectionString: url, max });
      await importOfficialPostgres(saver, other, { schema: SCHEMA, threads: ["waiting"] });
      await other.end();
    } else await imported;
    expect((await saver.listThreads()).map(({ threadId }) => threadId)).toEqual(["waiting"]);
    expect((await saver.verify()).problems).toEqual([]);
    await saver.close();
    await own.end();
  }
});

test("S9.7 an import that waits for a table that is written again reads all of it, and waits for a lock for a minute at most", async () => {
  const name = `${SCHEMA} locked`;
  const source = new PostgresSaver(pool, undefined, { schema: name });
  await source.setup();
  await fillThreads(source);
  const saver = openSaver(tempFile(), { logger: quiet });
  savers.push(saver);
  await saver.setup?.();
  const locker = await pool.connect();
  const { rows: own } = await locker.query<{ pid: number }>("SELECT pg_backend_pid() AS pid");
  const waiting = "SELECT 1 FROM pg_stat_activity WHERE $1 = ANY(pg_blocking_pids(pid))";
  const isWaiting = async (): Promise<boolean> => (await pool.query(waiting, [own[0]?.pid])).rowCount !== 0;
  const sent: string[][] = [];
  try {
    for (const table of ["checkpoints", "checkpoint_blobs", "checkpoint_writes"]) {
      await locker.query(`BEGIN; ALTER TABLE "${name}".${table} ADD COLUMN again_${table} text DEFAULT gen_random_uuid()::text`);
      setRoundTripHook((texts) => sent.push([...texts]));
      const imported = importOfficialPostgres(saver, url, { schema: name, mapThreadId: (id) => `${table} ${id}` });
      while (!(await isWaiting())) await new Promise((resolve) => setTimeout(resolve, 20));
      await locker.query("COMMIT");
      const { threads } = await imported;
      expect(threads.map(({ threadId, verified }) => [threadId, verified])).toEqual(THREADS.map((id) => [id, true]));
      setRoundTripHook(undefined);
      for (const id of THREADS)
        expect(comparable(await saver.getTuple(thread(`${table} ${id}`)))).toEqual(comparable(await source.getTuple(thread(id))));
    }
  } finally {
    setRoundTripHook(undefined);
    await locker.query("ROLLBACK");
    locker.release();
    await pool.query(`DROP SCHEMA "${name}" CASCADE`);
  }
  const begun = sent.flatMap((texts, at) =>
    texts.some((text) => text.includes("checkpoint_id")) ? [sent.slice(0, at + 1).flat()] : [],
  );
  for (const texts of begun)
    expect(texts.join()).toMatch(/BEGIN.*SET LOCAL lock_timeout TO 60000,LOCK TABLE .* IN ACCESS SHARE MODE/s);
});
