import { isDeepStrictEqual } from "node:util";
import fc from "fast-check";
import { effect, GraphRunner, type TurnSaver } from "langgraph-checkpoint-turns";
import { type RewindParts, rewindThread } from "../../src/testing-internal";
import { type Act, REWOUND, seen, THREAD, type View, withoutIds, World } from "./rewind-world";
import { chain } from "../support/s1-graph";
import { runProgram, startProgram } from "../support/s1-programs";
import { copyStore, dump, quiet, rowsOfThread, sqlOn } from "../support/s1-tools";
import { tempFile } from "../support/temp";
import { points, runs } from "../support/lane";
import { laneTest, longTest } from "../support/lane-test";
import { openSaver } from "../support/open-saver";

jest.setTimeout(300_000);

const worlds: World[] = [];
const world = (path?: string): World => {
  const made = new World(path);
  worlds.push(made);
  return made;
};
const copyOf = (original: World): World => world(original.copyFile());
afterEach(() => {
  for (const made of worlds.splice(0)) made.close();
});

/** `toStrictEqual` for whole views, which are large: the slow comparison only tells what differs. */
function expectSame(actual: unknown, expected: unknown): void {
  if (isDeepStrictEqual(actual, expected)) return;
  expect(actual).toStrictEqual(expected);
  throw new Error("the two differ");
}

function fileLike(path: string): string {
  const copy = tempFile();
  copyStore(path, copy);
  return copy;
}

interface Chapter {
  taskId: string;
  view: View;
  /** A file that has never had what came later. */
  path: string;
}

/** Does the acts one by one; per task, what there was when it last ended. */
async function live(story: World, acts: readonly Act[]): Promise<Chapter[]> {
  const chapters = new Map<string, Chapter>();
  for (const act of acts) {
    await story.act(act);
    const taskId = await story.newestTask();
    if (taskId !== undefined) {
      chapters.delete(taskId);
      chapters.set(taskId, { taskId, view: await story.view(), path: story.copyFile() });
    }
  }
  return [...chapters.values()];
}

const STORY: Act[] = [
  { do: "input", taskId: "first" },
  { do: "input", asks: true },
  { do: "answer", text: "yes", taskId: "yes" },
  { do: "answer", text: "really", taskId: "really" },
  { do: "goto", node: "work" },
  { do: "update" },
  { do: "input", breaks: true, taskId: "broken" },
  { do: "continue", taskId: "mended" },
  { do: "travel", back: 4 },
  { do: "input", asks: true, taskId: "asks again" },
  { do: "update as", node: "memo" },
  { do: "answer and update", text: "in passing" },
  { do: "answer", text: "so be it" },
  { do: "travel", back: 7, input: true },
  { do: "goto", node: "plan", taskId: "last" },
];

const NEXT: Act[] = [
  { do: "continue" },
  { do: "input" },
  { do: "input", asks: true, taskId: "new" },
  { do: "answer", text: "late" },
  { do: "goto", node: "done" },
  { do: "update" },
];

