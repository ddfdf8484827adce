import { rotateKeys } from "langgraph-checkpoint-turns/maintenance";
import { internalsOf } from "../../src/testing-internal";
import { Annotation, Command, END, interrupt, START, StateGraph } from "@langchain/langgraph";
import fc from "fast-check";
import type { PruneReport, TokenUsage, TurnSaver, TurnSaverOptions, TurnsError } from "../../src/index";
import { CheckpointFile } from "langgraph-checkpoint-turns/checkpoint-file";
import { runs } from "../support/lane";
import { laneTest } from "../support/lane-test";
import { dump, quiet, sqlOn } from "../support/s1-tools";
import { tempFile } from "../support/temp";
import { effectUndoneBy, undosNamed } from "../support/undo-world";
import { AnsweringModel, usage } from "../turns/tok-model";
import { openSaver } from "../support/open-saver";

jest.setTimeout(600_000);

const DAY = 86_400_000;
const KEY = Buffer.from(Array.from({ length: 32 }, (_, index) => index + 1)).toString("base64");
const savers: TurnSaver[] = [];
afterEach(() => {
  for (const saver of savers.splice(0)) saver.close();
});

function open(options: TurnSaverOptions = {}, path = tempFile()): TurnSaver {
  const saver = openSaver(path, { logger: quiet, synchronous: "normal", ...options });
  savers.push(saver);
  return saver;
}

const State = Annotation.Root({
  log: Annotation<string[]>({ reducer: (left, right) => left.concat(right), default: () => [] }),
  asks: Annotation<boolean>({ reducer: (_, next) => next, default: () => false }),
});
const NODES = ["one", "two", "three", "four", "five"];
const model = (input: number): AnsweringModel => new AnsweringModel([{ text: "yes", usage: usage(input, 1, 1, 1) }]);

/** Six nodes, of which the last is a graph; each asks a model. */
function sixNodes(saver: TurnSaver) {
  const inner = new StateGraph(State)
    .addNode("deep", async () => {
      await model(100).invoke("?");
      return { log: ["deep"] };
    })
    .addEdge(START, "deep")
    .addEdge("deep", END)
    .compile();
  const builder = new StateGraph(State) as unknown as StateGraph<typeof State, typeof State.State, typeof State.Update, string>;
  NODES.forEach((name, index) => {
    builder.addNode(name, async ({ asks }) => {
      if (name === "three" && asks) return { log: [String(interrupt("sure?"))] };
      await model(index + 1).invoke("?");
      return { log: [name] };
    });
    builder.addEdge(index === 0 ? START : (NODES[index - 1] ?? START), name);
  });
  builder.addNode("six", inner).addEdge("five", "six");
  return saver.attach(builder.compile({ checkpointer: saver }));
}

const on = (taskId: string, threadId = "t") => ({ configurable: { thread_id: threadId, task_id: taskId } });

async function ran(saver: TurnSaver, taskIds: readonly string[]): Promise<ReturnType<typeof sixNodes>> {
  const graph = sixNodes(saver);
  for (const taskId of taskIds) await graph.invoke({ log: [taskId] }, on(taskId));
  return graph;
}

/** The tasks that a rewind can go back to. */
async function targets(saver: TurnSaver, threadId = "t"): Promise<string[]> {
  const found: string[] = [];
  const named: unknown[] = [];
  for (const { taskId } of await saver.turns.tasks(threadId)) {
    const code = await saver.rewind({ threadId, toTask: taskId, dryRun: true }).then(
      () => "",
      (error: TurnsError) => (named.push(error.data["nextTask"]), error.code),
    );
    if (code === "") found.push(taskId);
    else expect(code).toBe("CHECKPOINT_NOT_FOUND");
  }
  // A refusal says which task is the first that isn't refused.
  expect(named).toEqual(named.map(() => found[0]));
  return found;
}

const settled = async (): Promise<void> => {
  for (let turn = 0; turn < 20; turn += 1) await new Promise((resolve) => setTimeout(resolve, 1));
};

