import { START, StateGraph } from "@langchain/langgraph";
import fc from "fast-check";
import type { TurnSaver } from "langgraph-checkpoint-turns";
import { runs } from "../support/lane";
import { laneTest } from "../support/lane-test";
import { chain, Log } from "../support/s1-graph";
import { configOf, idOf, openOn } from "../support/model-calls";
import { tempFile } from "../support/temp";
import { seenBy } from "./facts-world";

const REFUSED = { code: "CHECKPOINT_NOT_FOUND", data: { threadId: "thread" } };

/** A graph that isn't attached runs three tasks on the thread; in node b of the third, `meanwhile` happens. */
async function rewoundWhileRunning(
  saver: TurnSaver,
  durability: "sync" | "async" | "exit",
  meanwhile: () => Promise<unknown>,
): Promise<unknown> {
  const inTask = (task: string) => ({ configurable: { thread_id: "thread", task_id: task } });
  await chain(saver).invoke({ log: ["first"] }, inTask("zero"));
  await chain(saver).invoke({ log: ["second"] }, inTask("one"));
  return chain(saver, async (node) => void (node === "b" && (await meanwhile()))).invoke(
    { log: ["third"] },
    { ...inTask("two"), durability },
  );
}

/** With "async" a checkpoint of the run may still be on its way; then the rewind asks to be called again. */
async function rewoundBy(saver: TurnSaver): Promise<void> {
  const request = { threadId: "thread", toTask: "zero" };
  await saver.rewind(request).catch(async (error: unknown) => {
    expect(error).toMatchObject({ code: "STATE_INVARIANT_VIOLATED" });
    await saver.rewind(request);
  });
}

