import { vacuum } from "langgraph-checkpoint-turns/maintenance";
import { spawnSync } from "node:child_process";
import { randomBytes } from "node:crypto";
import { statSync } from "node:fs";
import { join } from "node:path";
import { Command } from "@langchain/langgraph";
import { emptyCheckpoint, uuid6 } from "@langchain/langgraph-checkpoint";
import Database from "better-sqlite3";
import fc from "fast-check";
import type { TurnSaver } from "langgraph-checkpoint-turns";
import { type PrunedEvent, internalsOf } from "../../src/testing-internal";
import { Deeds } from "../support/eff-world";
import { at, collect, expectSame, input, Shop, THREAD } from "../support/ret-world";
import { dump, listener, quiet, sqlOn } from "../support/s1-tools";
import { tempFile } from "../support/temp";
import { choresOn, config } from "../support/undo-world";
import { childProgram } from "../support/child-program";
import { pairs, points, runs } from "../support/lane";
import { laneTest, longTest, longTestOfFiles } from "../support/lane-test";
import { openSaver } from "../support/open-saver";
import { testOfFiles } from "../support/test-of-files";

const DAY = 86_400_000;
const shops: Shop[] = [];
const open = (options: ConstructorParameters<typeof Shop>[0] = {}): Shop => {
  const shop = new Shop(options);
  shops.push(shop);
  return shop;
};
afterEach(() => {
  for (const shop of shops.splice(0)) shop.close();
});

/** Saves one checkpoint after another in the root's namespace, each a task of its own, and returns their configs. */
async function putAll(saver: TurnSaver, states: readonly Record<string, unknown>[], from?: any): Promise<any[]> {
  const configs: any[] = [];
  let parent = from;
  for (const values of states) {
    const index = puts++;
    const versions = Object.fromEntries(Object.keys(values).map((channel) => [channel, index + 1]));
    const checkpoint = { ...emptyCheckpoint(), id: uuid6(index), channel_values: values, channel_versions: versions };
    const config = { configurable: { ...(parent ?? at()).configurable, task_id: `task ${configs.length}` } };
    parent = await saver.put(config, checkpoint, { source: "input", step: index, parents: {} }, versions);
    configs.push(parent);
  }
  return configs;
}
let puts = 0;

/** Turns of the event loop, and of the database, in which a prune begins and ends however slow the machine is. */
async function settled(shop?: Shop): Promise<void> {
  for (let turn = 0; turn < 20; turn += 1) {
    await new Promise((resolve) => setTimeout(resolve, 1));
    await shop?.saver.turns.list("nobody");
  }
}
const sizeOf = (path: string): number =>
  [path, `${path}-wal`].reduce((sum, file) => sum + (statSync(file, { throwIfNoEntry: false })?.size ?? 0), 0);

/** Chunks, lists and items that a second look would still remove. */
async function expectSwept(shop: Shop): Promise<void> {
  const again = await shop.saver.prune({ keepLast: 1_000_000 });
  expect(again).toMatchObject({ threads: 0, checkpoints: 0, writes: 0, turns: 0, chunks: 0 });
}