describe("S1.5 a rewind is exact", () => {
  let story: World;
  let chapters: Chapter[];
  let whole: Record<string, unknown[]>;
  beforeAll(async () => {
    story = new World();
    chapters = await live(story, STORY);
    whole = dump(story.path);
  });
  afterAll(() => {
    story.close();
  });

  test("S1.5 the story has at least ten tasks, and interrupts, errors and nested graphs among them", async () => {
    expect(chapters.length).toBeGreaterThanOrEqual(10);
    const turns = await story.saver.turns.list(THREAD);
    expect(new Set(turns.map((turn) => turn.status))).toEqual(new Set([undefined, "ok", "interrupted", "error"]));
    expect(new Set(turns.map((turn) => turn.nodeName))).toEqual(
      new Set(["plan", "work", "plain", "plain1", "plain2", "memo", "memo1", "memo2", "ask", "done"]),
    );
    expect(whole["langgraph_writes"]!.some((row) => (row as { superseded_by: unknown }).superseded_by !== null)).toBe(true);
    // Lists that are stored element by element, in several namespaces, and branches of them.
    const lists = whole["langgraph_lists"] as { base: number | null }[];
    expect(lists.length).toBeGreaterThan(3);
    expect(lists.some(({ base }) => base !== null)).toBe(true);
    expect(whole["langgraph_items"]!.length).toBeGreaterThan(100);
  });

  test("S1.5 to every earlier task: state, history, every namespace, turns, tasks and each row are as when it finished", async () => {
    for (const chapter of chapters) {
      const back = copyOf(story);
      const report = await back.saver.rewind({ threadId: THREAD, toTask: chapter.taskId });
      expectSame(await back.view(), chapter.view);
      expect(report).toMatchObject({ threadId: THREAD, toTask: chapter.taskId, dryRun: false, archived: true });
      back.close();
    }
  });

  test("S1.5 the report counts exactly the rows that went, and names the tasks they were of", async () => {
    for (const chapter of chapters) {
      const back = copyOf(story);
      const before = back.rows();
      const report = await back.saver.rewind({ threadId: THREAD, toTask: chapter.taskId });
      const after = back.rows();
      const gone = (table: string): number => before[table]!.length - after[table]!.length;
      expect(report.removed).toEqual({
        checkpoints: gone("langgraph_snapshots"),
        writes: gone("langgraph_writes"),
        turns: gone("langgraph_checkpoints"),
        values: gone("langgraph_chunks"),
        tasks: gone("langgraph_tasks"),
        effects: gone("langgraph_effects"),
      });
      const left = new Set((after["langgraph_tasks"] as { seq: number }[]).map(({ seq }) => seq));
      const went = (before["langgraph_tasks"] as { seq: number; task_id: string }[]).filter(({ seq }) => !left.has(seq));
      expect(report.tasks).toEqual([...new Set(went.sort((a, b) => a.seq - b.seq).map((row) => row.task_id))]);
      back.close();
    }
  });

  laneTest.each(NEXT)("S1.5 afterwards the thread continues as one that never had the later tasks: $do $asks", async (next) => {
    // The rows are equal for every chapter (above), so every other one will do here, alternately.
    const some = chapters.filter((_, index) => index % 2 === NEXT.indexOf(next) % 2);
    for (const chapter of points(some, 2)) {
      const back = copyOf(story);
      await back.saver.rewind({ threadId: THREAD, toTask: chapter.taskId });
      const never = world(fileLike(chapter.path));
      expect(withoutIds(await back.act(next))).toBe(withoutIds(await never.act(next)));
      expect(seen(await back.view())).toBe(seen(await never.view()));
      back.close();
      never.close();
    }
  });

  test("S1.5 taken back, everything is as before the rewind", async () => {
    const before = await story.view();
    for (const chapter of chapters.slice(0, -1)) {
      const back = copyOf(story);
      const { rewindId, removed } = await back.saver.rewind({ threadId: THREAD, toTask: chapter.taskId });
      expect(await back.saver.rewinds.takeBack(rewindId!)).toEqual(removed);
      expectSame(await back.view(), before);
      back.close();
    }
  });

  test("S1.5 taken back, the thread continues as if it had never been rewound", async () => {
    const back = copyOf(story);
    const never = copyOf(story);
    const { rewindId } = await back.saver.rewind({ threadId: THREAD, toTask: "yes" });
    await back.saver.rewinds.takeBack(rewindId!);
    expect(withoutIds(await back.act({ do: "input", asks: true }))).toBe(
      withoutIds(await never.act({ do: "input", asks: true })),
    );
    expect(seen(await back.view())).toBe(seen(await never.view()));
  });

  longTest("S1.5 rewinds one after the other, each deeper, and all taken back in the opposite order", async () => {
    const back = copyOf(story);
    const before = await back.view();
    const done: { rewindId: string; view: View }[] = [];
    for (const chapter of chapters.slice(0, -1).reverse()) {
      const view = await back.view();
      const { rewindId } = await back.saver.rewind({ threadId: THREAD, toTask: chapter.taskId });
      done.push({ rewindId: rewindId!, view });
      expectSame(await back.view(), chapter.view);
    }
    for (const { rewindId, view } of done.reverse()) {
      await back.saver.rewinds.takeBack(rewindId);
      expectSame(await back.view(), view);
    }
    expectSame(await back.view(), before);
  });

  test("S1.5 a dry run tells the same counts and changes nothing, not one byte of any row", async () => {
    for (const chapter of chapters) {
      const dry = copyOf(story);
      const before = dump(dry.path);
      const report = await dry.saver.rewind({ threadId: THREAD, toTask: chapter.taskId, dryRun: true });
      expect(report).toMatchObject({ dryRun: true, rewindId: undefined });
      expectSame(dump(dry.path), before);
      const real = await dry.saver.rewind({ threadId: THREAD, toTask: chapter.taskId });
      expect(real.removed).toEqual(report.removed);
      expect(real.tasks).toEqual(report.tasks);
      dry.close();
    }
  });

  test("S1.5 the newest task as target: nothing goes, and nothing is recorded", async () => {
    const copy = copyOf(story);
    const before = dump(copy.path);
    const report = await copy.saver.rewind({ threadId: THREAD, toTask: "last" });
    expect(report).toMatchObject({
      rewindId: undefined,
      tasks: [],
      removed: { checkpoints: 0, writes: 0, turns: 0, values: 0, tasks: 0 },
    });
    expectSame(dump(copy.path), before);
  });

  test("S1.5 checkpoints that a rewind removed are gone for LangGraph too, even by their id", async () => {
    const back = copyOf(story);
    const before = (await back.view()).everywhere as { config: { configurable: Record<string, unknown> } }[];
    await back.saver.rewind({ threadId: THREAD, toTask: "first" });
    const kept = new Set(
      ((await back.view()).everywhere as typeof before).map((tuple) => tuple.config.configurable["checkpoint_id"]),
    );
    for (const { config } of before) {
      const found = await back.saver.getTuple(config);
      expect(found !== undefined).toBe(kept.has(config.configurable["checkpoint_id"]));
    }
  });
});

