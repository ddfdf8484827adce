import type { Runnable, RunnableConfig } from "@langchain/core/runnables";
import { Annotation, Command, END, interrupt, START, StateGraph } from "@langchain/langgraph";
import fc from "fast-check";
import { effect, type EffectOptions } from "langgraph-checkpoint-turns";
import { type Failpoint, setFailpointHandler } from "../../src/testing-internal";
import { runs } from "../support/lane";
import { closeAll, Deeds, fresh, open, thread } from "../support/eff-world";

jest.setTimeout(300_000);

afterEach(() => {
  setFailpointHandler(undefined);
  closeAll();
});

const input = { seed: 1 };
const died = "as if the process had died";

/** The n-th time that a node (or whatever) passes a place it fails, as if the process had ended there: what was saved by then stays. */
function dieAt(place: Failpoint, node: string | undefined, n: number): void {
  let passed = 0;
  setFailpointHandler((point, details) => {
    if (point === place && details.node === node && ++passed === n) throw new Error(died);
  });
}

const Inner = Annotation.Root({ seed: Annotation<number> });
const Outer = Annotation.Root({
  seed: Annotation<number>,
  visits: Annotation<number>({ reducer: (a, b) => a + b, default: () => 0 }),
});

/** How a graph gets to the one inside it: as its node, or by a call in a node's body. */
const WAYS = ["is a node", "is called by a node"] as const;
type Way = (typeof WAYS)[number];

/** Two visits to a graph of s1 and s2 that keeps its state; `depth` such graphs lie inside each other, sub1 the outermost. */
function loop(path: string, ran: string[], depth = 1, options = {}, way: Way = "is a node") {
  const note = (name: string) => () => (ran.push(name), {});
  let graph: any = new StateGraph(Inner).addNode("s1", note("s1")).addNode("s2", note("s2"));
  graph.addEdge(START, "s1").addEdge("s1", "s2");
  for (let level = depth; level > 0; level -= 1) {
    const [name, inner] = [`sub${level}`, graph.compile({ checkpointer: true })];
    graph = new StateGraph(level === 1 ? Outer : (Inner as never))
      .addNode(name, way === "is a node" ? inner : called(inner), level === 1 ? options : {})
      .addEdge(START, name);
  }
  graph.addNode("again", () => ({ visits: 1 })).addEdge("sub1", "again");
  graph.addConditionalEdges("again", ({ visits }: { visits: number }) => (visits < 2 ? "sub1" : END), ["sub1", END]);
  const saver = open(path, { onTurnError: "throw" });
  return saver.attach(graph.compile({ checkpointer: saver })) as Runnable;
}

function called(graph: Runnable) {
  return async ({ seed }: typeof Inner.State, config: RunnableConfig) => ({ seed: (await graph.invoke({ seed }, config)).seed });
}

const empties = { s1: 0, s2: 0 };
const counted = (ran: string[]) => ran.reduce((counts, name) => ({ ...counts, [name]: counts[name as "s1"] + 1 }), empties);

const CASES = WAYS.flatMap((way) => [1, 2, 3].map((depth) => [way, depth] as const));

describe("S2.8 a graph with checkpointer: true that is visited again, in a resume", () => {
  test.each(CASES)(
    "a visit that had saved nothing is made: the end of the one before is not its own (%s, %i deep)",
    async (way, depth) => {
      const path = fresh();
      const ran: string[] = [];
      dieAt("thought.before", `sub${depth}`, 2);
      await expect(loop(path, ran, depth, {}, way).invoke(input, thread())).rejects.toThrow(died);
      setFailpointHandler(undefined);
      expect(counted(ran)).toEqual({ s1: 1, s2: 1 });
      await loop(path, ran, depth, {}, way).invoke(null, thread());
      expect(counted(ran)).toEqual({ s1: 2, s2: 2 });
    },
  );

  test.each(CASES)("a visit in its midst continues there (%s, %i deep)", async (way, depth) => {
    const path = fresh();
    const ran: string[] = [];
    dieAt("thought.before", "s2", 2);
    await expect(loop(path, ran, depth, {}, way).invoke(input, thread())).rejects.toThrow(died);
    setFailpointHandler(undefined);
    expect(counted(ran)).toEqual({ s1: 2, s2: 1 });
    await loop(path, ran, depth, {}, way).invoke(null, thread());
    expect(counted(ran)).toEqual({ s1: 2, s2: 2 });
  });

  test.each(CASES)("a visit that had finished, though its node had not, is not made again (%s, %i deep)", async (way, depth) => {
    const path = fresh();
    const ran: string[] = [];
    // A visit's writes: what each graph begins with, what s1 and s2 came to, and what each graph did. The run's input is before, `again` between.
    dieAt("writes.before", undefined, 2 + 2 * (2 + 2 * depth));
    await expect(loop(path, ran, depth, {}, way).invoke(input, thread())).rejects.toThrow(died);
    setFailpointHandler(undefined);
    expect(counted(ran)).toEqual({ s1: 2, s2: 2 });
    await loop(path, ran, depth, {}, way).invoke(null, thread());
    expect(counted(ran)).toEqual({ s1: 2, s2: 2 });
  });

  test.each(WAYS)("a retry in the same process makes the visit that its first attempt did not come to (%s)", async (way) => {
    const ran: string[] = [];
    dieAt("thought.before", "sub1", 2);
    const retryPolicy = { maxAttempts: 2, initialInterval: 1, jitter: false, retryOn: () => true, logWarning: false };
    await loop(fresh(), ran, 1, { retryPolicy }, way).invoke(input, thread());
    expect(counted(ran)).toEqual({ s1: 2, s2: 2 });
  });
});