describe("a run that continues while its thread is rewound", () => {
  const pruned = async (saver: TurnSaver) => saver.prune({ threadId: "thread", keepLast: 9 });
  const cases = (["sync", "async", "exit"] as const).flatMap((durability) =>
    [false, true].map((isPruned) => ({ durability, isPruned })),
  );

  test.each(cases)("S7.6 S3.2 leaves nothing on it: durability $durability, pruned before: $isPruned", async (one) => {
    const path = tempFile();
    const [own, other] = [openOn(path), openOn(path)];
    let left: unknown;
    const run = rewoundWhileRunning(own, one.durability, async () => {
      if (one.isPruned) await pruned(other);
      await rewoundBy(other);
      left = await seenBy(other);
    });
    await expect(run).rejects.toMatchObject(REFUSED);
    expect(await seenBy(own)).toEqual(left);
    expect((await own.verify()).problems).toEqual([]);
    // The next run goes on from what the rewind left.
    const next = await chain(own).invoke({ log: ["fourth"] }, { configurable: { thread_id: "thread" } });
    expect(next.log.slice(-5)).toEqual(["c", "fourth", "a", "b", "c"]);
    expect(next.log).not.toContain("third");
    own.close();
    other.close();
  });

  test("S7.6 S3.2 its writes are refused as well, also on a checkpoint that was saved again under the same id", async () => {
    const path = tempFile();
    const [own, other] = [openOn(path), openOn(path)];
    const run = await begun(own);
    for (const [id, task] of [
      [1, "one"],
      [2, "two"],
    ] as const)
      await step(own, run, id, id - 1, task);
    await other.rewind({ threadId: "thread", toTask: "one" });
    const left = await seenBy(other);
    await expect(write(own, run, 2)).rejects.toMatchObject(REFUSED);
    expect(await seenBy(own)).toEqual(left);
    await step(other, {}, 2, 1, "two");
    await expect(write(own, run, 2)).rejects.toMatchObject(REFUSED);
    expect((await other.getTuple(configOf({})))?.pendingWrites).toEqual([]);
    own.close();
    other.close();
  });

  test.each([false, true])(
    "S7.6 S3.2 a run that is told to begin at a checkpoint that a rewind has removed saves nothing: attached %s",
    async (isAttached) => {
      const saver = openOn(tempFile());
      const graph = chain(saver);
      if (isAttached) saver.attach(graph);
      const inTask = (task: string) => ({ configurable: { thread_id: "thread", task_id: task } });
      await graph.invoke({ log: ["first"] }, inTask("one"));
      await graph.invoke({ log: ["second"] }, inTask("two"));
      const gone = (await saver.getTuple({ configurable: { thread_id: "thread" } }))?.checkpoint.id;
      await saver.rewind({ threadId: "thread", toTask: "one" });
      const left = await saver.getTuple({ configurable: { thread_id: "thread" } });
      const there = { configurable: { thread_id: "thread", checkpoint_id: gone } };
      await expect(graph.invoke({ log: ["third"] }, there)).rejects.toMatchObject(REFUSED);
      expect(await saver.getTuple({ configurable: { thread_id: "thread" } })).toEqual(left);
      expect((await saver.verify()).problems).toEqual([]);
      saver.close();
    },
  );

  test.each(["sync", "async"] as const)(
    "S7.6 S3.2 a rewind between two calls of a graph by its thread's root, within one run, stops neither: durability %s",
    async (durability) => {
      const saver = openOn(tempFile());
      const inner = chain(saver);
      const call = (task: string) =>
        inner.invoke({ log: [task] }, { configurable: { thread_id: "inner", checkpoint_ns: "", task_id: task } });
      const outer = chain(saver, async (node) => {
        await call(node);
        if (node === "b") await saver.rewind({ threadId: "inner", toTask: "a" });
      });
      const result = await saver.attach(outer).invoke({ log: ["in"] }, { configurable: { thread_id: "outer" }, durability });
      expect(result.log).toEqual(["in", "a", "b", "c"]);
      expect((await saver.turns.tasks("inner")).map(({ taskId }) => taskId)).toEqual(["a", "c"]);
      expect((await saver.verify()).problems).toEqual([]);
      saver.close();
    },
  );

  test("S7.6 S3.2 a late run that calls the root of its own thread is late there too, and in the graphs inside it", async () => {
    const saver = openOn(tempFile(), { onCheckpointError: "continue" });
    const late = chain(saver, async (node) => {
      if (node !== "b") return;
      await saver.rewind({ threadId: "thread", toTask: "one" });
      await chain(saver).invoke({ log: ["again"] }, { configurable: { thread_id: "thread", checkpoint_ns: "" } });
    });
    await chain(saver).invoke({ log: ["first"] }, { configurable: { thread_id: "thread", task_id: "one" } });
    const left = await saver.getTuple({ configurable: { thread_id: "thread" } });
    const outer = new StateGraph(Log).addNode("nested", late).addNode("after", chain(saver)).addEdge(START, "nested");
    await outer
      .addEdge("nested", "after")
      .compile({ checkpointer: saver })
      .invoke({ log: ["second"] }, { configurable: { thread_id: "thread", task_id: "two" } });
    expect((await saver.turns.tasks("thread")).map(({ taskId }) => taskId)).toEqual(["one"]);
    expect(await saver.getTuple({ configurable: { thread_id: "thread" } })).toEqual(left);
    expect((await saver.verify()).problems).toEqual([]);
    saver.close();
  });

  test("S7.6 S3.2 a prune alone stops no run", async () => {
    const path = tempFile();
    const [own, other] = [openOn(path), openOn(path)];
    const result = (await rewoundWhileRunning(own, "async", () => pruned(other))) as { log: string[] };
    expect(result.log.slice(-4)).toEqual(["third", "a", "b", "c"]);
    expect((await own.verify()).problems).toEqual([]);
    own.close();
    other.close();
  });
});

/** LangGraph passes one `metadata` through all calls of a run; nothing for a save by hand. */
type Run = { metadata?: Record<string, unknown> };

async function begun(saver: TurnSaver): Promise<Run> {
  const run: Run = { metadata: {} };
  await saver.getTuple({ ...configOf({}), ...run });
  return run;
}

async function step(saver: TurnSaver, run: Run, id: number, parent: number, task: string): Promise<void> {
  const checkpoint = {
    v: 4,
    id: idOf(id),
    ts: "2026-11-21T00:00:00.000Z",
    channel_values: { log: [id] },
    channel_versions: { log: id },
  };
  await saver.put(
    { ...configOf({ task, id: parent === 0 ? undefined : parent }), ...run },
    { ...checkpoint, versions_seen: {} },
    { source: parent === 0 ? "input" : "loop", step: id, parents: {} },
    { log: id },
  );
}

async function write(saver: TurnSaver, run: Run, id: number): Promise<void> {
  await saver.putWrites({ ...configOf({ id }), ...run }, [["log", ["late"]]], "00000001-0000-5000-8000-000000000000");
}

type Move = { by: number } & (
  | { do: "begin" | "step" | "write" | "write early" | "take back" }
  | { do: "rewind"; tasks: number }
  | { do: "prune"; keepLast: number }
);