describe("S1.5 a rewind is exact, no matter what was done", () => {
  const name = fc.option(fc.constantFrom("A", "B", "C"), { nil: undefined });
  const act: fc.Arbitrary<Act> = fc.oneof(
    {
      weight: 3,
      arbitrary: fc.record({ do: fc.constant("input" as const), asks: fc.boolean(), breaks: fc.boolean(), taskId: name }),
    },
    { weight: 2, arbitrary: fc.record({ do: fc.constant("answer" as const), text: fc.constantFrom("x", "y"), taskId: name }) },
    { weight: 1, arbitrary: fc.record({ do: fc.constant("answer and update" as const), text: fc.constant("z") }) },
    { weight: 1, arbitrary: fc.record({ do: fc.constant("continue" as const), taskId: name }) },
    {
      weight: 2,
      arbitrary: fc.record({ do: fc.constant("goto" as const), node: fc.constantFrom("work", "done", "plan"), taskId: name }),
    },
    { weight: 2, arbitrary: fc.record({ do: fc.constant("update" as const), taskId: name }) },
    { weight: 1, arbitrary: fc.record({ do: fc.constant("update as" as const), node: fc.constantFrom("plan", "memo", "done") }) },
    { weight: 2, arbitrary: fc.record({ do: fc.constant("travel" as const), back: fc.nat(12), input: fc.boolean() }) },
  );

  laneTest("S1.5 property: to any task, on from there, and back", async () => {
    await fc.assert(
      fc.asyncProperty(fc.array(act, { minLength: 2, maxLength: 7 }), fc.nat(), fc.nat(), async (acts, which, then) => {
        const story = new World();
        const opened = [story];
        const open = (path: string): World => {
          const made = new World(path);
          opened.push(made);
          return made;
        };
        try {
          const chapters = await live(story, acts);
          const chapter = chapters[which % Math.max(chapters.length, 1)];
          if (chapter === undefined) return;
          const before = await story.view();

          const undone = open(story.copyFile());
          const { rewindId } = await undone.saver.rewind({ threadId: THREAD, toTask: chapter.taskId });
          expectSame(await undone.view(), chapter.view);
          if (rewindId !== undefined) await undone.saver.rewinds.takeBack(rewindId);
          expectSame(await undone.view(), before);

          await story.saver.rewind({ threadId: THREAD, toTask: chapter.taskId });
          const never = open(chapter.path);
          const next = NEXT[then % NEXT.length]!;
          expect(withoutIds(await story.act(next))).toBe(withoutIds(await never.act(next)));
          expect(seen(await story.view())).toBe(seen(await never.view()));
        } finally {
          for (const made of opened) made.close();
        }
      }),
      { numRuns: runs(4, 25) },
    );
  });
});