describe("S2.8 a graph with checkpointer: true whose question nobody has answered", () => {
  const asking = (path: string, way: Way) => {
    const ask = ({ seed }: typeof Inner.State) => ({ seed: interrupt<string, number>(`${seed}?`) });
    const inner = new StateGraph(Inner).addNode("ask", ask).addEdge(START, "ask").compile({ checkpointer: true });
    const builder = new StateGraph(Inner).addNode("sub1", way === "is a node" ? inner : called(inner)).addEdge(START, "sub1");
    const saver = open(path, { onTurnError: "throw" });
    return saver.attach(builder.compile({ checkpointer: saver }));
  };
  const questions = async (graph: ReturnType<typeof asking>) =>
    (await graph.getState(thread())).tasks.flatMap(({ interrupts }) => interrupts.map(({ value }) => value as string));

  test.each(WAYS)("gets new input, also if the process dies before it has saved any of it (it %s)", async (way) => {
    const path = fresh();
    await asking(path, way).invoke({ seed: 1 }, thread());
    dieAt("thought.before", "sub1", 1);
    await expect(asking(path, way).invoke({ seed: 2 }, thread())).rejects.toThrow(died);
    setFailpointHandler(undefined);
    await asking(path, way).invoke(null, thread());
    expect(await questions(asking(path, way))).toEqual(["2?"]);
    expect(await asking(path, way).invoke(new Command({ resume: 3 }), thread())).toEqual({ seed: 3 });
  });

  test.each(WAYS)("is still asked after an update of the state around it (it %s)", async (way) => {
    const path = fresh();
    await asking(path, way).invoke({ seed: 1 }, thread());
    for (const seed of [4, 5]) await asking(path, way).updateState(thread(), { seed }, START);
    expect(await questions(asking(path, way))).toEqual([]);
    expect(await asking(path, way).invoke(new Command({ resume: 3 }), thread())).toEqual({ seed: 3 });
  });
});

