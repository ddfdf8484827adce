import type { Runnable, RunnableConfig } from "@langchain/core/runnables";
import { Annotation, Command, interrupt, Send, START, StateGraph } from "@langchain/langgraph";
import fc from "fast-check";
import { effect } from "langgraph-checkpoint-turns";
import { setFailpointHandler } from "../../src/testing-internal";
import { closeAll, Deeds, fresh, open, thread } from "../support/eff-world";
import { runs } from "../support/lane";

/*
 * Several node tasks of one step visit a graph with `checkpointer: true`. Their checkpoints are in one namespace, and LangGraph resumes each
 * visit from the newest of them all.
 */
jest.setTimeout(300_000);

afterEach(() => {
  setFailpointHandler(undefined);
  closeAll();
});

const died = "as if the process had died";
const WAYS = ["is a node", "is called by a node"] as const;

interface Shape {
  way: (typeof WAYS)[number];
  items: string[];
  /** The items for which somebody is asked. */
  asked: string[];
  /** The items whose second node fails once. */
  failing: string[];
  /** All open questions are answered together. */
  isTogether: boolean;
}

const Kept = Annotation.Root({ item: Annotation<string>, mine: Annotation<string[]> });
const Around = Annotation.Root({
  item: Annotation<string>({ reducer: (_, next) => next, default: () => "" }),
  mine: Annotation<string[]>({ reducer: (one, other) => [...one, ...other], default: () => [] }),
});

function visited(path: string, { way, items, asked }: Shape, failing: Set<string>, ledger: Deeds) {
  const kept = new StateGraph(Kept)
    .addNode("s1", async ({ item }) => ({ mine: [await effect("s1", () => (ledger.do(`s1 ${item}`), `s1 ${item}`))] }))
    .addNode("s2", async ({ item, mine }) => {
      const answer = asked.includes(item) ? interrupt<string, string>(`${item}?`) : "";
      const done = await effect("s2", () => (ledger.do(`s2 ${item}`), `s2 ${item}${answer}`));
      if (failing.delete(item)) throw new Error(died);
      return { mine: [...mine, done] };
    })
    .addEdge(START, "s1")
    .addEdge("s1", "s2")
    .compile({ checkpointer: true });
  const call = async ({ item }: typeof Around.State, config: RunnableConfig) => ({
    mine: ((await kept.invoke({ item }, config)) as { mine: string[] }).mine,
  });
  const saver = open(path, { onTurnError: "throw" });
  const graph = new StateGraph(Around)
    .addNode("fan", () => ({}))
    .addNode("sub", (way === "is a node" ? kept : call) as Runnable)
    .addEdge(START, "fan")
    .addConditionalEdges("fan", () => items.map((item) => new Send("sub", { item })))
    .compile({ checkpointer: saver });
  return { saver, graph: saver.attach(graph) };
}

/** Runs to the end, answering each question with its own text. @returns the state at the end */
async function ran(path: string, shape: Shape, ledger: Deeds): Promise<string[]> {
  const failing = new Set(shape.failing);
  // LangGraph shows a question until its whole step is over.
  const answered = new Set<unknown>();
  for (let tries = 0; ; tries += 1) {
    expect(tries).toBeLessThan(40);
    const { saver, graph } = visited(path, shape, failing, ledger);
    try {
      const { values, tasks, metadata } = await graph.getState(thread());
      if (metadata !== undefined && (metadata.step ?? 0) > 0 && tasks.length === 0) return (values as typeof Around.State).mine;
      const open = tasks.flatMap(({ interrupts }) => interrupts).filter(({ id }) => !answered.has(id));
      const answers = open.slice(0, shape.isTogether ? open.length : 1).map(({ id, value }) => [id, `yes to ${value}`]);
      for (const [id] of answers) answered.add(id);
      const again = open.length === 0 ? null : new Command({ resume: Object.fromEntries(answers) });
      await graph.invoke((metadata === undefined ? { item: "" } : again) as never, thread());
    } catch (error) {
      const { errors = [error] } = error as { errors?: unknown[] };
      if (errors.some((one) => (one as Error).message !== died)) throw error;
      answered.clear();
    } finally {
      await (saver.close() as unknown);
    }
  }
}