describe("S8.7 retention by tasks", () => {
  test("S8.7 keepTasks keeps the newest tasks whole, so that each of them can be rewound; keepLast by itself leaves half a task", async () => {
    const [byTask, byCheckpoint] = [open(), open()];
    for (const saver of [byTask, byCheckpoint]) await ran(saver, ["a", "b", "c", "d"]);
    await byCheckpoint.prune({ threadId: "t", keepLast: 5 });
    expect(await targets(byCheckpoint)).toEqual(["d"]);
    await byTask.prune({ threadId: "t", keepTasks: 2 });
    expect(await targets(byTask)).toEqual(["b", "c", "d"]);
    const before = await byTask.turns.list("t");
    expect([...new Set(before.map(({ taskId }) => taskId))]).toEqual(["c", "d"]);
    await byTask.rewind({ threadId: "t", toTask: "b" });
    const graph = sixNodes(byTask);
    expect((await graph.getState(on("b"))).values.log.slice(-7)).toEqual(["b", ...NODES, "deep"]);
    expect((await byTask.verify()).ok).toBe(true);
  });

  test("S8.7 a task that was continued later stays from its first part on; an updateState counts as the task it is", async () => {
    const saver = open();
    const graph = await ran(saver, ["a", "b", "a"]);
    await saver.prune({ threadId: "t", keepTasks: 1 });
    expect(await targets(saver)).toEqual(["b", "a"]);
    await graph.invoke({ log: [] }, on("c"));
    await graph.updateState(on("fix"), { log: ["fixed"] });
    await saver.prune({ threadId: "t", keepTasks: 1 });
    expect(await targets(saver)).toEqual(["c", "fix"]);
  });

  test("S8.7 what keepTasks or keepLast keeps stays; maxAgeMs removes by age no matter what they say", async () => {
    const clock = { now: 1_800_000_000_000 };
    const saver = open({ clock: () => new Date(clock.now) });
    await ran(saver, ["a", "b", "c"]);
    const roots = async (): Promise<number> => {
      let count = 0;
      for await (const _ of saver.list({ configurable: { thread_id: "t", checkpoint_ns: "" } })) count += 1;
      return count;
    };
    const all = await roots();
    const ofTask = all / 3;
    await saver.prune({ threadId: "t", keepTasks: 1, keepLast: 2 * ofTask + 3 });
    expect(await roots()).toBe(2 * ofTask + 3);
    await saver.prune({ threadId: "t", keepTasks: 2, keepLast: 1 });
    expect(await roots()).toBe(2 * ofTask + 1);
    clock.now += DAY;
    await saver.prune({ threadId: "t", keepTasks: 2, maxAgeMs: DAY / 2 });
    expect(await roots()).toBe(1);
  });

  test("S8.7 as an option it holds for finished threads too, no matter what keepLastWhenDone says", async () => {
    const saver = open({ retention: { keepTasks: 2, keepLastWhenDone: 1 } });
    const graph = sixNodes(saver);
    for (const taskId of ["a", "b", "c", "d"]) {
      await graph.invoke({ log: [taskId] }, on(taskId));
      await settled();
    }
    expect(await targets(saver)).toEqual(["b", "c", "d"]);
  });

  test("S8.7 with keepTasks alone, 0 or none of the options is refused by name", async () => {
    const saver = open();
    await expect(saver.prune({ keepTasks: 0 })).rejects.toMatchObject({ code: "INVALID_OPTION" });
    await expect(saver.prune({})).rejects.toThrow(/keepTasks/);
    expect(() => open({ retention: {} })).toThrow(/keepTasks/);
  });
});

/** The order is that of the first turn that is still there, and so is a node that used nothing. */
async function used(saver: TurnSaver, threadId = "t"): Promise<Pick<TokenUsage, "total" | "byTask" | "byNode">> {
  const { total, byTask, byNode } = await saver.turns.tokenUsage(threadId);
  const some = <T extends { total: number }>(counts: readonly T[]): T[] =>
    counts.filter((count) => count.total > 0).toSorted((left, right) => (JSON.stringify(left) < JSON.stringify(right) ? -1 : 1));
  return { total, byTask: some(byTask), byNode: some(byNode) };
}

