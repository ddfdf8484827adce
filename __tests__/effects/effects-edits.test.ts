import { randomBytes } from "node:crypto";
import { Annotation, Send, START, StateGraph } from "@langchain/langgraph";
import { effect, type TurnSaverOptions } from "langgraph-checkpoint-turns";
import { attached, closeAll, Deeds, fresh, line, Log, open, refusal, thread } from "../support/eff-world";

/** What becomes of effects when somebody edits the state they ran on (`updateState`) and resumes. */
const empty = { log: [] as string[] };
const pause = (ms: number) => new Promise((resolve) => setTimeout(resolve, ms));
const modes: [string, TurnSaverOptions][] = [
  ["plain", {}],
  ["encrypted", { encryption: { key: randomBytes(32) } }],
];
afterEach(closeAll);

/** The n-th result of a deed is `<deed>=<n>`, so that a result shows which deed it is of. */
function world(options: TurnSaverOptions = {}) {
  const deeds = new Deeds();
  const act = (deed: string, given: object = { input: deed }): Promise<string> =>
    effect(
      "act",
      () => {
        deeds.do(deed);
        return `${deed}=${deeds.count(deed)}`;
      },
      given,
    );
  return { deeds, act, saver: open(fresh(), options) };
}

/** How many nodes have finished, and what they wrote is saved. */
const actions = async (saver: ReturnType<typeof open>, of = ["a", "w"]): Promise<number> =>
  (await saver.turns.list("t")).filter(
    ({ turnType, durable, nodeName }) => turnType === "Action" && durable && of.includes(nodeName),
  ).length;

type Body = (state: { log: string[] }) => Promise<object>;

function besides(a: Body, b: Body) {
  return new StateGraph(Log)
    .addNode("init", () => ({}))
    .addNode("a", a)
    .addNode("b", b)
    .addEdge(START, "init")
    .addEdge("init", "a")
    .addEdge("init", "b");
}

describe("siblings of the failed node that had finished", () => {
  /** b fails when what a wrote is saved. The edit takes that in, and as it is made as the node before both, both run once more. */
  const broken = async (given?: object) => {
    const { deeds, act, saver } = world();
    const isSaved = () => actions(saver).then((saved) => saved === 1);
    let isBroken = true;
    const graph = saver.attach(
      besides(
        async () => ({ log: [await act("a", given)] }),
        async () => {
          while (isBroken && !(await isSaved())) await pause(5);
          if (isBroken) throw new Error("broken");
          return { log: ["b"] };
        },
      ).compile({ checkpointer: saver }),
    );
    await refusal(graph.invoke(empty, thread()));
    await graph.updateState(thread(), { log: ["edited"] }, "init");
    isBroken = false;
    return { saver, deeds, resume: () => graph.invoke(null, thread()) };
  };

  test("S4.4 their effects are not repeated when LangGraph runs them again", async () => {
    const { deeds, resume } = await broken();
    expect((await resume()).log).toEqual(["a=1", "edited", "a=1", "b"]);
    expect(deeds.lines()).toEqual(["a"]);
  });

  test("S4.4 without an input nobody knows, and it is refused until a person has said so", async () => {
    const { saver, deeds, resume } = await broken({});
    const error = await refusal(resume());
    expect(error).toMatchObject({ code: "EFFECT_IN_DOUBT" });
    expect(deeds.lines()).toEqual(["a"]);
    await saver.effects.resolve(String(error.data?.["effectId"]), { outcome: "history" });
    expect((await resume()).log).toEqual(["a=1", "edited", "a=2", "b"]);
  });

  test("S4.4 those that were sent find their effects by input, and of equal inputs by their place", async () => {
    const { deeds, act, saver } = world();
    let isBroken = true;
    const items = ["x", "same", "same", "y"];
    const graph = saver.attach(
      new StateGraph(Log)
        .addNode("split", () => ({}))
        .addNode("w", async ({ item, at }: { item: string; at: number }) => {
          // Each comes when those before it are done, so that the results tell who did which.
          while (isBroken && deeds.lines().length < at) await pause(5);
          const done = await act(item);
          while (isBroken && item === "y" && (await actions(saver)) < 3) await pause(5);
          if (isBroken && item === "y") throw new Error("broken");
          return { log: [`${at}:${done}`] };
        })
        .addEdge(START, "split")
        .addConditionalEdges("split", () => items.map((item, at) => new Send("w", { item, at })), ["w"])
        .compile({ checkpointer: saver }),
    );
    await refusal(graph.invoke(empty, thread()));
    await graph.updateState(thread(), { log: ["edited"] }, "split");
    isBroken = false;
    const { log } = await graph.invoke(null, thread());
    expect(log.slice(log.indexOf("edited"))).toEqual(["edited", "0:x=1", "1:same=1", "2:same=2", "3:y=1"]);
    expect(deeds.lines()).toHaveLength(4);
  });
});

