import { Annotation, entrypoint, Send, START, StateGraph, task } from "@langchain/langgraph";
import { InMemoryCache } from "@langchain/langgraph-checkpoint";
import { defineEffect, GraphRunner, type TurnSaver } from "langgraph-checkpoint-turns";
import { closeAll, fresh, open } from "../support/eff-world";

afterEach(closeAll);

type RunnableGraph = ConstructorParameters<typeof GraphRunner>[0];

const State = Annotation.Root({
  x: Annotation<number>(),
  sent: Annotation<string[]>({ reducer: (left, right) => left.concat(right), default: () => [] }),
});
type Values = typeof State.State;

/** The letters that are out: sent, and not recalled. */
const out = new Set<string>();
const letter = defineEffect("cached-letter", {
  run: (_: { x: number }, { key }) => {
    out.add(key);
    return key;
  },
  undo: ({ key }) => void out.delete(key),
});
const sends = async ({ x }: Pick<Values, "x">) => ({ sent: [await letter({ x })] });
/** By `x` alone: the state around it differs between the runs. */
const cachePolicy = { keyFunc: (args: unknown[]) => String((args[0] as Values).x) };

/** A node that sends a letter, in each place that LangGraph's cache knows. */
const shapes: Record<string, (saver: TurnSaver) => RunnableGraph> = {
  "a node": (saver) =>
    new StateGraph(State)
      .addNode("a", sends, { cachePolicy })
      .addEdge(START, "a")
      .compile({ checkpointer: saver, cache: new InMemoryCache() }),
  "a node that a Send starts": (saver) =>
    new StateGraph(State)
      .addNode("a", sends, { cachePolicy })
      .addConditionalEdges(START, ({ x }) => [new Send("a", { x })], ["a"])
      .compile({ checkpointer: saver, cache: new InMemoryCache() }),
  "a node of a subgraph, with its own cache": (saver) => {
    const inner = new StateGraph(State).addNode("i", sends, { cachePolicy }).addEdge(START, "i");
    return new StateGraph(State)
      .addNode("a", inner.compile({ cache: new InMemoryCache() }))
      .addEdge(START, "a")
      .compile({ checkpointer: saver });
  },
  "a node of a graph that a node calls": (saver) => {
    const inner = new StateGraph(State).addNode("i", sends, { cachePolicy }).addEdge(START, "i");
    const called = inner.compile({ cache: new InMemoryCache() });
    return new StateGraph(State)
      .addNode("a", async ({ x }) => ({ sent: (await called.invoke({ x })).sent }))
      .addEdge(START, "a")
      .compile({ checkpointer: saver });
  },
  "a node around a subgraph": (saver) =>
    new StateGraph(State)
      .addNode("a", new StateGraph(State).addNode("i", sends).addEdge(START, "i").compile(), { cachePolicy })
      .addEdge(START, "a")
      .compile({ checkpointer: saver, cache: new InMemoryCache() }),
  "a task": (saver) => {
    const sending = task({ name: "sending", cachePolicy: { keyFunc: ([x]: unknown[]) => String(x) } }, async (x: number) =>
      letter({ x }),
    );
    return entrypoint({ name: "flow", checkpointer: saver, cache: new InMemoryCache() }, async ({ x }: Values) => ({
      sent: [await sending(x)],
    }));
  },
  "a task around a task": (saver) => {
    const sending = task("sending", async (x: number) => letter({ x }));
    const around = task({ name: "around", cachePolicy: { keyFunc: ([x]: unknown[]) => String(x) } }, async (x: number) =>
      sending(x),
    );
    return entrypoint({ name: "flow", checkpointer: saver, cache: new InMemoryCache() }, async ({ x }: Values) => ({
      sent: [await around(x)],
    }));
  },
};