describe("S2.1 prune", () => {
  test("S2.1 keepLast keeps the newest checkpoints, each reads as before, also in a new process, and the graph continues", async () => {
    const shop = open({ frequency: 0 });
    await shop.run(6);
    const before = await shop.everything();
    const roots = await shop.roots();
    const report = await shop.saver.prune({ threadId: THREAD, keepLast: 3 });
    expect(report).toMatchObject({ threads: 1, deletedThreads: [], failed: [], dryRun: false, done: true });
    expect(report.chunks).toBeGreaterThan(5);
    expect(await shop.roots()).toEqual(roots.slice(0, 3));
    expectSame(before, await shop.everything());
    shop.reopen();
    expectSame(before, await shop.everything());
    await expectSwept(shop);
    await shop.run(1);
    expect((await shop.graph.getState(at())).values.log).toHaveLength(5 * 7);
    expect(shop.count("langgraph_tasks")).toBe(7);
  });

  test("S2.1 the memory of a graph with checkpointer: true stays, and what it remembers", async () => {
    const shop = open({ frequency: 0 });
    await shop.run(4);
    await shop.saver.prune({ keepLast: 1 });
    await shop.run(1);
    const { values } = await shop.graph.getState(at());
    expect(values.note).toBe("memo after 9");
  });

  test("S2.1 maxAgeMs goes by the saver's clock, and keeps the newest however old it is", async () => {
    let now = Date.parse("2030-01-01");
    const shop = open({ frequency: 0, clock: () => new Date(now) });
    await shop.run(2);
    const old = await shop.roots();
    now += 10 * DAY;
    await shop.run(1);
    await shop.saver.prune({ maxAgeMs: 5 * DAY });
    const kept = await shop.roots();
    expect(kept.length).toBeGreaterThan(1);
    expect(kept.filter((id) => old.includes(id))).toEqual([]);
    now += 10 * DAY;
    await shop.saver.prune({ maxAgeMs: 5 * DAY });
    expect(await shop.roots()).toEqual(kept.slice(0, 1));
  });

  test("S2.1 without a threadId all threads are pruned", async () => {
    const shop = open({ frequency: 0 });
    for (const threadId of ["a", "b", "c"]) await shop.run(2, threadId);
    expect(await shop.saver.prune({ keepLast: 2 })).toMatchObject({ threads: 3 });
    for (const threadId of ["a", "b", "c"]) expect(await shop.roots(threadId)).toHaveLength(2);
  });

  test("S2.1 a thread with damaged rows is named, and does not keep the others from being pruned", async () => {
    const shop = open({ frequency: 0 });
    for (const threadId of ["a", "b"]) await shop.run(2, threadId);
    sqlOn(shop.path, "UPDATE langgraph_snapshots SET channels = 'x' WHERE thread = (SELECT min(thread) FROM langgraph_threads)");
    const report = await shop.saver.prune({ keepLast: 1 });
    expect(report.failed.map(({ threadId }) => threadId)).toEqual(["a"]);
    expect(await shop.roots("b")).toHaveLength(1);
  });

  test("S2.1 a thread that is not there is refused by name, and nothing is told", async () => {
    const shop = open({ frequency: 0 });
    await shop.run(1);
    const rows = dump(shop.path);
    const told = jest.fn();
    shop.saver.events.on("pruned", told);
    for (const request of [{ keepLast: 1 }, { idleMs: 0 }, { keepLast: 1, dryRun: true }]) {
      const refused = { code: "THREAD_NOT_FOUND", data: { threadId: "thraed" } };
      await expect(shop.saver.prune({ threadId: "thraed", ...request })).rejects.toMatchObject(refused);
    }
    expect(dump(shop.path)).toEqual(rows);
    expect(told).not.toHaveBeenCalled();
  });

  test("S2.1 a prune tells its listeners what it reports, and a dry run tells nothing", async () => {
    const shop = open({ frequency: 0 });
    await shop.run(2);
    const told: PrunedEvent[] = [];
    shop.saver.events.on("pruned", (report) => told.push(report));
    await shop.saver.prune({ keepLast: 1, dryRun: true });
    const report = await shop.saver.prune({ keepLast: 1 });
    expect(told).toEqual([{ by: "prune", ...report }]);
  });

  test.each([{}, { keepLast: 0 }, { keepLast: 1.5 }, { maxAgeMs: -1 }, { keepLast: 1, batchSize: 0 }, { keepLast: 1, other: 1 }])(
    "S2.1 %j is refused with INVALID_OPTION",
    async (request) => {
      await expect(open().saver.prune(request as object)).rejects.toMatchObject({ code: "INVALID_OPTION" });
    },
  );

  test("S2.1 idleMs deletes whole threads, but none that is running and none with a named checkpoint", async () => {
    let now = Date.parse("2030-01-01");
    const shop = open({ frequency: 0, clock: () => new Date(now) });
    for (const threadId of ["idle", "named", "running", "busy"]) await shop.run(1, threadId);
    await shop.saver.names.set({ threadId: "named" }, "keep me");
    now += 10 * DAY;
    await shop.run(1, "busy");
    const release = await internalsOf(shop.saver).reserve("running");
    const dry = await shop.saver.prune({ idleMs: 5 * DAY, dryRun: true });
    const report = await shop.saver.prune({ idleMs: 5 * DAY });
    await release();
    expect(report.deletedThreads).toEqual(["idle"]);
    expect({ ...dry, dryRun: false, bytesFreed: 0 }).toEqual({ ...report, bytesFreed: 0 });
    expect((await shop.saver.listThreads()).map(({ threadId }) => threadId)).toEqual(["busy", "named", "running"]);
    await expect(shop.graph.updateState(at("idle"), { log: ["late"] }, "done")).resolves.toBeDefined();
  });

  test("S2.1 S3.5 idleMs keeps a thread with an effect in doubt, and its key, says so, and prunes it as the request says", async () => {
    let now = Date.parse("2030-01-01");
    const shop = open({ frequency: 0, clock: () => new Date(now) });
    const chores = choresOn(shop.saver, new Deeds());
    for (const threadId of ["doubt", "undone", "settled"]) {
      await chores.invoke({ deeds: [{ name: "b" }] }, config("a", threadId));
      if (threadId !== "undone") {
        const doubt = chores.invoke({ deeds: [{ name: "c", doubt: true }] }, config("b", threadId));
        await expect(doubt).rejects.toMatchObject({ code: "EFFECT_IN_DOUBT" });
      }
    }
    const [settled] = await shop.saver.effects.list("settled", { status: "in-doubt" });
    await shop.saver.effects.resolve(settled!.id, { outcome: "history" });
    // As after a process that died in an undo, once a person has abandoned the rewind.
    await chores.invoke({ deeds: [{ name: "d" }] }, config("b", "undone"));
    const [, last] = await shop.saver.effects.list("undone");
    const begun = { status: "begun", error: undefined, at: new Date(now).toISOString() } as const;
    await internalsOf(shop.saver).store.settleUndo(last!.id, begun);
    now += 10 * DAY;
    const effects = await shop.saver.effects.list("doubt");
    const dry = await shop.saver.prune({ idleMs: 5 * DAY, keepTasks: 1, dryRun: true });
    const report = await shop.saver.prune({ idleMs: 5 * DAY, keepTasks: 1 });
    expect(report).toMatchObject({ deletedThreads: ["settled"], inDoubt: ["doubt", "undone"], failed: [] });
    expect({ ...dry, dryRun: false, bytesFreed: 0 }).toEqual({ ...report, bytesFreed: 0 });
    const [doubt] = await shop.saver.effects.list("doubt", { status: "in-doubt" });
    expect(doubt).toEqual(effects.at(-1));
    expect(await shop.saver.prune({ threadId: "doubt", idleMs: 0 })).toMatchObject({ deletedThreads: [], inDoubt: ["doubt"] });
    await shop.saver.effects.resolve(doubt!.id, { outcome: "not-done" });
    await shop.saver.deleteThread("undone");
    now += 1;
    expect(await shop.saver.prune({ idleMs: 1 })).toMatchObject({ deletedThreads: ["doubt"], inDoubt: [] });
  });

  test("S2.1 S3.5 property: no prune removes an effect in doubt", async () => {
    const kinds = fc.array(fc.constantFrom("done", "fails", "doubt"), { minLength: 1, maxLength: 3 });
    const some = <T>(value: T) => fc.option(fc.constant(value), { nil: undefined });
    const request = fc.record({ idleMs: some(0), keepTasks: some(1), keepLast: fc.constant(1), maxAgeMs: some(0) });
    await fc.assert(
      fc.asyncProperty(fc.array(kinds, { minLength: 1, maxLength: 4 }), request, async (threads, given) => {
        let now = Date.parse("2030-01-01");
        const shop = open({ frequency: 0, clock: () => new Date(now) });
        const chores = choresOn(shop.saver, new Deeds());
        const doubts = async () => {
          const all = threads.map((_, index) => shop.saver.effects.list(`t${index}`, { status: "in-doubt" }));
          return (await Promise.all(all)).map((found) => found.map(({ id, key }) => [id, key]));
        };
        for (const [index, tasks] of threads.entries()) {
          for (const [task, kind] of tasks.entries()) {
            const deed = { name: `${task}`, fails: kind === "fails", doubt: kind === "doubt" };
            await chores.invoke({ deeds: [deed] }, config(`${task}`, `t${index}`)).catch(() => undefined);
          }
        }
        now += DAY;
        const before = await doubts();
        const { inDoubt } = await shop.saver.prune(
          Object.fromEntries(Object.entries(given).filter(([, value]) => value !== undefined)),
        );
        expect(await doubts()).toEqual(before);
        const kept = before.flatMap((found, index) => (found.length > 0 ? [`t${index}`] : []));
        expect(inDoubt).toEqual(given.idleMs === undefined ? [] : kept);
        for (const one of shops.splice(0)) one.close();
      }),
      { numRuns: runs(6, 40) },
    );
  });

  test("S2.1 a dry run counts exactly what goes, and changes nothing", async () => {
    const shop = open({ frequency: 3 });
    await shop.run(4);
    await shop.run(2, "other");
    const rows = dump(shop.path);
    const dry = await shop.saver.prune({ keepLast: 2, dryRun: true });
    expect(dump(shop.path)).toEqual(rows);
    const report = await shop.saver.prune({ keepLast: 2, batchSize: 3 });
    expect(report.checkpoints).toBeGreaterThan(0);
    expect(dry).toEqual({ ...report, dryRun: true, bytesFreed: 0 });
    const gone = (table: string): number => (rows[table] as unknown[]).length - shop.count(table);
    expect(report.writes).toBe(gone("langgraph_writes"));
    expect(report.turns).toBe(gone("langgraph_checkpoints"));
    expect(report.chunks).toBe(gone("langgraph_chunks"));
  });

  test("S2.1 the event loop runs between two batches, a signal ends the work there, and another call finishes", async () => {
    const shop = open({ frequency: 0 });
    await shop.run(3);
    const before = await shop.everything();
    const abort = new AbortController();
    const going = shop.saver.prune({ keepLast: 1, batchSize: 2, signal: abort.signal });
    setImmediate(() => setImmediate(() => abort.abort()));
    expect(await going).toMatchObject({ done: false });
    expect((await shop.roots()).length).toBeGreaterThan(1);
    expectSame(before, await shop.everything());
    expect(await shop.saver.prune({ keepLast: 1 })).toMatchObject({ done: true });
    expect(await shop.roots()).toHaveLength(1);
    await expectSwept(shop);
  });

  test("S2.1 a run beside the prune loses nothing", async () => {
    const shop = open({ frequency: 4 });
    await shop.run(4);
    const [report] = await Promise.all([shop.saver.prune({ keepLast: 1, batchSize: 1 }), shop.run(3)]);
    expect(report.done).toBe(true);
    const { values } = await shop.graph.getState(at());
    expect(values.log).toHaveLength(5 * 7);
    shop.reopen();
    const before = await shop.everything();
    await shop.saver.prune({ keepLast: 2 });
    expectSame(before, await shop.everything());
    expect((await shop.graph.getState(at())).values).toEqual(values);
  });

  longTest("S2.1 behind each batch of a prune, all that is left reads as before", async () => {
    const shop = open({ frequency: 0 });
    await shop.run(3);
    const before = await shop.everything();
    const roots = new Set([(await shop.roots()).length]);
    for (let rounds = 0; (await shop.roots()).length > 1 && rounds < 100; rounds += 1) {
      const { signal } = new AbortController();
      let asked = 0;
      // It's asked at the beginning, and before each batch.
      Object.defineProperty(signal, "aborted", { get: () => (asked += 1) > 2 });
      await shop.saver.prune({ threadId: THREAD, keepLast: 1, batchSize: 1, signal });
      expectSame(before, await shop.everything());
      roots.add((await shop.roots()).length);
    }
    expect([...roots].at(-1)).toBe(1);
    expect(roots.size).toBeGreaterThan(5);
  });

  longTest("S2.1 a prune that was killed leaves a whole thread, and the next one finishes", async () => {
    const shop = open({ frequency: 0 });
    await shop.run(10);
    const before = await shop.everything();
    const all = shop.count("langgraph_snapshots");
    shop.close();
    const child = join(__dirname, "ret-kill-child.ts");
    const { signal } = spawnSync(process.execPath, [...childProgram(child), shop.path, THREAD], {
      env: { ...process.env, NODE_OPTIONS: process.env.TURNS_TEST_NODE_OPTIONS ?? "" },
    });
    expect(signal).toBe("SIGKILL");
    shop.reopen();
    const left = shop.count("langgraph_snapshots");
    expect(left).toBeLessThan(all);
    expect(left).toBeGreaterThan(1);
    expectSame(before, await shop.everything());
    await shop.saver.prune({ threadId: THREAD, keepLast: 1 });
    expect(await shop.roots()).toHaveLength(1);
    expectSame(before, await shop.everything());
    await expectSwept(shop);
  });

  longTest("S2.1 encrypted threads are pruned and swept the same way", async () => {
    const encryption = { key: randomBytes(32) };
    const shop = open({ frequency: 3, encryption });
    await shop.run(4);
    const before = await shop.everything();
    const report = await shop.saver.prune({ keepLast: 2 });
    expect(report.chunks).toBeGreaterThan(0);
    shop.reopen();
    expectSame(before, await shop.everything());
    await expectSwept(shop);
  });
});

