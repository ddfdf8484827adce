import { randomBytes } from "node:crypto";
import {
  Annotation,
  Command,
  DeltaChannel,
  interrupt,
  MemorySaver,
  Overwrite,
  Send,
  START,
  StateGraph,
} from "@langchain/langgraph";
import { type BaseCheckpointSaver, InMemoryCache } from "@langchain/langgraph-checkpoint";
import type { TurnSaver } from "langgraph-checkpoint-turns";
import { append, both } from "./delta-random";
import { collect, quiet, thread } from "../support/diff-harness";
import { passesTaskPaths } from "../support/langgraph-version";
import { tempFile } from "../support/temp";
import { openSaver } from "../support/open-saver";

const opened: TurnSaver[] = [];
afterEach(() => {
  for (const saver of opened.splice(0)) saver.close();
});

function open(options: object = {}): TurnSaver {
  const saver = openSaver(tempFile(), { logger: quiet, ...options });
  opened.push(saver);
  return saver;
}

const State = (snapshotFrequency: number): any =>
  Annotation.Root({
    log: Annotation<string[]>({ reducer: (left, right) => left.concat(right), default: () => [] }),
    delta: () => new DeltaChannel<string[], string[]>(append, { snapshotFrequency, initialValueFactory: () => [] }),
    never: () => new DeltaChannel<string[], string[]>(append, { initialValueFactory: () => [] }),
  } as any);

/** a, then b and four Sends side by side, then c, which asks. */
function graphOn(checkpointer: BaseCheckpointSaver, snapshotFrequency: number): any {
  return new StateGraph(State(snapshotFrequency))
    .addNode("a", () => both("a"))
    .addNode("b", async () => (await new Promise((resolve) => setImmediate(resolve)), both("b")))
    .addNode("w", ({ item }: any) => both(`w${item}`))
    .addNode("c", () => both(`c:${interrupt("c")}`))
    .addEdge(START, "a")
    .addEdge("a", "b")
    .addConditionalEdges("a", () => [1, 2, 3, 4].map((item) => new Send("w", { item })), ["w"])
    .addEdge("b", "c")
    .compile({ checkpointer });
}

/** All that is stored of a thread, but for ids: of each checkpoint what stands in it and its pending writes, in their order. */
async function stored(saver: BaseCheckpointSaver): Promise<unknown[]> {
  const tuples = await collect(saver.list(thread("t", { checkpoint_ns: "" })));
  const ids = tuples.map(({ checkpoint }) => checkpoint.id);
  return tuples
    .map(({ checkpoint, metadata, parentConfig, pendingWrites = [] }) => {
      const { channel_values: values, channel_versions: versions } = checkpoint;
      const { source, step, ...more } = metadata as unknown as Record<string, unknown>;
      delete more["thread_id"];
      return {
        source,
        step,
        more,
        parent: ids.indexOf(parentConfig?.configurable?.["checkpoint_id"] as string),
        values: Object.fromEntries(Object.entries(values).filter(([channel]) => Object.hasOwn(versions, channel))),
        writes: pendingWrites.map(([, channel, value]) => [channel, value]),
      };
    })
    .map(plain);
}

/** As JSON has it, without the ids of interrupts and what MemorySaver drops of LangGraph's classes. */
function plain(value: object): object {
  const dropped = ["id", "lg_name", "timeout"];
  return JSON.parse(JSON.stringify(value, (key, part: unknown) => (dropped.includes(key) ? undefined : part))) as object;
}

type Scenario = (graph: any, config: any) => Promise<unknown>;
const answer = (graph: any, config: any): Promise<unknown> => graph.invoke(new Command({ resume: "yes" }), config);
/** The checkpoint before the first of these nodes that any stands before: with durability "exit" only the last one of a run is there. */
const before = async (graph: any, ...names: string[]): Promise<any> => {
  const states: any[] = await collect(graph.getStateHistory(thread()));
  return names.flatMap((name) => states.filter(({ next }) => next.includes(name)))[0].config;
};

const scenarios: Record<string, Scenario> = {
  "two turns": async (graph, config) => {
    for (const turn of ["in1", "in2"]) {
      await graph.invoke(both(turn), config);
      await answer(graph, config);
    }
  },
  "updates of the head, which count as supersteps": async (graph, config) => {
    await graph.invoke(both("in"), config);
    await answer(graph, config);
    for (const n of [1, 2, 3, 4]) await graph.updateState(thread(), both(`U${n}`), "a");
    await graph.bulkUpdateState(thread(), [{ updates: [1, 2].map((n) => ({ values: both(`V${n}`), asNode: "a" })) }]);
    await graph.updateState(thread(), { delta: new Overwrite(["over"]), log: ["over"] }, "a");
  },
  "updates of a thread that is empty": async (graph, config) => {
    await graph.updateState(thread(), both("U"), "a");
    await graph.invoke(null, config);
    await answer(graph, config);
  },
  "edits of an older checkpoint": async (graph, config) => {
    await graph.invoke(both("in"), config);
    await answer(graph, config);
    const origin = await before(graph, "a", "c");
    for (const n of [1, 2])
      await graph.invoke(null, {
        ...(await graph.updateState(origin, both(`E${n}`), "__start__")),
        durability: config.durability,
      });
  },
  "time travel to an older checkpoint": async (graph, config) => {
    await graph.invoke(both("in"), config);
    await answer(graph, config);
    await graph.invoke(null, { ...(await before(graph, "b", "c")), durability: config.durability });
    await graph.invoke(both("on"), config);
  },
};