const files = async (saver: TurnSaver) =>
  Promise.all(
    (["task", "node"] as const).map(async (by) => {
      const { phases, totals } = await CheckpointFile.fromThread(saver, "t", { by });
      return { phases: phases.map(({ id, tokens }) => ({ id, tokens })), totals };
    }),
  );

describe("S8.7 token sums", () => {
  test.each([{}, { encryption: { key: KEY } }])(
    "S8.7 pruned turns leave them, for tokenUsage and CHECKPOINT.md (%j)",
    async (options) => {
      const path = tempFile();
      const saver = open(options, path);
      await ran(saver, ["a", "b", "c", "d"]);
      const [usage, shown] = [await used(saver), await files(saver)];
      expect(usage.total.input).toBe(4 * 115);
      await saver.prune({ threadId: "t", keepLast: 6 });
      await saver.prune({ threadId: "t", keepLast: 2 });
      expect(await used(saver)).toEqual(usage);
      expect(await files(saver)).toEqual(shown);
      await saver.copyThread("t", "copy");
      expect(await used(saver, "copy")).toEqual(usage);
      if ("encryption" in options) await rotateKeys(saver);
      expect((await saver.verify()).ok).toBe(true);
      saver.close();
      const again = open(options, path);
      expect(await used(again)).toEqual(usage);
      await again.deleteThread("t");
      await again.deleteThread("copy");
      expect(dump(path)["langgraph_tasks"]).toEqual([]);
    },
  );

  test("S8.7 a rewind to a task leaves them as they were then, and they are restored with what is taken back", async () => {
    const saver = open();
    const graph = sixNodes(saver);
    const after = new Map<string, unknown>();
    for (const taskId of ["a", "b", "c", "d"]) {
      await graph.invoke({ log: [taskId] }, on(taskId));
      after.set(taskId, await used(saver));
    }
    await saver.prune({ threadId: "t", keepTasks: 2 });
    const { rewindId } = await saver.rewind({ threadId: "t", toTask: "c" });
    expect(await used(saver)).toEqual(after.get("c"));
    await saver.rewinds.takeBack(String(rewindId));
    expect(await used(saver)).toEqual(after.get("d"));
    await saver.rewind({ threadId: "t", toTask: "b" });
    expect(await used(saver)).toEqual(after.get("b"));
  });

  test("S8.7 a turn that ran again from an old checkpoint: its sum is told as rewound when its task is", async () => {
    const saver = open();
    const graph = await ran(saver, ["a"]);
    const before = await used(saver);
    const history: any[] = [];
    for await (const state of graph.getStateHistory({ configurable: { thread_id: "t" } })) history.push(state);
    const from = history.find(({ next }) => next[0] === "two");
    await graph.invoke(null, { configurable: { ...from.config.configurable, task_id: "b" } });
    const both = await used(saver);
    await saver.prune({ threadId: "t", keepTasks: 1 });
    expect(await used(saver)).toEqual(both);
    await saver.rewind({ threadId: "t", toTask: "a" });
    expect(await used(saver)).toEqual(before);
    expect((await saver.turns.tokenUsage("t")).rewound.input).toBe(both.total.input - before.total.input);
  });

  test("S8.7 a sum that was changed by hand is found by verify, and is no sum", async () => {
    const path = tempFile();
    const saver = open({}, path);
    await ran(saver, ["a", "b"]);
    await saver.prune({ threadId: "t", keepLast: 1 });
    saver.close();
    sqlOn(path, `UPDATE langgraph_tasks SET pruned_tokens = '[["one",0,0,0,0]]' WHERE task_id = 'a'`);
    const again = open({}, path);
    expect((await again.verify()).ok).toBe(false);
    await expect(again.turns.tokenUsage("t")).rejects.toMatchObject({ code: "CHECKPOINT_CORRUPTED" });
  });
});

type Step =
  | { do: "run"; taskId: string; asks: boolean }
  | { do: "answer" }
  | { do: "edit"; taskId: string }
  | { do: "travel"; back: number }
  | { do: "prune"; keepLast?: number; keepTasks?: number }
  | { do: "rewind"; toTask: string; archive: boolean };