describe("S2.1 what always stays", () => {
  laneTest.each(points([1000, 3, 1], 1))(
    "S2.1 delta channels, a snapshot every %d updates: all that stays reads as before",
    async (frequency) => {
      const shop = open({ frequency });
      await shop.run(2);
      await shop.graph.updateState(at(), { log: ["hand"], delta: ["hand"] }, "done");
      await shop.graph.updateState(at(), { log: ["two"], delta: ["two"] }, "done");
      const states = await shop.history();
      await shop.graph.updateState(states[3].config, { log: ["fork"], delta: ["fork"] }, "done");
      await shop.graph.invoke(null, states[6].config);
      await shop.run(2);
      const before = await shop.everything();
      for (const keepLast of [20, 9, 4, 2, 1]) {
        await shop.saver.prune({ keepLast });
        shop.reopen();
        expectSame(before, await shop.everything());
      }
      expect(shop.count("langgraph_snapshots")).toBeGreaterThan(1);
      const { log } = (await shop.graph.getState(at())).values;
      await shop.run(1);
      const after = (await shop.graph.getState(at())).values;
      expect(after.log.slice(0, log.length)).toEqual(log);
    },
  );

  test("S2.1 a question that waits for its answer, at the head and on a branch that was left", async () => {
    const shop = open({ frequency: 0 });
    await shop.graph.invoke(input("in", true), at());
    const [asked] = await shop.roots();
    await shop.run(3);
    await shop.graph.invoke(input("in", true), at());
    const before = await shop.everything();
    await shop.saver.prune({ keepLast: 1 });
    expect(await shop.roots()).toContain(asked);
    expect(await shop.roots()).toHaveLength(2);
    shop.reopen();
    expectSame(before, await shop.everything());
    const result = await shop.resume("forty-two");
    expect(result.log.slice(-2, -1)).toEqual(["answer forty-two"]);
    await shop.saver.prune({ keepLast: 1 });
    expect(await shop.roots()).toHaveLength(2);
  });

  longTest.each(["async", "sync", "exit"] as const)("S2.1 a question inside a subgraph, durability %s", async (durability) => {
    const run = async (prunes: boolean): Promise<unknown> => {
      const shop = open({ frequency: 0 });
      await shop.graph.invoke(input(), { ...at(), durability });
      await shop.graph.invoke({ ...input(), note: "inside" }, { ...at(), durability });
      const before = await shop.everything();
      if (prunes) await shop.saver.prune({ keepLast: 1 });
      shop.reopen();
      expectSame(before, await shop.everything());
      return shop.graph.invoke(new Command({ resume: "yes" }), { ...at(), durability });
    };
    expect(await run(true)).toEqual(await run(false));
  });

  test("S2.1 named checkpoints, as long as they have a name; a name moves, and is unique in its thread", async () => {
    const shop = open({ frequency: 0, clock: () => new Date("2030-01-01") });
    await shop.run(2);
    const roots = await shop.roots();
    const first = roots.at(-1) as string;
    expect(await shop.saver.names.set({ threadId: THREAD, checkpointId: first }, "start")).toEqual({
      name: "start",
      checkpointNs: "",
      checkpointId: first,
      createdAt: new Date("2030-01-01"),
    });
    await shop.saver.names.set({ threadId: THREAD, checkpointId: roots[3] }, "middle");
    await shop.saver.prune({ keepLast: 1 });
    expect(await shop.roots()).toEqual([roots[0], roots[3], first]);
    await shop.saver.names.set({ threadId: THREAD }, "middle");
    expect((await shop.saver.names.list(THREAD)).map(({ name, checkpointId }) => [name, checkpointId])).toEqual([
      ["middle", roots[0]],
      ["start", first],
    ]);
    expect(await shop.saver.names.delete(THREAD, "start")).toBe(true);
    expect(await shop.saver.names.delete(THREAD, "start")).toBe(false);
    await shop.saver.prune({ keepLast: 1 });
    expect(await shop.roots()).toEqual([roots[0]]);
    await expect(shop.saver.names.set({ threadId: "no" }, "x")).rejects.toMatchObject({ code: "THREAD_NOT_FOUND" });
    for (const request of [
      { threadId: THREAD, checkpointId: first },
      { threadId: THREAD, checkpointNs: "no" },
    ]) {
      await expect(shop.saver.names.set(request, "x")).rejects.toMatchObject({ code: "CHECKPOINT_NOT_FOUND" });
    }
    await expect(shop.saver.names.set({ threadId: THREAD }, "")).rejects.toMatchObject({ code: "INVALID_OPTION" });
  });
});