describe("contract: what a thread with delta channels stores is what MemorySaver stores", () => {
  const cases = Object.keys(scenarios).flatMap((name) =>
    ["async", "sync", "exit"].flatMap((durability) => [1000, 2].map((frequency) => [name, durability, frequency] as const)),
  );
  test.each(cases)("contract: S6.4 %s, durability %s, a snapshot every %d updates", async (name, durability, frequency) => {
    const [ours, theirs] = [open(), new MemorySaver()];
    for (const saver of [ours, theirs]) await scenarios[name]?.(graphOn(saver, frequency), { ...thread(), durability });
    const [found, wanted] = [await stored(ours), await stored(theirs)];
    // What LangGraph before 1.5 gave MemorySaver, it kept in the order of saving.
    if (passesTaskPaths) expect(found).toEqual(wanted);
    else expect(found.length).toBe(wanted.length);
    const flags = found.map((one: any) => one.more.delta_writes_versioned as unknown);
    const flagged = durability === "exit" ? flags.filter((flag) => flag !== undefined) : flags;
    expect(new Set(flagged)).toEqual(new Set(passesTaskPaths ? [true] : durability === "exit" ? [] : [undefined]));
  });
});

describe("contract: other things that newer LangGraph does", () => {
  test("contract: the writes of a cached node are saved as those of one that ran", async () => {
    const [ours, theirs] = [open(), new MemorySaver()];
    for (const checkpointer of [ours, theirs]) {
      let runs = 0;
      const graph: any = new StateGraph(State(1000))
        .addNode("a", () => both(`run ${++runs}`), { cachePolicy: { keyFunc: () => "one key" } })
        .addNode("h", () => both(`h:${interrupt("h")}`))
        .addEdge(START, "a")
        .addEdge(START, "h")
        .compile({ checkpointer, cache: new InMemoryCache() });
      await graph.invoke(both("1"), thread("first"));
      await graph.invoke(both("1"), thread());
      const pending = (await checkpointer.getTuple(thread()))?.pendingWrites ?? [];
      expect(pending.filter(([, channel]) => channel === "delta")).toHaveLength(passesTaskPaths ? 1 : 0);
      await graph.invoke(new Command({ resume: "yes" }), thread());
      const { log, delta } = (await graph.getState(thread())).values;
      // LangGraph before 1.5 didn't save them, so a channel that is rebuilt from writes has lost them.
      const whole = ["1", "h:yes", "run 1"];
      const rebuilt = passesTaskPaths ? whole : ["1", "h:yes"];
      expect([log, delta].map((list: string[]) => list.toSorted())).toEqual([whole, rebuilt]);
    }
    if (passesTaskPaths) expect(await stored(ours)).toEqual(await stored(theirs));
  });

  test.each([
    ["an id that isn't pending", new Command({ resume: { ["0".repeat(32)]: "lost" } }), {}],
    ["an empty map", new Command({ resume: {} }), {}],
    [
      "an id that isn't pending, strictly",
      new Command({ resume: { ["0".repeat(32)]: "lost" } }),
      { __pregel_strict_resume: true },
    ],
  ])("contract: an answer to %s ends as on MemorySaver, and leaves the question open", async (title, command, more) => {
    const outcomes: unknown[] = [];
    for (const checkpointer of [open(), new MemorySaver()]) {
      const graph = graphOn(checkpointer, 1000);
      await graph.invoke(both("in"), thread());
      const outcome = await graph.invoke(command, thread("t", more)).then(
        ({ log }: any) => ({ log }),
        ({ name }: any) => ({ name }),
      );
      const { next, tasks } = await graph.getState(thread());
      outcomes.push([outcome, next, tasks.flatMap(({ interrupts }: any) => interrupts.map(({ value }: any) => value))]);
    }
    expect(outcomes[0]).toEqual(outcomes[1]);
    if (title.endsWith("strictly") && passesTaskPaths)
      expect(outcomes[0]).toEqual([{ name: "UnknownInterruptError" }, ["c"], ["c"]]);
  });

  test("contract: a saver inside a config says its name to JSON.stringify and nothing else", () => {
    const saver = open({ encryption: { key: randomBytes(32) } });
    expect(JSON.stringify({ configurable: { __pregel_checkpointer: saver } })).toBe(
      '{"configurable":{"__pregel_checkpointer":"[TurnSaver]"}}',
    );
  });
});