describe("effects and LangGraph's cache", () => {
  beforeEach(() => out.clear());

  test.each(Object.keys(shapes))("S3.5 after a rewind, the next run sends the letter again: %s", async (shape) => {
    const saver = open(fresh());
    const runner = new GraphRunner(shapes[shape]?.(saver) as RunnableGraph);
    const run = async (x: number, taskId: string) => (await runner.invoke({ x }, { threadId: "t", taskId })) as unknown as Values;
    await run(0, "zero");
    await run(1, "one");
    expect(out.size).toBe(2);
    await runner.rewind({ threadId: "t", toTask: "zero" });
    expect(out.size).toBe(1);
    const { sent } = await run(1, "again");
    expect(out.size).toBe(2);
    expect(out.has(sent.at(-1) ?? "")).toBe(true);
    expect((await saver.effects.list("t")).map(({ status }) => status)).toEqual(["done", "done"]);
  });

  test("S3.4 after a gate's rollback, a cached sibling sends its letter again", async () => {
    const saver = open(fresh());
    let drafts = 0;
    const graph = new StateGraph(State)
      .addNode("p", () => ({}))
      .addNode("a", sends, { cachePolicy: true })
      .addNode("b", () => ({ x: ++drafts }))
      .addEdge(START, "p")
      .addEdge("p", "a")
      .addEdge("p", "b")
      .compile({ checkpointer: saver, cache: new InMemoryCache() });
    const runner = new GraphRunner(graph, {
      nodes: { b: { validate: () => (drafts < 2 ? 0.1 : 1), onFailure: "rollback" } },
    });
    const { sent } = await runner.invoke({ x: 0 }, { threadId: "t" });
    expect(drafts).toBe(2);
    expect([...out]).toEqual(sent);
  });

  test.each(["node", "task"])("S3.5 a %s whose inner work an earlier process did isn't cached either", async (kind) => {
    const path = fresh();
    const cache = new InMemoryCache();
    let fails = false;
    const after = (): object => {
      if (fails) throw new Error("the first time");
      return {};
    };
    const build = (saver: TurnSaver): RunnableGraph => {
      if (kind === "node") {
        const inner = new StateGraph(State)
          .addNode("i", sends)
          .addNode("j", after)
          .addEdge(START, "i")
          .addEdge("i", "j")
          .compile();
        return new StateGraph(State)
          .addNode("a", inner, { cachePolicy })
          .addEdge(START, "a")
          .compile({ checkpointer: saver, cache });
      }
      const sending = task("sending", async (x: number) => letter({ x }));
      const around = task({ name: "around", cachePolicy: { keyFunc: ([x]: unknown[]) => String(x) } }, async (x: number) => {
        const sent = await sending(x);
        after();
        return sent;
      });
      return entrypoint({ name: "flow", checkpointer: saver, cache }, async ({ x }: Values) => ({ sent: [await around(x)] }));
    };
    const first = open(path);
    const begins = new GraphRunner(build(first));
    await begins.invoke({ x: 0 }, { threadId: "t", taskId: "zero" });
    fails = true;
    await expect(begins.invoke({ x: 1 }, { threadId: "t", taskId: "one" })).rejects.toThrow("the first time");
    fails = false;
    first.close();
    const runner = new GraphRunner(build(open(path)));
    await runner.resume({ threadId: "t" });
    expect(out.size).toBe(2);
    await runner.rewind({ threadId: "t", toTask: "zero" });
    await runner.invoke({ x: 1 }, { threadId: "t", taskId: "again" });
    expect(out.size).toBe(2);
  });

  test("S2.9 a node without effects that a resume continues is cached", async () => {
    const saver = open(fresh());
    let ran = 0;
    const fails = (): object => {
      if (++ran === 1) throw new Error("the first time");
      return {};
    };
    const graph = new StateGraph(State)
      .addNode("a", fails, { cachePolicy })
      .addEdge(START, "a")
      .compile({ checkpointer: saver, cache: new InMemoryCache() });
    const runner = new GraphRunner(graph);
    await expect(runner.invoke({ x: 1 }, { threadId: "t1" })).rejects.toThrow("the first time");
    await runner.resume({ threadId: "t1" });
    await runner.invoke({ x: 1 }, { threadId: "t2" });
    expect(ran).toBe(2);
  });

  test("S3.4 an output from the cache isn't scored, and has no turn", async () => {
    const saver = open(fresh());
    let scored = 0;
    const graph = new StateGraph(State)
      .addNode("a", () => ({}), { cachePolicy })
      .addNode("b", () => ({}))
      .addEdge(START, "a")
      .addEdge("a", "b")
      .compile({ checkpointer: saver, cache: new InMemoryCache() });
    const runner = new GraphRunner(graph, { nodes: { a: { validate: () => (++scored, 1), onFailure: "throw" } } });
    await runner.invoke({ x: 1 }, { threadId: "t1" });
    await runner.invoke({ x: 1 }, { threadId: "t2" });
    expect(scored).toBe(1);
    expect((await runner.status("t2")).completed.map(({ nodeName }) => nodeName)).toEqual(["b"]);
  });

  test("S2.9 nodes and tasks without effects are taken from the cache, beside one with effects", async () => {
    const saver = open(fresh());
    const ran: string[] = [];
    const plain = (name: string) => () => {
      ran.push(name);
      return {};
    };
    const inner = new StateGraph(State).addNode("i", plain("i"), { cachePolicy }).addEdge(START, "i");
    const graph = new StateGraph(State)
      .addNode("a", sends, { cachePolicy })
      .addNode("b", plain("b"), { cachePolicy })
      .addNode("c", inner.compile({ cache: new InMemoryCache() }))
      .addNode("d", new StateGraph(State).addNode("j", plain("j")).addEdge(START, "j").compile(), { cachePolicy })
      .addEdge(START, "a")
      .addEdge("a", "b")
      .addEdge("b", "c")
      .addEdge("c", "d")
      .compile({ checkpointer: saver, cache: new InMemoryCache() });
    const runner = new GraphRunner(graph);
    await runner.invoke({ x: 1 }, { threadId: "t1" });
    await runner.invoke({ x: 1 }, { threadId: "t2" });
    expect(ran.toSorted()).toEqual(["b", "i", "j"]);
    expect(out.size).toBe(2);

    let calls = 0;
    const counting = task({ name: "counting", cachePolicy: {} }, async (x: number) => x + ++calls);
    const sending = task("sending", async (x: number) => letter({ x }));
    const flow = entrypoint({ name: "flow", checkpointer: saver, cache: new InMemoryCache() }, async (x: number) => [
      await counting(x),
      await sending(x),
    ]);
    const flows = new GraphRunner(flow);
    expect((await flows.invoke(1, { threadId: "f1" }))[0]).toBe(2);
    expect((await flows.invoke(1, { threadId: "f2" }))[0]).toBe(2);
    expect(out.size).toBe(4);
  });
});