describe("I3.3 rewinds and prunes", () => {
  const tasks = async (shop: Shop, names: readonly string[]): Promise<void> => {
    for (const name of names) await shop.graph.invoke(input(name), at(THREAD, { task_id: name }));
  };

  test("I3.3 a rewind to a task that has its checkpoints is exact, one to a task behind is refused and deletes nothing", async () => {
    const shop = open({ frequency: 3 });
    const wanted = new Map<string, unknown>();
    for (const name of ["t1", "t2", "t3", "t4"]) {
      await tasks(shop, [name]);
      wanted.set(name, (await shop.graph.getState(at(), { subgraphs: true })).values);
    }
    await shop.saver.prune({ keepLast: 14 });
    for (const name of ["t1"]) {
      const rows = dump(shop.path);
      await expect(shop.saver.rewind({ threadId: THREAD, toTask: name })).rejects.toMatchObject({
        code: "CHECKPOINT_NOT_FOUND",
        message:
          `Thread "${THREAD}" can't be rewound to task "t1": the checkpoints of that task were pruned. ` +
          'The earliest task that you can still rewind to is "t2". Nothing was deleted.',
      });
      expect(dump(shop.path)).toEqual(rows);
    }
    await shop.saver.rewind({ threadId: THREAD, toTask: "t3" });
    shop.reopen();
    expect((await shop.graph.getState(at(), { subgraphs: true })).values).toEqual(wanted.get("t3"));
    await tasks(shop, ["t4"]);
    expect((await shop.graph.getState(at())).values.log).toEqual((wanted.get("t4") as any).log);
  });

  test("I3.3 a task whose last checkpoint is the newest that went cannot be gone back to", async () => {
    const shop = open({ frequency: 0 });
    await tasks(shop, ["t1", "t2"]);
    const ofT2 = (await shop.history()).findIndex(({ metadata }) => metadata.source === "input") + 1;
    await shop.saver.prune({ keepLast: ofT2 });
    await expect(shop.saver.rewind({ threadId: THREAD, toTask: "t1" })).rejects.toMatchObject({
      code: "CHECKPOINT_NOT_FOUND",
      message: expect.stringContaining('before the newest one, "t2", were pruned, so there is no task to rewind to.') as string,
    });
    expect(await shop.roots()).toHaveLength(ofT2);
  });

  test("I3.3 a rewind can be taken back after a prune that left its target, with all values", async () => {
    const shop = open({ frequency: 2 });
    await tasks(shop, ["t1", "t2", "t3"]);
    const before = await shop.everything();
    const head = (await shop.graph.getState(at())).values;
    const { rewindId } = await shop.saver.rewind({ threadId: THREAD, toTask: "t2" });
    await shop.saver.prune({ keepLast: 3 });
    await shop.saver.rewinds.takeBack(rewindId as string);
    shop.reopen();
    expectSame(before, await shop.everything());
    expect((await shop.graph.getState(at())).values).toEqual(head);
  });

  test("I3.3 archives of rewinds behind what is left go with it", async () => {
    const shop = open({ frequency: 0 });
    await tasks(shop, ["t1", "t2"]);
    const { rewindId } = await shop.saver.rewind({ threadId: THREAD, toTask: "t1" });
    await tasks(shop, ["t3", "t4"]);
    expect(shop.count("langgraph_archive")).toBeGreaterThan(0);
    await shop.saver.prune({ keepLast: 2 });
    expect(shop.count("langgraph_archive")).toBe(0);
    await expect(shop.saver.rewinds.takeBack(rewindId as string)).rejects.toMatchObject({ code: "REWIND_CONFLICT" });
    await expectSwept(shop);
  });
});

describe("S2.1 I3.3 the same prune again", () => {
  laneTest.each(pairs([1, 2, 3, 5], [1, 2, 4]))(
    "S2.1 I3.3 finds nothing left to remove after archives went: delta snapshots every %i, keepLast %i",
    async (frequency, keepLast) => {
      const shop = open({ frequency });
      const run = async (task_id: string): Promise<unknown> => shop.graph.invoke(input(task_id), at(THREAD, { task_id }));
      for (const name of ["t1", "t2", "t3"]) await run(name);
      await shop.saver.rewind({ threadId: THREAD, toTask: "t2" });
      await run("t4");
      await shop.saver.rewind({ threadId: THREAD, toTask: "t2" });
      for (const name of ["t5", "t6"]) await run(name);
      const dry = await shop.saver.prune({ keepLast, dryRun: true });
      const { checkpoints, writes, turns, chunks } = await shop.saver.prune({ keepLast });
      expect(dry).toMatchObject({ checkpoints, writes, turns, chunks });
      expect(checkpoints).toBeGreaterThan(0);
      expect(await shop.saver.prune({ keepLast })).toMatchObject({ checkpoints: 0, writes: 0, turns: 0, chunks: 0 });
      expect((await shop.saver.verify()).problems).toEqual([]);
    },
  );
});

describe("I3.3 values that only an archive refers to", () => {
  const item = (id: number): object => ({ id, text: "m".repeat(200) + id });
  const items = (count: number): object[] => Array.from({ length: count }, (_, id) => item(id));
  const other = { text: "o".repeat(300) };
  const cases: [string, Record<string, unknown>[]][] = [
    ["elements of an archived list", [{ v: items(6) }, { v: [other] }, { v: items(6) }]],
    ["the base of an archived list", [{ v: items(10) }, { v: items(4) }, { v: [...items(8), other] }]],
    [
      "archived elements of a list that is still there",
      [{ v: [other], w: items(4) }, { v: items(2) }, { v: [...items(2), item(2)] }],
    ],
    ["a value as a whole", [{ v: other }, { v: item(1) }, { v: other }]],
    ["a part of an archived value", [{ v: { part: other } }, { v: item(1) }, { v: { part: other, more: "n".repeat(300) } }]],
  ];
  const ways = [{}, { encryption: { key: randomBytes(32) } }];
  test.each(cases.flatMap(([name, states]) => ways.map((way) => [name, Object.keys(way), way, states] as const)))(
    "I3.3 %s %j survive a prune, and the rewind can be taken back",
    async (_, __, way, states) => {
      const shop = open({ frequency: 0, ...way });
      const configs = await putAll(shop.saver, states);
      const before = [await shop.saver.getTuple(configs[1]), await shop.saver.getTuple(configs[2])];
      const { rewindId } = await shop.saver.rewind({ threadId: THREAD, toTask: "task 1" });
      const dry = await shop.saver.prune({ keepLast: 1, dryRun: true });
      expect(dry).toEqual({ ...(await shop.saver.prune({ keepLast: 1 })), dryRun: true, bytesFreed: 0 });
      expect(dry).toMatchObject({ checkpoints: 1 });
      await expectSwept(shop);
      await shop.saver.rewinds.takeBack(rewindId as string);
      for (const _again of ["warm", "cold"]) {
        expect([await shop.saver.getTuple(configs[1]), await shop.saver.getTuple(configs[2])]).toEqual(before);
        shop.reopen();
      }
      await expectSwept(shop);
    },
  );

  test("I3.3 parts of archived writes survive a prune", async () => {
    const shop = open({ frequency: 0 });
    const configs = await putAll(shop.saver, [{ v: other }, { v: item(1) }, { v: item(2) }]);
    await shop.saver.putWrites(configs[2], [["v", { again: other }]], "node task");
    const { rewindId } = await shop.saver.rewind({ threadId: THREAD, toTask: "task 1" });
    await shop.saver.prune({ keepLast: 1 });
    await shop.saver.rewinds.takeBack(rewindId as string);
    shop.reopen();
    expect((await shop.saver.getTuple(configs[2]))?.pendingWrites).toEqual([["node task", "v", { again: other }]]);
  });

  test("I3.3 what an archive held is swept once the archive has gone", async () => {
    const shop = open({ frequency: 0 });
    const configs = await putAll(shop.saver, [{ v: items(6) }, { v: [other] }, { v: items(6) }]);
    await shop.saver.rewind({ threadId: THREAD, toTask: "task 1" });
    await shop.saver.prune({ keepLast: 1 });
    expect(shop.count("langgraph_chunks")).toBe(7);
    await putAll(shop.saver, [{ v: [other] }], configs[1]);
    await shop.saver.prune({ keepLast: 1 });
    expect([shop.count("langgraph_archive"), shop.count("langgraph_chunks")]).toEqual([0, 1]);
  });
});