/** A file with three tasks on a thread, and one on another. */
async function threeTasks(
  word = (taskId: string) => taskId,
): Promise<{ path: string; saver: TurnSaver; runner: GraphRunner<ReturnType<typeof chain>> }> {
  const path = tempFile();
  const saver = openSaver(path, { logger: quiet });
  const deed = async (node: string): Promise<void> => void (await effect(`deed of ${node}`, () => node, { undo: false }));
  await new GraphRunner(chain(saver, deed)).invoke({ log: [word("one")] }, { threadId: "t", taskId: "one" });
  // Another graph from the second task on, so that there is one behind the first.
  const runner = new GraphRunner(chain(saver, deed), { nodes: { a: { version: "2" } } });
  for (const taskId of ["two", "three"]) await runner.invoke({ log: [word(taskId)] }, { threadId: "t", taskId });
  await runner.invoke({ log: ["else"] }, { threadId: "other", taskId: "one" });
  return { path, saver, runner };
}

/** Words so long that the log is stored element by element from the second task on. */
const wordy = (taskId: string): string => (taskId === "one" ? taskId : taskId.padEnd(300, "."));

describe("S1.9 a rewind that is refused changes nothing", () => {
  test("S1.9 an unknown task, and an unknown thread", async () => {
    const { path, saver } = await threeTasks();
    const before = rowsOfThread(path, "t");
    for (const request of [
      { threadId: "t", toTask: "four" },
      { threadId: "t", toTask: "one' OR 1 --" },
      { threadId: "t", toTask: "four", dryRun: true },
    ]) {
      await expect(saver.rewind(request)).rejects.toMatchObject({ code: "UNKNOWN_TASK", name: "UnknownTaskError" });
    }
    await saver.deleteThread("other");
    for (const threadId of ["nobody", "other"]) {
      const unknown = { code: "THREAD_NOT_FOUND", name: "ThreadNotFoundError", data: { threadId } };
      for (const ask of [
        () => saver.rewind({ threadId, toTask: "one" }),
        () => saver.rewind({ threadId, toTask: "one", dryRun: true }),
        () => saver.rewinds.compensationReport({ threadId, toTask: "one" }),
        () => saver.rewinds.toCheckpoint({ threadId, checkpointId: "c", reason: "r" }),
        () => saver.copyThread(threadId, "copy"),
      ]) {
        await expect(ask()).rejects.toMatchObject(unknown);
      }
    }
    expect(rowsOfThread(path, "t")).toEqual(before);
    saver.close();
  });

  test("S1.9 the caller's list of tasks: one without the target, and one that contradicts the stored order", async () => {
    const { path, saver } = await threeTasks();
    const before = dump(path);
    await expect(saver.rewind({ threadId: "t", toTask: "one", tasks: ["two", "three"] })).rejects.toMatchObject({
      code: "UNKNOWN_TASK",
    });
    await expect(saver.rewind({ threadId: "t", toTask: "one", tasks: ["three", "one", "two"] })).rejects.toMatchObject({
      code: "STATE_INVARIANT_VIOLATED",
      name: "StateInvariantViolatedError",
    });
    expect(dump(path)).toEqual(before);
    expect(await saver.rewind({ threadId: "t", toTask: "one", tasks: ["one", "two", "three"] })).toMatchObject({
      tasks: ["two", "three"],
    });
    saver.close();
  });

  test.each(["", "a\0b", 7 as unknown as string, undefined as unknown as string])(
    "S1.9 %j is neither a thread nor a task",
    async (bad) => {
      const { path, saver } = await threeTasks();
      const before = dump(path);
      await expect(saver.rewind({ threadId: bad, toTask: "one" })).rejects.toMatchObject({ code: "INVALID_OPTION" });
      await expect(saver.rewind({ threadId: "t", toTask: bad })).rejects.toMatchObject({ code: "INVALID_OPTION" });
      expect(dump(path)).toEqual(before);
      saver.close();
    },
  );

  test("S1.9 while a run of this process is running on the thread, of this saver or of another", async () => {
    const { path, saver } = await threeTasks();
    let letGo = (): void => undefined;
    let arrived = (): void => undefined;
    const inside = new Promise<void>((resolve) => (arrived = resolve));
    const gate = new Promise<void>((resolve) => (letGo = resolve));
    const runner = new GraphRunner(
      chain(saver, async (node) => {
        if (node !== "b") return;
        arrived();
        await gate;
      }),
    );
    const run = runner.invoke({ log: ["four"] }, { threadId: "t", taskId: "four" });
    await inside;
    const before = dump(path);
    const second = openSaver(path, { logger: quiet });
    for (const from of [saver, second]) {
      expect(await from.turns.isRunning("t")).toBe(true);
      await expect(from.rewind({ threadId: "t", toTask: "one" })).rejects.toMatchObject({
        code: "THREAD_RUNNING",
        data: { threadId: "t", pid: process.pid },
      });
    }
    expect(dump(path)).toEqual(before);
    // Another thread is none of its business.
    expect((await saver.rewind({ threadId: "other", toTask: "one", dryRun: true })).tasks).toEqual([]);
    letGo();
    expect(await run).toMatchObject({ log: expect.arrayContaining(["four"]) });
    expect(await saver.turns.isRunning("t")).toBe(false);
    expect((await saver.rewind({ threadId: "t", toTask: "one" })).tasks).toEqual(["two", "three", "four"]);
    second.close();
    saver.close();
  });

  test("S1.9 while another process is running on the thread; once that is killed, it goes through", async () => {
    const { path, saver } = await threeTasks();
    const child = startProgram("support/s1-graph-child.ts", path, "t", "run", "hang:b");
    expect(await child.said).toEqual({ at: "b" });
    const before = dump(path);
    await expect(saver.rewind({ threadId: "t", toTask: "one" })).rejects.toMatchObject({ code: "THREAD_RUNNING" });
    await expect(saver.rewinds.takeBack("no such rewind")).rejects.toMatchObject({ code: "REWIND_NOT_FOUND" });
    expect(dump(path)).toEqual(before);
    expect((await saver.rewind({ threadId: "other", toTask: "one" })).tasks).toEqual([]);
    await child.kill();
    expect(await saver.turns.isRunning("t")).toBe(false);
    expect((await saver.rewind({ threadId: "t", toTask: "one" })).tasks).toEqual(["two", "three", "task"]);
    saver.close();
  });

  longTest("S1.9 a process that was killed in a body does not block a rewind, and the thread continues", async () => {
    const { path, saver, runner } = await threeTasks();
    expect(runProgram("support/s1-graph-child.ts", path, "t", "run", "b").signal).toBe("SIGKILL");
    expect((await saver.turns.inFlight("t")).map((turn) => turn.nodeName)).toEqual(["b"]);
    expect((await saver.rewind({ threadId: "t", toTask: "two" })).tasks).toEqual(["three", "task"]);
    expect(await saver.turns.inFlight("t")).toEqual([]);
    expect(await runner.invoke({ log: ["again"] }, { threadId: "t" })).toEqual({
      log: ["one", "a", "b", "c", "two", "a", "b", "c", "again", "a", "b", "c"],
    });
    saver.close();
  });

  longTest("S1.9 taking back while the thread runs is refused too", async () => {
    const { path, saver } = await threeTasks();
    const { rewindId } = await saver.rewind({ threadId: "t", toTask: "one" });
    const child = startProgram("support/s1-graph-child.ts", path, "t", "run", "hang:a");
    await child.said;
    const before = dump(path);
    await expect(saver.rewinds.takeBack(rewindId!)).rejects.toMatchObject({ code: "THREAD_RUNNING" });
    expect(dump(path)).toEqual(before);
    await child.kill();
    saver.close();
  });
});