const arbShape: fc.Arbitrary<Shape> = fc.integer({ min: 2, max: 4 }).chain((count) => {
  const items = ["A", "B", "C", "D"].slice(0, count);
  return fc.record({
    way: fc.constantFrom(...WAYS),
    items: fc.constant(items),
    asked: fc.subarray(items),
    failing: fc.subarray(items),
    isTogether: fc.boolean(),
  });
});
/** Before which commits the process ends: so many after the beginning, and so many after that. */
const arbEnds = fc.array(fc.integer({ min: 1, max: 60 }), { maxLength: 3 });

test("S2.8 S2.9 S4.1 property: each of the parallel visits is made once, with its own input and its own answer", async () => {
  const both = { items: ["A", "B"], asked: ["A", "B"], failing: [] };
  await fc.assert(
    fc.asyncProperty(arbShape, arbEnds, async (shape, [...left]) => {
      let passed = 0;
      setFailpointHandler((point) => {
        // An effect that isn't recorded is a matter of its own.
        if (!point.endsWith(".before") || point.startsWith("effect") || ++passed !== left[0]) return;
        passed = 0;
        left.shift();
        throw new Error(died);
      });
      const ledger = new Deeds();
      const mine = await ran(fresh(), shape, ledger);
      const wanted = shape.items.flatMap((item) => [
        `s1 ${item}`,
        `s2 ${item}${shape.asked.includes(item) ? `yes to ${item}?` : ""}`,
      ]);
      expect(mine).toEqual(wanted);
      for (const item of shape.items) expect([ledger.count(`s1 ${item}`), ledger.count(`s2 ${item}`)]).toEqual([1, 1]);
    }),
    {
      numRuns: runs(25, 400),
      examples: WAYS.flatMap((way): [Shape, number[]][] => [
        [{ way, ...both, isTogether: true }, []],
        [{ way, ...both, isTogether: false }, []],
        [{ way, ...both, asked: [], failing: ["A"], isTogether: true }, []],
        [{ way, ...both, asked: ["B"], failing: ["A"], isTogether: true }, []],
      ]),
    },
  );
});

test("S2.8 a visit that was edited while another waits continues from the edit", async () => {
  const [path, ledger] = [fresh(), new Deeds()];
  const shape: Shape = { way: "is a node", items: ["A", "B"], asked: ["A", "B"], failing: [], isTogether: true };
  const { saver, graph } = visited(path, shape, new Set(), ledger);
  await graph.invoke({ item: "" }, thread());
  const ns = { ...thread().configurable, checkpoint_ns: "sub" };
  const newest = await saver.getTuple({ configurable: ns });
  const { mine: [first = ""] = [] } = (newest?.checkpoint.channel_values ?? {}) as { mine?: string[] };
  await graph.updateState({ configurable: ns }, { mine: [`${first} edited`] }, "s1");
  const { tasks } = await graph.getState(thread());
  const answers = tasks.flatMap(({ interrupts }) => interrupts).map(({ id, value }) => [id, value]);
  await graph.invoke(new Command({ resume: Object.fromEntries(answers) }), thread());
  const rest = await graph.getState(thread());
  const open = rest.tasks.flatMap(({ interrupts }) => interrupts).map(({ id, value }) => [id, value]);
  if (open.length > 0) await graph.invoke(new Command({ resume: Object.fromEntries(open) }), thread());
  const { mine } = (await graph.getState(thread())).values as { mine: string[] };
  expect(mine).toEqual(
    ["A", "B"].flatMap((item) => [`s1 ${item}${first === `s1 ${item}` ? " edited" : ""}`, `s2 ${item}${item}?`]),
  );
});