describe("S2.4 retention after each save", () => {
  test("S2.4 keeps the newest 5, tells how many went, and stays readable", async () => {
    const logger = listener();
    const shop = open({ frequency: 0, logger, retention: { keepLast: 5 } });
    const reports: PrunedEvent[] = [];
    shop.saver.events.on("pruned", (report) => reports.push(report));
    for (let time = 0; time < 12; time += 1) {
      await shop.run(1);
      await settled(shop);
    }
    expect(await shop.roots()).toHaveLength(5);
    expect(logger.lines.filter(({ level }) => level === "warn")).toEqual([]);
    expect(reports.reduce((sum, { checkpoints }) => sum + checkpoints, 0)).toBeGreaterThan(100);
    expect(reports.some(({ chunks }) => chunks > 0)).toBe(true);
    // Pages are given back later, so there is nothing to tell.
    expect(new Set(reports.map(({ by, bytesFreed }) => `${by} ${String(bytesFreed)}`))).toEqual(new Set(["retention undefined"]));
    expect(logger.lines.find(({ level, text }) => level === "info" && text === "pruned")?.fields).toMatchObject({
      threadId: THREAD,
    });
    expect((await shop.graph.getState(at())).values.log).toHaveLength(5 * 12);
    shop.reopen();
    expect((await shop.graph.getState(at())).values.log).toHaveLength(5 * 12);
    expect(shop.count("langgraph_chunks")).toBeLessThan(300);
  });

  test("S2.4 a save returns before its pruning begins", async () => {
    const shop = open({ frequency: 0, retention: { keepLast: 1 } });
    const saved = { ...emptyCheckpoint(), id: "00000000-0000-6000-8000-000000000001" };
    const config = await shop.saver.put(at(), saved, { source: "input", step: -1, parents: {} }, {});
    let pruned = 0;
    const done = new Promise<void>((resolve) => shop.saver.events.on("pruned", () => resolve(void (pruned += 1))));
    await shop.saver.put(
      config,
      { ...saved, id: "00000000-0000-6000-8000-000000000002" },
      { source: "loop", step: 0, parents: {} },
      {},
    );
    expect([pruned, shop.count("langgraph_snapshots")]).toEqual([0, 2]);
    await done;
    expect([pruned, shop.count("langgraph_snapshots")]).toEqual([1, 1]);
  });

  test("S3.6 clean-up on completion: with keepLastWhenDone a run keeps its checkpoints until its graph has finished", async () => {
    const shop = open({ frequency: 0, retention: { keepLastWhenDone: 1 } });
    await shop.run(2);
    await settled(shop);
    await settled(shop);
    const roots = await shop.roots();
    expect(roots).toHaveLength(1);
    expect((await shop.graph.getState(at())).next).toEqual([]);
    const saved = { ...emptyCheckpoint(), channel_values: { "branch:to:stay": null }, channel_versions: { "branch:to:stay": 1 } };
    const put = (id: string, step: number): Promise<unknown> =>
      shop.saver.put(
        { configurable: { thread_id: "under way" } },
        { ...saved, id },
        { source: "loop", step, parents: {} },
        {
          "branch:to:stay": 1,
        },
      );
    for (let step = 0; step < 5; step += 1) await put(`00000000-0000-6000-8000-00000000000${step}`, step);
    await settled(shop);
    let kept = 0;
    for await (const tuple of shop.saver.list({ configurable: { thread_id: "under way" } })) kept += Number(tuple !== undefined);
    expect(kept).toBe(5);
  });

  longTestOfFiles("S2.4 processes that live for a few saves only sweep what all of them pruned", async () => {
    const path = tempFile();
    let last: any;
    let largest = 0;
    for (let life = 0; life < 60; life += 1) {
      const saver = openSaver(path, { logger: quiet, synchronous: "normal", retention: { keepLast: 2 } });
      for (let save = 0; save < 4; save += 1) {
        [last] = await putAll(saver, [{ doc: `${life} ${save} ${"d".repeat(20_000)}` }], last);
        await new Promise((resolve) => setImmediate(() => setImmediate(resolve)));
      }
      await settled();
      largest = Math.max(largest, sizeOf(path));
      saver.close();
    }
    const shop = open({ path, frequency: 0 });
    expect(await shop.roots()).toHaveLength(2);
    expect(shop.count("langgraph_chunks")).toBeLessThan(20);
    expect(statSync(path).size).toBeLessThan(1_000_000);
    expect(largest).toBeLessThan(6_000_000);
    await shop.saver.prune({ keepLast: 2 });
    expect(shop.count("langgraph_chunks")).toBe(2);
    expect(shop.rowsOf("langgraph_threads")[0]).toMatchObject({ unswept: 0 });
  });

  test("S2.4 a copy is swept as soon as its source would have been", async () => {
    const shop = open({ frequency: 0, retention: { keepLast: 1 } });
    for (let save = 0; save < 6; save += 1) {
      await putAll(shop.saver, [{ doc: `${save} ${"d".repeat(500)}` }]);
      await settled(shop);
    }
    await shop.saver.copyThread(THREAD, "copy");
    expect(shop.rowsOf("langgraph_threads").map(({ unswept }) => unswept)).toEqual([5, 5]);
  });

  longTest("S2.4 a sweep waits for more where it has to read much", async () => {
    const shop = open({ frequency: 0, retention: { keepLast: 1 } });
    const reports: PrunedEvent[] = [];
    shop.saver.events.on("pruned", (report) => reports.push(report));
    const long = Array.from({ length: 3_000 }, (_, index) => `${index} ${"·".repeat(200)}`);
    for (let save = 0; save < 20; save += 1) {
      await putAll(shop.saver, [{ doc: `${save} ${"d".repeat(500)}`, long }]);
      await settled(shop);
    }
    const swept = reports.flatMap(({ chunks }, index) => (chunks > 0 ? [index + 1] : []));
    expect(swept).toEqual([16]);
  });

  test("S2.4 a prune that fails is a warning, and is tried again after the next save", async () => {
    const logger = listener();
    const shop = open({ frequency: 0, logger, retention: { keepLast: 2 } });
    sqlOn(shop.path, "CREATE TRIGGER broken BEFORE DELETE ON langgraph_snapshots BEGIN SELECT RAISE(ABORT, 'broken'); END");
    await shop.run(1);
    await settled();
    expect(logger.lines.some(({ level, text }) => level === "warn" && text.startsWith("not pruned"))).toBe(true);
    expect((await shop.roots()).length).toBeGreaterThan(2);
    sqlOn(shop.path, "DROP TRIGGER broken");
    await shop.run(1);
    await settled();
    expect(await shop.roots()).toHaveLength(2);
  });

  test("S2.4 a prune that is due when the saver closes is dropped without a word", async () => {
    const logger = listener();
    const shop = open({ frequency: 0, logger, retention: { keepLast: 1 } });
    const config = await shop.saver.put(at(), emptyCheckpoint(), { source: "input", step: -1, parents: {} }, {});
    expect(config).toBeDefined();
    shop.close();
    await settled();
    expect(logger.lines).toEqual([]);
  });

  longTest("S2.4 delta channels, a question and a subgraph in the course of a run survive it", async () => {
    const run = async (retention?: { keepLast: number }): Promise<unknown> => {
      const shop = open({ frequency: 3, ...(retention && { retention }) });
      await shop.run(3);
      await shop.graph.invoke(input("in", true), at());
      await settled();
      shop.reopen();
      await shop.resume("yes");
      const { log, delta } = (await shop.graph.getState(at())).values;
      // Parallel tasks are ordered by their ids, which are random.
      return [log.toSorted(), delta.toSorted()];
    };
    expect(await run({ keepLast: 1 })).toEqual(await run());
  });

  test.each([{}, { keepLast: 0 }, { maxAgeMs: "1" }, { idleMs: 1 }])("S2.4 the option %j is refused", (retention) => {
    expect(() => openSaver(":memory:", { retention: retention as object })).toThrow(
      expect.objectContaining({ code: "INVALID_OPTION" }),
    );
  });
});

