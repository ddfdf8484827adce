import { isDeepStrictEqual } from "node:util";
import { Annotation, DeltaChannel, MemorySaver } from "@langchain/langgraph";
import type { BaseCheckpointSaver } from "@langchain/langgraph-checkpoint";
import { Channel, Pregel } from "@langchain/langgraph/pregel";
import fc from "fast-check";
import { TurnSaver } from "langgraph-checkpoint-turns";
import { append, both, build, finish, graphs, PARALLEL, type RandomGraph, steps, take } from "./delta-random";
import { collect, quiet, thread } from "../support/diff-harness";
import { passesTaskPaths } from "../support/langgraph-version";
import { tempFile } from "../support/temp";
import { runs } from "../support/lane";

/** What another process reads: by checkpoint, what stands in the ordinary channel and in the delta channel. */
async function reloaded(path: string, builder: any): Promise<{ log: string[]; delta: string[] }[]> {
  const saver = TurnSaver.fromPath(path, { logger: quiet });
  const states = await historyOf(builder.compile({ checkpointer: saver }));
  saver.close();
  return states;
}

async function historyOf(graph: any): Promise<{ log: string[]; delta: string[] }[]> {
  const states: any[] = await collect(graph.getStateHistory(thread()));
  return states.map(({ values: { log = [], delta = [] } }) => ({ log, delta }));
}

const inAnyOrder = (items: string[]): string[] => items.toSorted();

describe("S6.4 parallel writes to a delta channel reload in the order in which the run applied them", () => {
  test.each([true, false])(
    "S6.4 random graphs of parallel nodes, Sends and subgraphs, attached: %s",
    async (attached) => {
      await fc.assert(
        fc.asyncProperty(graphs(PARALLEL), fc.constantFrom("async", "sync", "exit"), async (plan, durability) => {
          const path = tempFile();
          const saver = TurnSaver.fromPath(path, { logger: quiet });
          const builder = build(plan);
          const graph = builder.compile({ checkpointer: saver });
          if (attached) saver.attach(graph);
          let live: any;
          for (const turn of ["in1", "in2"]) live = await graph.invoke(both(turn), { ...thread(), durability });
          saver.close();
          const states = await reloaded(path, builder);
          expect(states[0]?.delta).toEqual(live.delta);
          expect(states[0]?.log).toEqual(live.log);
          // Before it passed paths, LangGraph applied delta writes in the order of task ids, and others in that of paths.
          const order = passesTaskPaths ? (items: string[]) => items : inAnyOrder;
          for (const { log, delta } of states) expect(order(delta)).toEqual(order(log));
        }),
        { numRuns: runs(10, 200) },
      );
    },
    600_000,
  );
});

describe("S6.4 delta channels over questions, failures, edits and time travel", () => {
  test("S6.4 random programs: a delta channel reloads as the run saw it, or, where LangGraph itself loses something, as from MemorySaver", async () => {
    await fc.assert(
      fc.asyncProperty(graphs(), steps, fc.boolean(), async (plan, program, attached) => {
        const path = tempFile();
        const saver = TurnSaver.fromPath(path, { logger: quiet });
        const [ours, theirs] = [build(plan), build(plan)];
        const graph = ours.compile({ checkpointer: saver });
        const other = theirs.compile({ checkpointer: new MemorySaver() });
        if (attached) saver.attach(graph);
        const order = passesTaskPaths ? (items: string[]) => items : inAnyOrder;
        for (const [n, step] of program.entries()) {
          for (const each of [graph, other]) {
            await take(each, step, n);
            await finish(each, step.durability);
          }
          const known = await historyOf(other);
          for (const [index, { log, delta }] of (await reloaded(path, ours)).entries()) {
            const asInMemory = known[index]?.delta;
            if (asInMemory !== undefined && isDeepStrictEqual(order(delta), order(asInMemory))) continue;
            expect(order(delta)).toEqual(order(log));
          }
        }
        saver.close();
      }),
      { numRuns: Number(process.env["RUNS"] ?? runs(8, 100)) },
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
      const saver = TurnSaver.fromPath(path, { logger: quiet });
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
      const again = TurnSaver.fromPath(path, { logger: quiet });
      const [states, known] = [await historyOf(compile(again)), await historyOf(theirs)];
      again.close();
      expect(states[0]?.log).toEqual(["in1", "n", "U1", "U2", "in2", "n", "in3"]);
      if (passesTaskPaths) for (const { log, delta } of states) expect(delta).toEqual(log);
      // Before, LangGraph stored such input on the wrong checkpoint, or nowhere: no saver can tell it.
      else expect(known[0]?.delta).not.toEqual(known[0]?.log);
    },
  );
});

describe("S6.4 a rewind takes an update's delta writes back, whatever id they were stored under", () => {
  const plan: RandomGraph = {
    layers: [[{ kind: "plain", rounds: 0 }], [{ kind: "asks", rounds: 0 }]],
    names: ["a", "b", "c", "d"],
    joined: false,
    snapshotFrequency: 1000,
  };
  const TASK = "11111111-1111-4111-8111-111111111111";
  test.each([
    ["an id of the caller's", [{ values: both("UNDO-ME"), asNode: "a0", taskId: TASK }]],
    ["one for each of several", [1, 2].map((n) => ({ values: both(`UNDO-ME ${n}`), asNode: "a0" }))],
    [
      "the second's alone",
      [
        { values: {}, asNode: "a0" },
        { values: both("UNDO-ME"), asNode: "a0" },
      ],
    ],
  ])("S6.4 updates under %s", async (_title, updates) => {
    const saver = TurnSaver.fromPath(tempFile(), { logger: quiet });
    const graph = saver.attach(build(plan).compile({ checkpointer: saver }) as object) as any;
    await graph.invoke(both("in"), thread("t", { task_id: "one" }));
    await graph.bulkUpdateState(thread(), [{ updates }]);
    // Before LangGraph passed paths, nothing told such writes from those of a node.
    if (passesTaskPaths) expect((await saver.listTasks("t")).map(({ taskId }) => taskId)).toEqual(["one", expect.anything()]);
    await saver.rewind({ threadId: "t", toTask: "one" });
    const pending = (await saver.getTuple(thread()))?.pendingWrites ?? [];
    if (passesTaskPaths) expect(pending.map(([, channel]) => channel)).toEqual(["__interrupt__"]);
    await finish(graph, "async");
    expect((await graph.getState(thread())).values).toEqual(both("in", "a0", "a1:answer 0"));
    saver.close();
  });
});