describe("S1.5 what a rewind leaves alone, and what it counts", () => {
  test("S1.5 other threads keep every row", async () => {
    const { path, saver } = await threeTasks();
    const before = rowsOfThread(path, "other");
    expect(before["langgraph_snapshots"]).not.toEqual([]);
    const { rewindId } = await saver.rewind({ threadId: "t", toTask: "one" });
    expect(rowsOfThread(path, "other")).toEqual(before);
    await saver.rewinds.takeBack(rewindId!);
    expect(rowsOfThread(path, "other")).toEqual(before);
    saver.close();
  });

  test("S1.5 the epoch of the thread grows with each rewind and each take-back, and not with a dry run", async () => {
    const { saver } = await threeTasks();
    const epoch = async (): Promise<number | undefined> => {
      for (const thread of await saver.listThreads()) if (thread.threadId === "t") return thread.epoch;
      return undefined;
    };
    expect(await epoch()).toBe(0);
    await saver.rewind({ threadId: "t", toTask: "one", dryRun: true });
    expect(await epoch()).toBe(0);
    const { rewindId } = await saver.rewind({ threadId: "t", toTask: "two" });
    expect(await epoch()).toBe(1);
    await saver.rewinds.takeBack(rewindId!);
    expect(await epoch()).toBe(2);
    await saver.rewind({ threadId: "t", toTask: "one" });
    expect(await epoch()).toBe(3);
    saver.close();
  });

  test("S1.5 an event tells of a rewind, none of a dry run or of a refusal", async () => {
    const { saver } = await threeTasks();
    const told: unknown[] = [];
    saver.events.on("rewind", (report) => told.push(report));
    await saver.rewind({ threadId: "t", toTask: "one", dryRun: true });
    await saver.rewind({ threadId: "t", toTask: "nine" }).catch(() => undefined);
    expect(told).toEqual([]);
    const report = await saver.rewind({ threadId: "t", toTask: "one" });
    expect(told).toEqual([report]);
    saver.close();
  });

  test("S1.5 the rewinds of a thread can be listed, with what became of them", async () => {
    const { saver } = await threeTasks();
    const first = await saver.rewind({ threadId: "t", toTask: "two" });
    await saver.rewinds.takeBack(first.rewindId!);
    const second = await saver.rewind({ threadId: "t", toTask: "one", archive: false });
    expect(await saver.rewinds.list("t")).toMatchObject([
      { id: first.rewindId, toTask: "two", archived: true, takenBackAt: expect.any(Date) },
      { id: second.rewindId, toTask: "one", archived: false, takenBackAt: undefined },
    ]);
    expect(await saver.rewinds.list("other")).toEqual([]);
    saver.close();
  });

  test("S1.5 seqs that a rewind freed are never given out again", async () => {
    const { saver, runner } = await threeTasks();
    const highest = Math.max(...(await saver.turns.list("t")).map((turn) => turn.seq));
    await saver.rewind({ threadId: "t", toTask: "one" });
    await runner.invoke({ log: ["again"] }, { threadId: "t", taskId: "again" });
    const turns = (await saver.turns.list("t")).filter((turn) => turn.taskId === "again");
    expect(turns).toHaveLength(6);
    for (const turn of turns) expect(turn.seq).toBeGreaterThan(highest);
    saver.close();
  });

  test("S1.5 names of checkpoints that go are gone, and are restored, unless they were given again", async () => {
    const { path, saver } = await threeTasks();
    const heads = async (): Promise<string> => (await saver.getTuple({ configurable: { thread_id: "t" } }))!.checkpoint.id;
    const name = (called: string, checkpointId: string): Promise<unknown> =>
      saver.names.set({ threadId: "t", checkpointId }, called);
    const names = (): unknown[] =>
      (dump(path)["langgraph_names"] as { name: string; checkpoint_id: string }[]).map((row) => [row.name, row.checkpoint_id]);
    const three = await heads();
    for (const called of ["late", "moved"]) await name(called, three);
    const late = await saver.rewind({ threadId: "t", toTask: "two" });
    expect(names()).toEqual([]);
    const two = await heads();
    await name("kept", two);
    await name("moved", two);
    await saver.rewinds.takeBack(late.rewindId!);
    expect(names()).toEqual([
      ["kept", two],
      ["late", three],
      ["moved", two],
    ]);
    await saver.rewind({ threadId: "t", toTask: "two", archive: false });
    expect(names()).toEqual([
      ["kept", two],
      ["moved", two],
    ]);
    saver.close();
  });

  test("S1.5 a rewind survives the process: another one sees it, and takes it back", async () => {
    const { path, saver } = await threeTasks(wordy);
    const before = rowsOfThread(path, "t");
    const { rewindId } = await saver.rewind({ threadId: "t", toTask: "one" });
    saver.close();
    const later = openSaver(path, { logger: quiet });
    expect((await later.turns.tasks("t")).map((task) => task.taskId)).toEqual(["one"]);
    await later.rewinds.takeBack(rewindId!);
    const after = rowsOfThread(path, "t");
    for (const table of REWOUND) {
      expect([table, before[table]]).not.toEqual([table, []]);
      expect(after[table]).toEqual(before[table]);
    }
    expect(after["langgraph_archive"]).toEqual([]);
    later.close();
  });
});