describe("S2.4 the file", () => {
  testOfFiles("S2.4 gets smaller by a prune, as the report says", async () => {
    const shop = open({ frequency: 0 });
    await shop.run(25);
    await vacuum(shop.saver);
    const before = sizeOf(shop.path);
    const report = await shop.saver.prune({ keepLast: 1 });
    expect(before - sizeOf(shop.path)).toBe(report.bytesFreed);
    expect(report.bytesFreed).toBeGreaterThan(before / 2);
    expect(await vacuum(shop.saver)).toMatchObject({ freePages: 0, givesBack: true });
  });

  testOfFiles("S2.4 gets smaller in the background after deleteThread, and after a rewind without archive", async () => {
    const shop = open({ frequency: 0 });
    const large = { log: ["x".repeat(3_000_000)] };
    await shop.graph.invoke(large, at("gone"));
    await shop.graph.invoke(input("in"), at(THREAD, { task_id: "first" }));
    await shop.graph.invoke(large, at(THREAD, { task_id: "second" }));
    await vacuum(shop.saver);
    const sizes = [sizeOf(shop.path)];
    const shrunk = async (): Promise<void> => {
      const deadline = Date.now() + 100_000;
      while (statSync(shop.path).size > (sizes.at(-1) as number) - 2_000_000 && Date.now() < deadline) await settled();
      sizes.push(statSync(shop.path).size);
    };
    await shop.saver.deleteThread("gone");
    await shrunk();
    await shop.saver.rewind({ threadId: THREAD, toTask: "first", archive: false });
    await shrunk();
    expect(sizes[1]).toBeLessThan((sizes[0] as number) - 2_000_000);
    expect(sizes[2]).toBeLessThan((sizes[1] as number) - 2_000_000);
  });

  longTestOfFiles("S2.4 a file that cannot give pages back says so, and does after a full vacuum", async () => {
    const path = tempFile();
    const db = new Database(path);
    db.pragma("journal_mode = WAL");
    db.exec("CREATE TABLE mine (a)");
    db.close();
    const shop = open({ path, frequency: 0 });
    await shop.run(15);
    await shop.saver.prune({ keepLast: 1 });
    const left = await vacuum(shop.saver);
    expect(left).toMatchObject({ givesBack: false });
    expect(left.freePages).toBeGreaterThan(0);
    const full = await vacuum(shop.saver, { full: true });
    expect(full).toMatchObject({ givesBack: true, freePages: 0 });
    expect(full.bytesAfter).toBeLessThan(full.bytesBefore);
    expect((await shop.graph.getState(at())).values.log).toHaveLength(5 * 15);
    await expect(vacuum(shop.saver, { all: true } as object)).rejects.toMatchObject({ code: "INVALID_OPTION" });
  });
});