const taskId = fc.constantFrom("a", "b", "c", "d");
const number = fc.integer({ min: 1, max: 8 });
const pruning = fc.oneof(
  fc.record({ do: fc.constant("prune" as const), keepTasks: fc.integer({ min: 1, max: 3 }) }),
  fc.record({ do: fc.constant("prune" as const), keepLast: number }),
  fc.record({ do: fc.constant("prune" as const), keepLast: number, keepTasks: fc.integer({ min: 1, max: 3 }) }),
);
const step: fc.Arbitrary<Step> = fc.oneof(
  { weight: 5, arbitrary: fc.record({ do: fc.constant("run" as const), taskId, asks: fc.boolean() }) },
  { weight: 1, arbitrary: fc.constant<Step>({ do: "answer" }) },
  { weight: 1, arbitrary: fc.record({ do: fc.constant("edit" as const), taskId }) },
  { weight: 1, arbitrary: fc.record({ do: fc.constant("travel" as const), back: fc.integer({ min: 1, max: 6 }) }) },
  { weight: 3, arbitrary: pruning },
  { weight: 2, arbitrary: fc.record({ do: fc.constant("rewind" as const), toTask: taskId, archive: fc.boolean() }) },
);

const ignored = (): undefined => undefined;

async function live(saver: TurnSaver, one: Exclude<Step, { do: "prune" | "rewind" }>): Promise<void> {
  const graph = sixNodes(saver);
  if (one.do === "run") await graph.invoke({ log: [one.taskId], asks: one.asks }, on(one.taskId));
  if (one.do === "answer")
    await graph.invoke(new Command({ resume: "yes" }), { configurable: { thread_id: "t" } }).catch(ignored);
  if (one.do === "edit") await graph.updateState(on(one.taskId), { log: ["edited"] }, "one").catch(ignored);
  if (one.do === "travel") {
    const history: any[] = [];
    for await (const state of graph.getStateHistory({ configurable: { thread_id: "t" } })) history.push(state);
    const from = history[Math.min(one.back, history.length - 1)];
    if (from !== undefined)
      await graph.invoke(null, { configurable: { ...from.config.configurable, task_id: "e" } }).catch(ignored);
  }
}

laneTest(
  "S8.7 property: pruned or not, a thread tells the same token sums, also when it is rewound; keepTasks keeps its tasks as targets",
  async () => {
    await fc.assert(
      fc.asyncProperty(fc.array(step, { minLength: 2, maxLength: 8 }), async (steps) => {
        const [pruned, whole] = [open(), open()];
        let mayTravel = true;
        for (const one of steps) {
          if (one.do === "prune") {
            const { do: _, ...request } = one;
            // What can be travelled to is not the same any more.
            mayTravel = false;
            const before = await targets(pruned);
            await pruned.prune(request);
            // The newest tasks and the one before, as far as an earlier prune has left them.
            const expected = before.slice(request.keepTasks === undefined ? -1 : -request.keepTasks - 1);
            expect(await targets(pruned)).toEqual(expect.arrayContaining(expected));
          } else if (one.do === "rewind") {
            const { do: _, ...request } = one;
            const done = await pruned.rewind({ threadId: "t", ...request }).catch(ignored);
            if (done !== undefined) await whole.rewind({ threadId: "t", ...request });
          } else if (one.do !== "travel" || mayTravel) {
            for (const saver of [pruned, whole]) await live(saver, one);
          }
          expect(await used(pruned)).toEqual(await used(whole));
        }
        expect((await pruned.verify()).problems).toEqual([]);
        for (const saver of savers.splice(0)) saver.close();
      }),
      { numRuns: runs(8, 150) },
    );
  },
);

type Answer = { code: string } | Pick<PruneReport, "threads" | "deletedThreads" | "checkpoints" | "writes" | "turns" | "chunks">;

async function answerOf(work: Promise<PruneReport>): Promise<Answer> {
  try {
    const { threads, deletedThreads, failed, checkpoints, writes, turns, chunks } = await work;
    const codes = failed.map(({ threadId, error }) => `${threadId}: ${(error as TurnsError).code}`);
    return { threads, deletedThreads, checkpoints, writes, turns, chunks, ...(codes.length > 0 && { codes }) };
  } catch (error) {
    return { code: (error as TurnsError).code };
  }
}