describe("S1.5 a rewind that cannot be taken back", () => {
  async function conflict(saver: TurnSaver, path: string, rewindId: string, found: RegExp): Promise<void> {
    const before = dump(path);
    const refusal = saver.rewinds.takeBack(rewindId);
    await expect(refusal).rejects.toMatchObject({ code: "REWIND_CONFLICT", name: "RewindConflictError" });
    await expect(refusal).rejects.toThrow(found);
    expect(dump(path)).toEqual(before);
  }

  test("S1.5 REWIND_NOT_FOUND for an unknown one", async () => {
    const { path, saver } = await threeTasks();
    const before = dump(path);
    for (const id of ["nothing", "", "' OR '1'='1"]) {
      await expect(saver.rewinds.takeBack(id)).rejects.toMatchObject({ code: "REWIND_NOT_FOUND" });
    }
    expect(dump(path)).toEqual(before);
    saver.close();
  });

  test("S1.5 REWIND_CONFLICT with archive: false; and no row is kept of what went", async () => {
    const { path, saver } = await threeTasks();
    const { rewindId, archived } = await saver.rewind({ threadId: "t", toTask: "one", archive: false });
    expect(archived).toBe(false);
    expect(dump(path)["langgraph_archive"]).toEqual([]);
    await conflict(saver, path, rewindId!, /has no archive/);
    saver.close();
  });

  test("S1.5 REWIND_CONFLICT after newer work, until that is rewound", async () => {
    const { path, saver, runner } = await threeTasks();
    const before = await saver.turns.list("t");
    const { rewindId } = await saver.rewind({ threadId: "t", toTask: "one" });
    await runner.invoke({ log: ["newer"] }, { threadId: "t", taskId: "newer" });
    await conflict(saver, path, rewindId!, /newer work/);
    await saver.rewind({ threadId: "t", toTask: "one" });
    await saver.rewinds.takeBack(rewindId!);
    expect(await saver.turns.list("t")).toEqual(before);
    saver.close();
  });

  test("S1.5 REWIND_CONFLICT after a deeper rewind, until that is taken back", async () => {
    const { path, saver } = await threeTasks();
    const before = await saver.turns.list("t");
    const first = await saver.rewind({ threadId: "t", toTask: "two" });
    const deeper = await saver.rewind({ threadId: "t", toTask: "one" });
    await conflict(saver, path, first.rewindId!, /further back/);
    await saver.rewinds.takeBack(deeper.rewindId!);
    await saver.rewinds.takeBack(first.rewindId!);
    expect(await saver.turns.list("t")).toEqual(before);
    saver.close();
  });

  test("S1.5 REWIND_CONFLICT after an earlier rewind was taken back, until that is rewound again", async () => {
    const { path, saver, runner } = await threeTasks();
    const first = await saver.rewind({ threadId: "t", toTask: "two" });
    await runner.invoke({ log: ["four"] }, { threadId: "t", taskId: "four" });
    const four = await runner.graph.getState({ configurable: { thread_id: "t" } });
    const second = await saver.rewind({ threadId: "t", toTask: "two" });
    await saver.rewinds.takeBack(first.rewindId!);
    expect((await saver.turns.tasks("t")).map((task) => task.taskId)).toEqual(["one", "two", "three"]);
    // Task four never had task three before it.
    await conflict(saver, path, second.rewindId!, /taken back since/);
    await saver.rewind({ threadId: "t", toTask: "two" });
    await saver.rewinds.takeBack(second.rewindId!);
    expect((await saver.turns.tasks("t")).map((task) => task.taskId)).toEqual(["one", "two", "four"]);
    expect(await runner.graph.getState({ configurable: { thread_id: "t" } })).toEqual(four);
    saver.close();
  });

  test("S1.5 REWIND_CONFLICT the second time", async () => {
    const { path, saver } = await threeTasks();
    const { rewindId } = await saver.rewind({ threadId: "t", toTask: "one" });
    await saver.rewinds.takeBack(rewindId!);
    await conflict(saver, path, rewindId!, /already taken back/);
    saver.close();
  });

  test("S1.5 a taking back that fails in the middle leaves every row", async () => {
    const { path, saver } = await threeTasks(wordy);
    const { rewindId } = await saver.rewind({ threadId: "t", toTask: "one" });
    const before = dump(path);
    for (const table of REWOUND) {
      sqlOn(
        path,
        `CREATE TRIGGER no BEFORE INSERT ON ${table} WHEN NEW.seq = (SELECT max(json_extract(row, '$.seq')) FROM langgraph_archive
           WHERE tbl = '${table}') BEGIN SELECT RAISE(ABORT, 'not this row'); END`,
      );
      await expect(saver.rewinds.takeBack(rewindId!)).rejects.toThrow(/not this row/);
      expect(dump(path)).toEqual(before);
      sqlOn(path, "DROP TRIGGER no");
    }
    await saver.rewinds.takeBack(rewindId!);
    expect((await saver.turns.tasks("t")).map((task) => task.taskId)).toEqual(["one", "two", "three"]);
    saver.close();
  });
});