describe("a node whose first effect is repaired", () => {
  const broken = async (given: object | undefined) => {
    const { deeds, act, saver } = world();
    let first = "wrong";
    const b = async () => {
      const log = [await act(first), await act("later", given)];
      if (first === "wrong") throw new Error("broken");
      return { log };
    };
    const graph = attached(saver, line({ a: () => ({}), b }));
    await refusal(graph.invoke(empty, thread()));
    await graph.updateState(thread(), { log: ["edited"] }, "a");
    first = "right";
    return { saver, deeds, resume: () => graph.invoke(null, thread()) };
  };

  test("S4.4 does not repeat those behind it", async () => {
    const { saver, deeds, resume } = await broken(undefined);
    expect((await resume()).log).toEqual(["edited", "right=1", "later=1"]);
    expect(deeds.lines()).toEqual(["wrong", "later", "right"]);
    await expect(saver.verify()).resolves.toMatchObject({ ok: true });
  });

  test("S4.4 is refused where nobody knows whether one behind it is the same side effect", async () => {
    const { deeds, resume } = await broken({});
    await expect(resume()).rejects.toMatchObject({ code: "EFFECT_IN_DOUBT" });
    expect(deeds.count("later")).toBe(1);
  });
});

describe("an edit made as the node itself", () => {
  const Visits = Annotation.Root({ ...Log.spec, visit: Annotation<number>({ reducer: (_, next) => next, default: () => 0 }) });

  /** A loop whose node fails behind its deed in one visit. */
  const loop = (options: TurnSaverOptions, broken: number) => {
    const { deeds, act, saver } = world(options);
    let isBroken = true;
    const graph = saver.attach(
      new StateGraph(Visits)
        .addNode("s", async ({ visit }) => {
          const done = await act("s", { input: "same" });
          if (isBroken && visit === broken) throw new Error("broken");
          return { visit: visit + 1, log: [done] };
        })
        .addNode("before", () => ({}))
        .addEdge(START, "before")
        .addEdge("before", "s")
        .addConditionalEdges("s", ({ visit }) => (visit < 3 ? "s" : "__end__"), ["s", "__end__"])
        .compile({ checkpointer: saver }),
    );
    return { deeds, graph, repair: () => (isBroken = false) };
  };

  test.each(modes.flatMap(([name, options]) => [0, 1].map((visit) => [name, visit, options] as const)))(
    "says that its visit has finished: the next one does its own side effect (%s, visit %i)",
    async (_, visit, options) => {
      const { deeds, graph, repair } = loop(options, visit);
      await refusal(graph.invoke(empty, thread()));
      await graph.updateState(thread(), { visit: visit + 1, log: ["by hand"] }, "s");
      // As nobody: a copy, which changes nothing.
      await graph.updateState(thread(), null);
      repair();
      const { log } = await graph.invoke(null, thread());
      const all = ["s=1", "s=2", "s=3"];
      expect(log).toEqual(all.map((done, at) => (at === visit ? "by hand" : done)));
      expect(deeds.lines()).toHaveLength(3);
    },
  );

  test.each(modes)("S4.4 one made as the node before it repairs the visit (%s)", async (_, options) => {
    const { deeds, graph, repair } = loop(options, 1);
    await refusal(graph.invoke(empty, thread()));
    await graph.updateState(thread(), { log: ["edited"] }, "before");
    repair();
    expect((await graph.invoke(null, thread())).log).toEqual(["s=1", "edited", "s=2", "s=3"]);
    expect(deeds.lines()).toHaveLength(3);
  });
});

describe("pruned behind an edit", () => {
  const broken = async (outcome: "done" | "in doubt") => {
    const { deeds, saver } = world();
    let isBroken = true;
    const pay = () => {
      deeds.do("pay");
      if (outcome === "in doubt") throw new Error("timeout");
    };
    const b = async () => {
      await effect("pay", pay, { input: 1, onError: "unknown" });
      if (isBroken) throw new Error("broken");
      return { log: ["b"] };
    };
    const graph = attached(saver, line({ a: () => ({}), b, c: () => ({}) }));
    await refusal(graph.invoke(empty, thread()));
    await graph.updateState(thread(), { log: ["edited"] }, "a");
    await graph.updateState(thread(), { log: ["twice"] }, "a");
    await saver.prune({ threadId: "t", keepLast: 1 });
    isBroken = false;
    return { saver, deeds, graph, resume: () => graph.invoke(null, thread()) };
  };

  test("S4.4 an effect that is done is found, and goes when the run from the edit has continued", async () => {
    const { saver, deeds, graph, resume } = await broken("done");
    expect((await resume()).log).toEqual(["edited", "twice", "b"]);
    expect(deeds.lines()).toEqual(["pay"]);
    await saver.prune({ threadId: "t", keepLast: 1 });
    const left = [];
    for await (const { next } of graph.getStateHistory(thread())) left.push(next);
    expect(left).toEqual([[]]);
    await expect(saver.effects.list("t")).resolves.toEqual([]);
    await expect(saver.verify()).resolves.toMatchObject({ ok: true });
  });

  test("S4.4 an effect in doubt stays in doubt", async () => {
    const { deeds, resume } = await broken("in doubt");
    await expect(resume()).rejects.toMatchObject({ code: "EFFECT_IN_DOUBT" });
    expect(deeds.lines()).toEqual(["pay"]);
  });
});