describe("S2.4 a deletion that fails part-way", () => {
  const broken = (shop: Shop, checkpointId: unknown): void =>
    sqlOn(
      shop.path,
      `CREATE TRIGGER broken BEFORE DELETE ON langgraph_snapshots WHEN OLD.checkpoint_id = '${String(checkpointId)}'
       BEGIN SELECT RAISE(ABORT, 'broken'); END`,
    );
  const said = async (failing: Promise<unknown>): Promise<any> => failing.catch((error: unknown) => error);
  const TOLD = /^Pruning stopped part-way\. What it deleted stays deleted \(checkpoints: (\d+), writes: \d+, turns: \d+,/;

  test("S2.4 a prune says how much of its thread is deleted already, and the same call finishes", async () => {
    const shop = open({ frequency: 0 });
    await shop.run(3);
    const before = shop.count("langgraph_snapshots");
    broken(shop, (await shop.roots())[4]);
    const request = { threadId: THREAD, keepLast: 1, batchSize: 2 };
    const error = await said(shop.saver.prune(request));
    const deleted = before - shop.count("langgraph_snapshots");
    expect(deleted).toBeGreaterThan(0);
    expect([error.code, TOLD.exec(error.message)?.[1]]).toEqual(["STORE_FAILED", String(deleted)]);
    expect(error.data.deleted).toMatchObject({ checkpoints: deleted });
    expect(error.message).toMatch(/The step that failed: Database .*broken.* The same call continues\.$/);
    sqlOn(shop.path, "DROP TRIGGER broken");
    await shop.saver.prune(request);
    expect(await shop.roots()).toHaveLength(1);
  });

  test("S2.4 if its first batch fails, nothing is deleted, and it says nothing else", async () => {
    const shop = open({ frequency: 0 });
    await shop.run(1);
    sqlOn(shop.path, "CREATE TRIGGER broken BEFORE DELETE ON langgraph_snapshots BEGIN SELECT RAISE(ABORT, 'broken'); END");
    const error = await said(shop.saver.prune({ threadId: THREAD, keepLast: 1 }));
    expect(error.message).not.toContain("part-way");
    expect(error.message).toContain("Nothing of it was saved");
  });

  test("S2.4 a prune of all threads counts what went from the thread that failed, and prunes the others", async () => {
    const shop = open({ frequency: 0 });
    for (const threadId of ["a", "b"]) await shop.run(2, threadId);
    const before = shop.count("langgraph_snapshots");
    broken(shop, (await shop.roots("a"))[4]);
    const report = await shop.saver.prune({ keepLast: 1, batchSize: 2 });
    expect(report).toMatchObject({ threads: 2, checkpoints: before - shop.count("langgraph_snapshots") });
    expect(report.failed).toMatchObject([{ threadId: "a", error: { code: "STORE_FAILED" } }]);
    expect(String(report.failed[0]?.error)).toContain("Pruning stopped part-way.");
  });

  test("S2.1 deleteForRuns says what went from the threads before the one that failed", async () => {
    const shop = open({ frequency: 0 });
    for (const threadId of ["a", "b"]) await shop.graph.invoke(input("1"), { ...at(threadId), metadata: { run_id: "r" } });
    const before = shop.count("langgraph_snapshots");
    broken(shop, (await shop.roots("b"))[2]);
    const error = await said(shop.saver.retention.deleteForRuns(["r"]));
    expect(TOLD.exec(error.message)?.[1]).toBe(String(before - shop.count("langgraph_snapshots")));
  });
});

describe("S2.1 deleteForRuns", () => {
  const ofRun = (runId: string, threadId = THREAD): any => ({ ...at(threadId), metadata: { run_id: runId } });

  test("S2.1 deletes the checkpoints of these runs in all threads, and nothing else", async () => {
    const shop = open({ frequency: 0 });
    for (const threadId of ["a", "b"]) {
      await shop.graph.invoke(input("1"), ofRun("r1", threadId));
      await shop.graph.invoke(input("2"), ofRun(`r2${threadId}`, threadId));
    }
    const before = await shop.everything("a");
    const report = await shop.saver.retention.deleteForRuns(["r1", "r2b"]);
    expect(report).toMatchObject({ threads: 2, kept: [] });
    expect(report.checkpoints).toBeGreaterThan(20);
    expect(report.chunks).toBeGreaterThan(0);
    expect(await shop.roots("b")).toEqual([]);
    shop.reopen();
    const after = await shop.everything("a");
    expectSame(before, after);
    expect((await shop.graph.getState(at("a"))).values.log).toHaveLength(10);
    expect(new Set((await collect<any>(shop.saver.list(at("a")))).map(({ metadata }) => metadata.run_id))).toEqual(
      new Set(["r2a"]),
    );
    await expectSwept(shop);
    expect(await shop.saver.retention.deleteForRuns(["r1", "nobody's"])).toMatchObject({ threads: 0, checkpoints: 0 });
  });

  test("S2.1 is told to the listeners of pruned", async () => {
    const shop = open({ frequency: 0 });
    await shop.graph.invoke(input("1"), ofRun("r1"));
    await shop.graph.invoke(input("2"), ofRun("r2"));
    const told: PrunedEvent[] = [];
    shop.saver.events.on("pruned", (report) => told.push(report));
    const report = await shop.saver.retention.deleteForRuns(["r1"]);
    expect(told).toEqual([{ by: "deleteForRuns", deletedThreads: [], inDoubt: [], failed: [], done: true, ...report }]);
    await expect(shop.saver.retention.deleteForRuns([""])).rejects.toMatchObject({ code: "INVALID_OPTION" });
    expect(told).toHaveLength(1);
  });

  test("S2.1 what delta channels of remaining checkpoints need stays, and is reported", async () => {
    const shop = open({ frequency: 1000 });
    await shop.graph.invoke(input("1"), ofRun("r1"));
    await shop.graph.invoke(input("2"), ofRun("r2"));
    const before = await shop.everything();
    const report = await shop.saver.retention.deleteForRuns(["r1"]);
    expect(report.kept.length).toBeGreaterThan(0);
    expect(report.kept[0]).toMatchObject({ threadId: THREAD, checkpointNs: "" });
    shop.reopen();
    expectSame(before, await shop.everything());
  });

  const tasks = ["t1", "t2", "t3"];
  const histories = ["t1", "t2"].flatMap((toTask) =>
    ["archived only", "archived, and new work"].flatMap((below) => tasks.map((gone) => [toTask, below, gone] as const)),
  );
  laneTest.each(points(histories, 6))(
    "S2.1 I3.3 after a rewind to %s, with subgraphs %s, deletes run %s, and leaves all else as it was, on other threads too",
    async (toTask, below, gone) => {
      const shop = open({ frequency: 0 });
      const run = async (name: string, threadId = THREAD): Promise<unknown> =>
        shop.graph.invoke(input(name), { ...at(threadId, { task_id: name }), metadata: { run_id: name } });
      for (const name of tasks) await run(name);
      await run(gone, "other");
      await shop.saver.rewind({ threadId: THREAD, toTask });
      if (below !== "archived only") await run("t4");
      const before = await shop.everything();
      const report = await shop.saver.retention.deleteForRuns([gone]);
      expect(report.kept).toEqual([]);
      expect(await shop.roots("other")).toEqual([]);
      shop.reopen();
      // What a graph with its own memory knew before a run isn't compared: it may be of the deleted run.
      const saved = [...(await shop.everything())].filter(([what]) => /^(list|tuple) /.test(what));
      expectSame(before, new Map(saved));
      const left = new Set((await collect<any>(shop.saver.list(at()))).map(({ metadata }) => metadata.run_id));
      const live = [...tasks.slice(0, tasks.indexOf(toTask) + 1), ...(below === "archived only" ? [] : ["t4"])];
      expect(left).toEqual(new Set(live.filter((name) => name !== gone)));
      expect(await shop.saver.prune({ keepLast: 1 })).toMatchObject({ failed: [] });
      expect((await shop.saver.verify()).problems).toEqual([]);
    },
  );

  const ways = [{}, { encryption: { key: randomBytes(32) } }];
  laneTest.each(pairs(ways, ["r1", "r2", 'r"3\\']).map(([way, gone]) => [gone, Object.keys(way), way] as const))(
    "S2.1 I3.3 deletes archives with something of run %j, and no others %j",
    async (gone, _, way) => {
      const shop = open({ frequency: 0, ...way });
      const run = async (task_id: string, run_id: string, threadId = THREAD): Promise<unknown> =>
        shop.graph.invoke(input(`secret of ${run_id}`), { ...at(threadId, { task_id }), metadata: { run_id } });
      const rewindIds: Record<string, string> = {};
      for (const [threadId, runId] of [["only archived", 'r"3\\'] as const, ["other", "r2"] as const]) {
        await run("first", "r0", threadId);
        await run("later", runId, threadId);
        rewindIds[runId] = (await shop.saver.rewind({ threadId, toTask: "first" })).rewindId as string;
      }
      await run("first", "r1");
      const before = await shop.everything("other");
      const report = await shop.saver.retention.deleteForRuns([gone]);
      expect(report.threads).toBe(1);
      expect(await shop.everything("other")).toEqual(before);
      for (const [runId, rewindId] of Object.entries(rewindIds)) {
        const threadId = runId === "r2" ? "other" : "only archived";
        const left = shop.rowsOf("langgraph_archive").filter((row) => row.rewind_id === rewindId);
        expect(left.length > 0).toBe(runId !== gone);
        const takesBack = shop.saver.rewinds.takeBack(rewindId);
        if (runId === gone) await expect(takesBack).rejects.toMatchObject({ code: "REWIND_CONFLICT" });
        else await takesBack;
        const runIds = (await collect<any>(shop.saver.list(at(threadId)))).map(({ metadata }) => metadata.run_id);
        expect(new Set(runIds)).toEqual(new Set(runId === gone ? ["r0"] : ["r0", runId]));
      }
      if (gone === "r1") expect(await shop.roots()).toEqual([]);
      if (gone !== "r1" && !("encryption" in way))
        expect(JSON.stringify(dump(shop.path))).not.toContain(JSON.stringify(`secret of ${gone}`).slice(1, -1));
      expect((await shop.saver.verify()).problems).toEqual([]);
      expect(await shop.saver.retention.deleteForRuns([gone])).toMatchObject({ threads: 0, checkpoints: 0 });
    },
  );

  test("S2.1 is refused while one of the threads is running, before anything goes", async () => {
    const shop = open({ frequency: 0 });
    await shop.graph.invoke(input("1"), ofRun("r1", "a"));
    await shop.graph.invoke(input("1"), ofRun("r1", "b"));
    const release = await internalsOf(shop.saver).reserve("b");
    await expect(shop.saver.retention.deleteForRuns(["r1"])).rejects.toMatchObject({ code: "THREAD_RUNNING" });
    await release();
    expect(await shop.roots("a")).not.toEqual([]);
    await expect(shop.saver.retention.deleteForRuns([""])).rejects.toMatchObject({ code: "INVALID_OPTION" });
  });
});

describe("S3.7 deleted threads", () => {
  test("S3.7 late saves are refused, a new input starts from scratch", async () => {
    const shop = open({ frequency: 0 });
    await shop.run(1);
    const [head] = await shop.roots();
    const tuple = await shop.saver.getTuple(at());
    await shop.saver.deleteThread(THREAD);
    const refused = expect.objectContaining({ code: "THREAD_DELETED" });
    const late = at(THREAD, { checkpoint_ns: "", checkpoint_id: head });
    await expect(shop.saver.put(late, emptyCheckpoint(), { source: "loop", step: 9, parents: {} }, {})).rejects.toEqual(refused);
    await expect(shop.saver.putWrites(late, [["log", ["x"]]], "task")).rejects.toEqual(refused);
    expect(tuple).toBeDefined();
    expect(shop.count("langgraph_snapshots") + shop.count("langgraph_writes") + shop.count("langgraph_checkpoints")).toBe(0);
    await shop.run(1);
    expect((await shop.graph.getState(at())).values.log).toHaveLength(5);
  });

  test("S3.7 a run whose thread is deleted under it brings nothing back, its turns neither", async () => {
    const shop = open({ frequency: 0 });
    let deleted = false;
    shop.saver.events.on("turn", (turn) => {
      if (turn.nodeName !== "work" || deleted) return;
      deleted = true;
      void shop.saver.deleteThread(THREAD);
    });
    await expect(shop.graph.invoke(input(), at())).rejects.toMatchObject({ code: "THREAD_DELETED" });
    for (const table of ["langgraph_snapshots", "langgraph_checkpoints"]) {
      expect([table, shop.rowsOf(table)]).toEqual([table, []]);
    }
  });

  test("S3.7 a final deletion refuses new input until the id is allowed again; a copy may take the id", async () => {
    const shop = open({ frequency: 0 });
    await shop.run(1);
    await shop.run(1, "source");
    await shop.saver.deleteThread(THREAD, { final: true });
    await expect(shop.run(1)).rejects.toMatchObject({ code: "THREAD_DELETED" });
    expect(await shop.saver.retention.reuseThread(THREAD)).toBe(true);
    shop.reopen();
    await shop.run(1);
    await shop.saver.deleteThread(THREAD, { final: true });
    await shop.saver.copyThread("source", THREAD);
    expect((await shop.graph.getState(at())).values.log).toHaveLength(5);
    await shop.run(1);
    expect((await shop.graph.getState(at())).values.log).toHaveLength(10);
  });

  test("S3.7 a pruned thread can be deleted, copied and continued", async () => {
    const shop = open({ frequency: 2 });
    await shop.run(3);
    await shop.saver.prune({ keepLast: 2 });
    await shop.saver.copyThread(THREAD, "copy");
    const values = (await shop.graph.getState(at())).values;
    expect((await shop.graph.getState(at("copy"))).values).toEqual(values);
    await shop.saver.deleteThread(THREAD);
    await shop.run(1, "copy");
    expect((await shop.graph.getState(at("copy"))).values.log).toHaveLength(20);
  });
});

describe("S2.1 property", () => {
  const act = fc.oneof(
    fc.record({ do: fc.constant("input" as const), asks: fc.boolean() }),
    fc.record({ do: fc.constant("answer" as const) }),
    fc.record({ do: fc.constant("update" as const) }),
    fc.record({ do: fc.constant("fork" as const), back: fc.nat(12) }),
    fc.record({ do: fc.constant("travel" as const), back: fc.nat(12) }),
    fc.record({ do: fc.constant("name" as const), back: fc.nat(12) }),
    fc.record({
      do: fc.constant("prune" as const),
      keepLast: fc.integer({ min: 1, max: 8 }),
      batchSize: fc.constantFrom(1, 7, 500),
    }),
  );

  async function perform(shop: Shop, one: any): Promise<void> {
    const there = async (): Promise<any> => {
      const states = await shop.history();
      return states[Math.min(one.back, states.length - 1)]?.config;
    };
    const by = { log: ["hand"], delta: ["hand"] };
    if (one.do === "input") await shop.graph.invoke(input("in", one.asks), at());
    if (one.do === "answer") await shop.resume("yes");
    if (one.do === "update") await shop.graph.updateState(at(), by, "done");
    if (one.do === "fork") await shop.graph.updateState((await there()) ?? at(), by, "done");
    if (one.do === "travel") await shop.graph.invoke(null, await there());
    if (one.do === "name") {
      const config = await there();
      await shop.saver.names.set({ threadId: THREAD, checkpointId: config.configurable.checkpoint_id }, `name ${one.back}`);
    }
  }

  laneTest(
    "S2.1 no matter what was done to a thread, a prune changes nothing of what it leaves",
    async () => {
      await fc.assert(
        fc.asyncProperty(
          fc.constantFrom(0, 1, 2, 5, 1000),
          fc.array(act, { minLength: 3, maxLength: 9 }),
          async (frequency, acts) => {
            const shop = new Shop({ frequency });
            try {
              for (const one of [...acts, { do: "prune" as const, keepLast: 1, batchSize: 500 }]) {
                if (one.do !== "prune") {
                  await perform(shop, one).catch(() => undefined);
                  continue;
                }
                shop.reopen();
                const before = await shop.everything();
                const head = (await shop.graph.getState(at(), { subgraphs: true })).values;
                const [newest] = await shop.roots();
                const dry = await shop.saver.prune({ ...request(one), dryRun: true });
                const { bytesFreed, ...report } = await shop.saver.prune(request(one));
                expect(bytesFreed).toBeGreaterThanOrEqual(0);
                expect(dry).toEqual({ ...report, dryRun: true, bytesFreed: 0 });
                expectSame(before, await shop.everything());
                shop.reopen();
                expectSame(before, await shop.everything());
                expect((await shop.graph.getState(at(), { subgraphs: true })).values).toEqual(head);
                expect((await shop.roots())[0]).toBe(newest);
              }
            } finally {
              shop.close();
            }
          },
        ),
        { numRuns: runs(4, 12) },
      );
    },
    300_000,
  );

  const request = ({ keepLast, batchSize }: { keepLast: number; batchSize: number }) => ({ keepLast, batchSize });
});