describe("S1.9 the request of a rewind", () => {
  test("S1.9 a list that has a task behind the target, though it ran before it, is refused; tasks it alone knows are not", async () => {
    const path = tempFile();
    const saver = openSaver(path, { logger: quiet });
    const runner = new GraphRunner(chain(saver));
    for (const taskId of ["C", "B", "D"]) await runner.invoke({ log: [taskId] }, { threadId: "t", taskId });
    const before = dump(path);
    const refusal = saver.rewind({ threadId: "t", toTask: "B", tasks: ["A", "B", "C", "D"] });
    await expect(refusal).rejects.toMatchObject({ code: "STATE_INVARIANT_VIOLATED", data: { task: "C" } });
    await expect(refusal).rejects.toThrow(/task "C" ran before the target, and is listed after it/);
    expect(dump(path)).toEqual(before);
    expect(await saver.rewind({ threadId: "t", toTask: "B", tasks: ["A", "C", "B", "D", "E"] })).toMatchObject({ tasks: ["D"] });
    saver.close();
  });

  const bad: [string, unknown][] = [
    ["options", undefined],
    ["options", "one"],
    ["toTask", { threadId: "t" }],
    ["toTask", { threadId: "t", toTask: "" }],
    ["threadId", { threadId: "a\0b", toTask: "one" }],
    ["tasks", { threadId: "t", toTask: "one", tasks: "one" }],
    ["tasks", { threadId: "t", toTask: "one", tasks: ["one", 2] }],
    ["dryRun", { threadId: "t", toTask: "one", dryRun: "yes" }],
    ["dryrun", { threadId: "t", toTask: "one", dryrun: true }],
  ];
  test.each(bad)("S1.9 INVALID_OPTION names %s of the request %j", async (name, request) => {
    const refusal = rewindThread({} as RewindParts, request as never);
    await expect(refusal).rejects.toMatchObject({ code: "INVALID_OPTION", data: { option: name === "options" ? "" : name } });
    await expect(refusal).rejects.toThrow(name);
  });

  test("S1.9 a list of tasks that is none changes nothing", async () => {
    const { path, saver } = await threeTasks();
    const before = dump(path);
    for (const tasks of ["one", [1], {}, null]) {
      await expect(saver.rewind({ threadId: "t", toTask: "one", tasks: tasks as never })).rejects.toThrow(/^Option "tasks/);
    }
    expect(dump(path)).toEqual(before);
    saver.close();
  });
});