const request = fc.record(
  {
    threadId: fc.constantFrom("t", "t", "t", "other", "nobody", ""),
    keepTasks: fc.integer({ min: 0, max: 3 }),
    keepLast: fc.integer({ min: 0, max: 8 }),
    maxAgeMs: fc.constantFrom(0, DAY / 2, 2 * DAY),
    idleMs: fc.constantFrom(DAY / 2, 2 * DAY),
    batchSize: fc.constantFrom(1, 3, 500),
  },
  { requiredKeys: [] },
);

laneTest(
  "S8.7 property: a dry prune is refused exactly where the real one is, with the same code, and counts the same",
  async () => {
    const seen = new Map<string, number>();
    await fc.assert(
      fc.asyncProperty(
        fc.array(step, { minLength: 1, maxLength: 5 }),
        request,
        fc.constantFrom("at rest", "at rest", "running", "rewinding", "damaged", "closed"),
        async (steps, asked, around) => {
          const clock = { now: 1_800_000_000_000 };
          const path = tempFile();
          const saver = open({ clock: () => new Date((clock.now += 1_000)) }, path);
          const graph = sixNodes(saver);
          await graph.invoke({ log: ["old"] }, on("old", "other"));
          for (const one of steps) {
            clock.now += DAY / 4;
            if (one.do === "prune") await saver.prune({ threadId: "t", ...one, do: undefined } as never).catch(ignored);
            else if (one.do === "rewind")
              await saver.rewind({ threadId: "t", toTask: one.toTask, archive: one.archive }).catch(ignored);
            else await live(saver, one).catch(ignored);
          }
          const release = around === "running" ? await internalsOf(saver).reserve("t") : undefined;
          if (around === "rewinding") await beginRewind(saver);
          if (around === "damaged") sqlOn(path, "UPDATE langgraph_tasks SET graph_id = 'x' WHERE task_id = 'a'");
          if (around === "closed") await (saver.close() as unknown);
          const dry = await answerOf(saver.prune({ ...asked, dryRun: true }));
          const real = await answerOf(saver.prune(asked));
          expect(dry).toEqual(real);
          const code = "code" in real ? real.code : "done";
          seen.set(code, (seen.get(code) ?? 0) + 1);
          if (around !== "closed") await release?.();
          for (const one of savers.splice(0)) one.close();
        },
      ),
      // Of the runs, some may happen to meet no rewind, no unknown thread, no mistake, or nothing else.
      {
        numRuns: runs(14, 203),
        examples: [
          [[{ do: "run", taskId: "a", asks: false }], { threadId: "t", keepLast: 1 }, "rewinding"],
          [[{ do: "run", taskId: "a", asks: false }], { threadId: "nobody", keepLast: 1 }, "at rest"],
          [[{ do: "run", taskId: "a", asks: false }], { threadId: "", keepLast: 1 }, "at rest"],
          [[{ do: "run", taskId: "a", asks: false }], { threadId: "t", keepLast: 1 }, "at rest"],
        ],
      },
    );
    for (const code of ["done", "INVALID_OPTION", "THREAD_NOT_FOUND", "REWIND_UNFINISHED"])
      expect([code, seen.has(code)]).toEqual([code, true]);
  },
);

/** A rewind that was begun and could not be finished. */
async function beginRewind(saver: TurnSaver): Promise<void> {
  const graph = saver.attach(
    new StateGraph(State)
      .addNode("mail", async () => ({ log: [await effectUndoneBy("back", "mail", () => "sent")] }))
      .addEdge(START, "mail")
      .compile({ checkpointer: saver }),
  );
  for (const taskId of ["x", "y"]) await graph.invoke({ log: [] }, on(taskId));
  const back = (): never => {
    throw new Error("not now");
  };
  await saver.rewind({ threadId: "t", toTask: "x" }, undosNamed({ back })).catch(ignored);
}