describe("S2.8 property: three visits to a graph that keeps its state, while processes end before any commits", () => {
  const Kept = Annotation.Root({
    round: Annotation<number>,
    seen: Annotation<string[]>({ reducer: (a, b) => [...a, ...b], default: () => [] }),
  });
  const Around = Annotation.Root({ round: Annotation<number> });
  const ROUNDS = 3;

  /** sub1, with sub2 in it if it's two deep. Its nodes s1 and s2 say in which round they ran; s2 may ask whether it may. */
  const kept = (path: string, way: Way, depth: number, asks: boolean) => {
    const say = (name: string, isAsked: boolean) => (state: typeof Kept.State) => {
      const answer = isAsked ? interrupt<string, string>(`${state.round}?`) : "";
      return { seen: [`${name} ${state.round}${answer}`] };
    };
    let graph: any = new StateGraph(Kept).addNode("s1", say("s1", false)).addNode("s2", say("s2", asks));
    graph.addEdge(START, "s1").addEdge("s1", "s2");
    for (let level = depth; level > 0; level -= 1) {
      const inner: Runnable = graph.compile({ checkpointer: true });
      const call = async ({ round }: typeof Around.State, config: RunnableConfig) => (await inner.invoke({ round }, config), {});
      graph = new StateGraph(Around).addNode(`sub${level}`, way === "is a node" ? inner : call).addEdge(START, `sub${level}`);
    }
    graph.addNode("next", ({ round }: typeof Around.State) => ({ round: round + 1 })).addEdge("sub1", "next");
    graph.addConditionalEdges("next", ({ round }: typeof Around.State) => (round <= ROUNDS ? "sub1" : END), ["sub1", END]);
    const saver = open(path, { onTurnError: "throw" });
    return { saver, graph: saver.attach(graph.compile({ checkpointer: saver })) };
  };

  /** Runs to the end, answering each question with its own text. @returns what the kept state says */
  async function ran(path: string, ...[way, depth, asks]: [Way, number, boolean]): Promise<string[]> {
    for (;;) {
      const { saver, graph } = kept(path, way, depth, asks);
      try {
        const { metadata, tasks } = await graph.getState(thread());
        if (metadata?.step > 0 && tasks.length === 0) {
          const ns = depth === 1 ? "sub1" : "sub1|sub2";
          const tuple = await saver.getTuple({ configurable: { ...thread().configurable, checkpoint_ns: ns } });
          return tuple?.checkpoint.channel_values["seen"] as string[];
        }
        const [question] = tasks.flatMap(({ interrupts }: { interrupts: { value: string }[] }) => interrupts);
        const again = question === undefined ? null : new Command({ resume: question.value });
        await graph.invoke(metadata === undefined ? { round: 1 } : again, thread());
      } catch (error) {
        if ((error as Error).message !== died) throw error;
      } finally {
        await (saver.close() as unknown);
      }
    }
  }

  const shape = fc.record({ way: fc.constantFrom(...WAYS), depth: fc.integer({ min: 1, max: 2 }), asks: fc.boolean() });
  /** Before which commits the process ends: so many after the beginning, and so many after that. */
  const ends = fc.array(fc.integer({ min: 1, max: 60 }), { minLength: 1, maxLength: 3 });

  test("each visit is made once, with its own input", async () => {
    await fc.assert(
      fc.asyncProperty(shape, ends, async ({ way, depth, asks }, [...left]) => {
        let passed = 0;
        setFailpointHandler((point) => {
          if (!point.endsWith(".before") || ++passed !== left[0]) return;
          passed = 0;
          left.shift();
          throw new Error(died);
        });
        const rounds = Array.from({ length: ROUNDS }, (_, index) => index + 1);
        const wanted = rounds.flatMap((round) => [`s1 ${round}`, `s2 ${round}${asks ? `${round}?` : ""}`]);
        expect(await ran(fresh(), way, depth, asks)).toEqual(wanted);
      }),
      { numRuns: runs(16, 300) },
    );
  });
});

describe("S2.9 a graph with checkpointer: true in the loop of a graph around it, with a person asked between its visits", () => {
  const kinds: [string, EffectOptions<unknown>][] = [
    ["input", { input: { cents: 5 } }],
    ["id", { id: "pay" }],
    ["neither", {}],
  ];
  const places = [{}, { checkpointer: true as const }];
  test.each(kinds.flatMap(([name, given]) => places.map((place) => [name, JSON.stringify(place), given, place] as const)))(
    "each visit does its side effect, once (%s, around it %s)",
    async (_name, _place, given, place) => {
      const deeds = new Deeds();
      const path = fresh();
      const graphOf = () => {
        const pays = async () => (await effect("pay", () => deeds.do("pay"), given), {});
        const keeping = new StateGraph(Inner).addNode("pays", pays).addEdge(START, "pays");
        const around = new StateGraph(Outer)
          .addNode("keeping", keeping.compile({ checkpointer: true }))
          .addNode("asks", () => ({ visits: interrupt<string, number>("how many?") }))
          .addEdge(START, "keeping")
          .addEdge("keeping", "asks")
          .addConditionalEdges("asks", ({ visits }) => (visits < 3 ? "keeping" : END), ["keeping", END]);
        const saver = open(path);
        const graph = new StateGraph(Inner).addNode("around", around.compile(place)).addEdge(START, "around");
        return saver.attach(graph.compile({ checkpointer: saver }));
      };
      await graphOf().invoke(input, thread());
      for (let visits = 1; visits <= 3; visits += 1) {
        expect(deeds.count("pay")).toBe(visits);
        await graphOf().invoke(new Command({ resume: 1 }), thread());
      }
      expect(deeds.count("pay")).toBe(3);
    },
  );
});
