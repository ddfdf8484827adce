import { isDeepStrictEqual } from "node:util";
import { Annotation, DeltaChannel, MemorySaver } from "@langchain/langgraph";
import type { BaseCheckpointSaver } from "@langchain/langgraph-checkpoint";
import { Channel, Pregel } from "@langchain/langgraph/pregel";
import fc from "fast-check";
import {
  append,
  both,
  build,
  edit,
  EDITED,
  edits,
  finish,
  graphs,
  PARALLEL,
  type RandomGraph,
  steps,
  take,
} from "./delta-random";
import { collect, quiet, thread } from "../support/diff-harness";
import { keepsDeltaOrder, passesTaskPaths } from "../support/langgraph-version";
import { MemoryMirror } from "./memory-mirror";
import { tempFile } from "../support/temp";
import { runs } from "../support/lane";
import { openSaver } from "../support/open-saver";

/** What a checkpoint has in the ordinary channel and in the delta channel. */
interface State {
  checkpointId: string;
  log: string[];
  delta: string[];
}

/** The history of the thread as another process reads it. */
async function reloaded(path: string, builder: any): Promise<State[]> {
  const saver = openSaver(path, { logger: quiet });
  const states = await historyOf(builder.compile({ checkpointer: saver }));
  saver.close();
  return states;
}

async function historyOf(graph: any): Promise<State[]> {
  const states: any[] = await collect(graph.getStateHistory(thread()));
  return states.map(({ config, values: { log = [], delta = [] } }) => ({
    checkpointId: config.configurable.checkpoint_id,
    log,
    delta,
  }));
}

const inAnyOrder = (items: string[]): string[] => items.toSorted();

/** The items that are in both lists, as often as they are in both. */
function shared(left: readonly string[], right: readonly string[]): string[] {
  return without(left, without(left, right));
}

/** The items of one list that are not in the other, or not as often. */
function without(left: readonly string[], right: readonly string[]): string[] {
  const rest = [...right];
  return left.filter((item) => {
    const at = rest.indexOf(item);
    if (at !== -1) rest.splice(at, 1);
    return at === -1;
  });
}

/**
 * LangGraph 1.4: each state has exactly what LangGraph's own MemorySaver reads from the same calls, or, in any order, the run's values
 * as LangGraph stored them. It stores a Command's delta writes nowhere when the Command is a thread's first input. With "exit" it stores
 * them where the run began, and a branch from there takes them too, in the run itself. When a run with "exit" resumes, LangGraph stores
 * the delta writes of tasks that had finished before a second time.
 *
 * @param isDropping whether runs with "exit" may begin while results are pending. LangGraph stores the delta writes of those too, also if
 *   the run dropped them.
 */
async function expectAsLangGraphStoredIt(
  states: readonly State[],
  mirror: MemoryMirror,
  builder: any,
  isDropping = false,
): Promise<void> {
  const readFrom = async (checkpointer: BaseCheckpointSaver): Promise<Map<string, State>> =>
    new Map((await historyOf(builder.compile({ checkpointer }))).map((state) => [state.checkpointId, state]));
  const inMemory = await readFrom(await mirror.whole());
  for (const { checkpointId, log, delta } of states) {
    if (isDeepStrictEqual(delta, inMemory.get(checkpointId)?.delta)) continue;
    // The MemorySaver also replays abandoned branches, and the first of a task's two results. We don't.
    const branch = (await readFrom(await mirror.branch(checkpointId))).get(checkpointId)?.delta ?? [];
    if (isDeepStrictEqual(delta, branch) || isDeepStrictEqual(inAnyOrder(delta), inAnyOrder(log))) continue;
    const [taken, stored] = [delta, shared(log, branch)].map((items) => items.filter((item) => !item.startsWith("command"))) as [
      string[],
      string[],
    ];
    if (!isDropping) expect(new Set(taken)).toEqual(new Set(stored));
    expect(shared(stored, taken)).toEqual(stored);
    // What is written to a checkpoint twice under one id is the first on a MemorySaver. We keep the last, which is what the run saw.
    const stray = isDropping ? without(taken, log) : delta;
    expect(shared(stray, branch)).toEqual(stray);
  }
}

/** Three times four nodes beside each other: whatever ids their tasks get, some of them sort otherwise than the nodes. */
const WIDE: RandomGraph = {
  layers: Array.from({ length: 3 }, () => Array.from({ length: 4 }, () => ({ kind: "plain", rounds: 0 }))),
  names: ["a", "b", "n10", "n9"],
  joined: true,
  snapshotFrequency: 1000,
};