const move: fc.Arbitrary<Move> = fc.record({ by: fc.nat(1) }).chain((by) =>
  fc
    .oneof(
      {
        weight: 12,
        arbitrary: fc.constantFrom("begin" as const, "step" as const, "step" as const, "write" as const, "write early" as const),
      },
      { weight: 1, arbitrary: fc.constant("take back" as const) },
    )
    .map((one): Move => ({ ...by, do: one })),
);
const harm: fc.Arbitrary<Move> = fc.record({ by: fc.nat(1) }).chain((by) =>
  fc.oneof(
    fc.nat(2).map((tasks): Move => ({ ...by, do: "rewind", tasks })),
    fc.integer({ min: 1, max: 3 }).map((keepLast): Move => ({ ...by, do: "prune", keepLast })),
  ),
);

describe("of runs that a rewind meets", () => {
  laneTest(
    "S7.6 S3.2 property: no matter what is rewound, pruned and saved in between, nothing that was saved before a rewind is built upon after it",
    async () => {
      await fc.assert(
        fc.asyncProperty(
          fc.array(fc.oneof({ weight: 3, arbitrary: move }, { weight: 1, arbitrary: harm }), { minLength: 6, maxLength: 30 }),
          play,
        ),
        { numRuns: runs(12, 200) },
      );
    },
    600_000,
  );
});

async function epochOf(saver: TurnSaver): Promise<number> {
  return ((await seenBy(saver)) as { thread?: { epoch: number } }).thread?.epoch ?? 0;
}

/** Each saver has one run, which goes on from where it stands, and is of one task. */
async function play(moves: readonly Move[]): Promise<void> {
  const path = tempFile();
  const savers = [openOn(path), openOn(path)];
  const going = savers.map(() => ({ run: {}, at: 0, task: "", isLate: true }));
  let [ids, tasks] = [0, 0];
  let lastRewind: string | undefined;
  const begin = async (by: number): Promise<void> => {
    const saver = savers[by] as TurnSaver;
    const run = await begun(saver);
    const at = Number((await saver.getTuple(configOf({})))?.checkpoint.id.slice(-12) ?? 0);
    going[by] = { run, at, task: `task ${(tasks += 1)}`, isLate: false };
  };
  const rewound = (): void => going.forEach((one) => (one.isLate = true));
  for (const one of moves) {
    const saver = savers[one.by] as TurnSaver;
    const own = () => going[one.by] as (typeof going)[number];
    if (one.do === "begin" || tasks === 0) await begin(one.by);
    const before = await seenBy(saver);
    if (one.do === "step" || one.do === "write" || one.do === "write early") {
      if (own().task === "" || (one.do !== "step" && own().at === 0)) continue;
      const { run, at, task, isLate } = own();
      const saved =
        one.do === "step" ? step(saver, run, (ids += 1), at, task) : write(saver, run, one.do === "write" ? at : ids + 1);
      if (!isLate) await saved;
      else {
        await expect(saved).rejects.toMatchObject(REFUSED);
        expect(await seenBy(saver)).toEqual(before);
      }
      if (one.do === "step" && !isLate) own().at = ids;
    } else if (one.do === "rewind") {
      const known = await saver.turns.tasks("thread");
      const target = known.at(-1 - one.tasks);
      if (target === undefined) continue;
      const epoch = await epochOf(saver);
      const report = await saver.rewind({ threadId: "thread", toTask: target.taskId }).catch((error: unknown) => {
        expect(error).toMatchObject({ code: "CHECKPOINT_NOT_FOUND" });
        return undefined;
      });
      // One that finds nothing to remove is none.
      if (report !== undefined && (await epochOf(saver)) > epoch) [lastRewind] = [report.rewindId, rewound()];
    } else if (one.do === "take back") {
      if (lastRewind === undefined) continue;
      const isBack = await saver.rewinds.takeBack(lastRewind).then(
        () => true,
        () => false,
      );
      if (isBack) rewound();
    } else if (one.do === "prune" && ids > 0) {
      await saver.prune({ threadId: "thread", keepLast: one.keepLast });
    }
    expect(await seenBy(savers[0] as TurnSaver)).toEqual(await seenBy(savers[1] as TurnSaver));
  }
  expect((await (savers[0] as TurnSaver).verify()).problems).toEqual([]);
  savers.forEach((saver) => saver.close());
}