describe("S6.4 parallel writes to a delta channel reload in the order in which the run applied them", () => {
  test.each([true, false])(
    "S6.4 random graphs of parallel nodes, Sends and subgraphs, attached: %s",
    async (attached) => {
      let reordered = 0;
      await fc.assert(
        fc.asyncProperty(graphs(PARALLEL), fc.constantFrom("async", "sync", "exit"), async (plan, durability) => {
          const path = tempFile();
          const saver = openSaver(path, { logger: quiet });
          const mirror = new MemoryMirror(saver);
          const builder = build(plan);
          const graph = builder.compile({ checkpointer: saver });
          if (attached) saver.attach(graph);
          let live: any;
          for (const turn of ["in1", "in2"]) live = await graph.invoke(both(turn), { ...thread(), durability });
          saver.close();
          const states = await reloaded(path, builder);
          expect(states[0]?.log).toEqual(live.log);
          if (keepsDeltaOrder(durability)) expect(states[0]?.delta).toEqual(live.delta);
          else {
            expect(inAnyOrder(states[0]?.delta ?? [])).toEqual(inAnyOrder(live.delta));
            if (!isDeepStrictEqual(states[0]?.delta, live.delta)) reordered += 1;
          }
          // Before it passed paths, LangGraph applied delta writes in the order of task ids, and others in that of paths.
          const order = passesTaskPaths ? (items: string[]) => items : inAnyOrder;
          for (const { log, delta } of states) expect(order(delta)).toEqual(order(log));
          if (!passesTaskPaths) expect(states).toEqual(await historyOf(builder.compile({ checkpointer: await mirror.whole() })));
        }),
        { numRuns: runs(6, 200), examples: [[WIDE, "exit"]] },
      );
      // With "exit" LangGraph 1.4 replaces the part of the task id that decides the order in the run: the MemorySaver's order differs too.
      expect(reordered > 0).toBe(!keepsDeltaOrder("exit"));
    },
    600_000,
  );
});

describe("S6.4 delta channels over questions, failures, edits and time travel", () => {
  test("S6.4 random programs: a delta channel reloads as the run saw it, or, where LangGraph itself loses something, as from MemorySaver", async () => {
    await fc.assert(
      fc.asyncProperty(graphs(), steps, fc.boolean(), async (plan, program, attached) => {
        const path = tempFile();
        const saver = openSaver(path, { logger: quiet });
        const mirror = new MemoryMirror(saver);
        const [ours, theirs] = [build(plan), build(plan)];
        const graph = ours.compile({ checkpointer: saver });
        const other = theirs.compile({ checkpointer: new MemorySaver() });
        if (attached) saver.attach(graph);
        for (const [n, step] of program.entries()) {
          // With "exit" LangGraph 1.4 can save a checkpoint as its own parent. A MemorySaver then reads without end; the mirror doesn't.
          for (const each of passesTaskPaths ? [graph, other] : [graph]) {
            await take(each, step, n);
            await finish(each, step.durability);
          }
          const states = await reloaded(path, ours);
          if (!passesTaskPaths) {
            await expectAsLangGraphStoredIt(states, mirror, ours);
            continue;
          }
          const known = await historyOf(other);
          for (const [index, { log, delta }] of states.entries()) {
            if (!isDeepStrictEqual(delta, known[index]?.delta)) expect(delta).toEqual(log);
          }
        }
        saver.close();
      }),
      { numRuns: runs(5, 100) },
    );
  }, 600_000);
});

describe("S6.4 delta channels of threads that are edited while something is pending", () => {
  test("S6.4 random edits: a delta channel has what the run saw, or, where LangGraph itself loses something, what MemorySaver has", async () => {
    await fc.assert(
      fc.asyncProperty(graphs(EDITED), edits, fc.boolean(), async (plan, program, attached) => {
        const path = tempFile();
        const saver = openSaver(path, { logger: quiet });
        const mirror = new MemoryMirror(saver);
        const [ours, theirs] = [build(plan), build(plan)];
        const graph = ours.compile({ checkpointer: saver });
        const other = theirs.compile({ checkpointer: new MemorySaver() });
        if (attached) saver.attach(graph);
        for (const each of passesTaskPaths ? [graph, other] : [graph]) {
          await each.invoke(both("in"), thread()).catch(() => undefined);
          for (const [n, one] of program.entries()) await edit(each, one, n);
        }
        saver.close();
        const states = await reloaded(path, ours);
        if (!passesTaskPaths) {
          // An edit at a checkpoint that is named leaves out what is pending there, too. A MemorySaver reads it back all the same.
          const isDropping = program.some((one) => one.durability === "exit" || one.do === "update at");
          await expectAsLangGraphStoredIt(states, mirror, ours, isDropping);
          return;
        }
        const known = await historyOf(other);
        expect(states.length).toBe(known.length);
        for (const [index, { log, delta }] of states.entries()) {
          if (!isDeepStrictEqual(delta, known[index]?.delta)) expect(delta).toEqual(log);
        }
      }),
      { numRuns: runs(6, 100) },
    );
  }, 600_000);
});

describe("S6.4 delta channels that a graph takes its input from", () => {
  const channels = (): any => ({
    go: Annotation<number>(),
    log: Annotation<string[]>({ reducer: (left, right) => left.concat(right), default: () => [] }),
    delta: new DeltaChannel<string[], string[]>(append, { initialValueFactory: () => [] }),
  });
  const compile = (checkpointer: BaseCheckpointSaver): any =>
    new Pregel({
      nodes: {
        n: Channel.subscribeTo("go")
          .pipe(() => ["n"])
          .pipe(Channel.writeTo(["delta", "log"])),
      } as any,
      channels: channels(),
      inputChannels: ["go", "delta", "log"],
      outputChannels: ["delta", "log"],
      checkpointer,
    });

  test.each(["async", "sync", "exit"])(
    "S6.4 input and updates as input are in the channel after a reload, durability %s",
    async (durability) => {
      const path = tempFile();
      const saver = openSaver(path, { logger: quiet });
      const [ours, theirs] = [compile(saver), compile(new MemorySaver())];
      for (const graph of [ours, theirs]) {
        const config = { ...thread(), durability };
        await graph.invoke({ go: 1, ...both("in1") }, config);
        await graph.updateState(thread(), both("U1"), "__input__");
        await graph.updateState(thread(), both("U2"), "__input__");
        await graph.invoke({ go: 1, ...both("in2") }, config);
        await graph.invoke({ go: 1, ...both("in3") }, { ...config, interruptBefore: ["n"] });
      }
      saver.close();
      const again = openSaver(path, { logger: quiet });
      const [states, known] = [await historyOf(compile(again)), await historyOf(theirs)];
      again.close();
      expect(states[0]?.log).toEqual(["in1", "n", "U1", "U2", "in2", "n", "in3"]);
      if (passesTaskPaths) for (const { log, delta } of states) expect(delta).toEqual(log);
      // Before, LangGraph stored such input on the wrong checkpoint, or nowhere: no saver can tell it.
      else expect(known[0]?.delta).not.toEqual(known[0]?.log);
    },
  );
});

describe("S6.4 a rewind takes an update's delta writes back, no matter what id they were stored under", () => {
  const plan: RandomGraph = {
    layers: [[{ kind: "plain", rounds: 0 }], [{ kind: "asks", rounds: 0 }]],
    names: ["a", "b", "c", "d"],
    joined: false,
    snapshotFrequency: 1000,
  };
  const TASK = "11111111-1111-4111-8111-111111111111";
  test.each([
    ["an id of the caller's", [{ values: both("UNDO-ME"), asNode: "a0", taskId: TASK }], true],
    ["one for each of several", [1, 2].map((n) => ({ values: both(`UNDO-ME ${n}`), asNode: "a0" })), false],
    [
      "the second's alone",
      [
        { values: {}, asNode: "a0" },
        { values: both("UNDO-ME"), asNode: "a0" },
      ],
      false,
    ],
  ])("S6.4 updates under %s", async (_title, updates, isCallers) => {
    const saver = openSaver(tempFile(), { logger: quiet });
    const graph = saver.attach(build(plan).compile({ checkpointer: saver }) as object) as any;
    await graph.invoke(both("in"), thread("t", { task_id: "one" }));
    await graph.bulkUpdateState(thread(), [{ updates }]);
    expect((await saver.turns.tasks("t")).map(({ taskId }) => taskId)).toEqual(["one", expect.anything()]);
    await saver.rewind({ threadId: "t", toTask: "one" });
    // LangGraph 1.4 passes no path, so nothing tells an update under an id of the caller's from a node: its delta writes stay.
    const left = isCallers && !passesTaskPaths ? ["UNDO-ME"] : [];
    const pending = (await saver.getTuple(thread()))?.pendingWrites ?? [];
    const channels = pending.map(([, channel]) => channel);
    if (left.length === 0) expect(channels).toEqual(["__interrupt__"]);
    else expect(inAnyOrder(channels)).toEqual(["__interrupt__", "branch:to:a1", "delta", "log"]);
    await finish(graph, "async");
    const { log, delta } = (await graph.getState(thread())).values;
    expect(log).toEqual(["in", "a0", "a1:answer 0"]);
    if (left.length === 0) expect(delta).toEqual(log);
    else expect(inAnyOrder(delta)).toEqual(inAnyOrder([...log, ...left]));
    saver.close();
  });
});
