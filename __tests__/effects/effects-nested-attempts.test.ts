import { entrypoint, task } from "@langchain/langgraph";
import { effect, type EffectOptions } from "langgraph-checkpoint-turns";
import { attached, closeAll, Deeds, fresh, line, open, thread } from "../support/eff-world";

afterEach(closeAll);

const empty = { log: [] as string[] };
const retryPolicy = { maxAttempts: 3, initialInterval: 1, jitter: false, retryOn: () => true, logWarning: false };
const kinds: [string, EffectOptions<unknown>][] = [
  ["input", { input: { cents: 5 } }],
  ["id", { id: "pay" }],
  ["neither", {}],
];

describe("S2.9 a node inside a subgraph is tried again in the same process, and calls a graph that keeps nothing", () => {
  test.each(kinds)("effects of that graph are not repeated (%s)", async (_, given) => {
    const deeds = new Deeds();
    const saver = open(fresh());
    const called = line({ pays: () => effect("pay", () => deeds.do("pay"), given).then(() => ({})) });
    let failed = false;
    const retried = async () => {
      await called.compile({ checkpointer: false }).invoke(empty);
      if (failed) return { log: ["ended"] };
      failed = true;
      throw new Error("first attempt");
    };
    const inner = line({ before: () => ({}), retried }, { retried: { retryPolicy } });
    const graph = attached(saver, line({ sub: inner.compile() as never }));
    await graph.invoke(empty, thread());
    expect([deeds.count("pay"), (await saver.effects.list("t")).length]).toEqual([1, 1]);
  });

  test.each(kinds)('nor with durability "exit", which keeps nothing of a graph that has ended (%s)', async (_, given) => {
    const deeds = new Deeds();
    const saver = open(fresh());
    const called = line({ pays: () => effect("pay", () => deeds.do("pay"), given).then(() => ({})) }).compile();
    let failed = false;
    const retried = async () => {
      await called.invoke(empty);
      if (failed) return { log: ["ended"] };
      failed = true;
      throw new Error("first attempt");
    };
    const graph = attached(saver, line({ sub: line({ retried }, { retried: { retryPolicy } }).compile() as never }));
    await graph.invoke(empty, { ...thread(), durability: "exit" });
    expect(deeds.count("pay")).toBe(1);
  });

  test.each(kinds)("nor are they where a functional task, or one that it calls, is tried again (%s)", async (_, given) => {
    for (const durability of ["async", "exit"] as const) {
      for (const isNested of [false, true]) {
        const deeds = new Deeds();
        const saver = open(fresh());
        const called = line({ pays: () => effect("pay", () => deeds.do("pay"), given).then(() => ({})) });
        let failed = false;
        const retried = task({ name: "retried", retry: retryPolicy }, async () => {
          await called.compile({ checkpointer: false }).invoke(empty);
          await called.compile({ checkpointer: false }).invoke(empty);
          if (failed) return "ended";
          failed = true;
          throw new Error("first attempt");
        });
        const outer = task("outer", () => retried());
        const flow = entrypoint({ name: "flow", checkpointer: saver }, async (_input: unknown) =>
          isNested ? outer() : retried(),
        );
        saver.attach(flow);
        expect(await flow.invoke(empty, { ...thread(), durability })).toBe("ended");
        expect([deeds.count("pay"), (await saver.effects.list("t")).length]).toEqual([2, 2]);
      }
    }
  });

  test.each(kinds)('each visit of such a node does its deed, also with durability "exit" (%s)', async (_, given) => {
    for (const durability of ["async", "exit"] as const) {
      const deeds = new Deeds();
      const called = line({ pays: () => effect("pay", () => deeds.do("pay"), given).then(() => ({})) });
      let visits = 0;
      const visited = async () => {
        await called.compile({ checkpointer: false }).invoke(empty);
        visits += 1;
        return { log: ["visited"] };
      };
      const inner = line({ visited });
      inner.addConditionalEdges("visited", () => (visits < 3 ? "visited" : "__end__"));
      const graph = attached(open(fresh()), line({ sub: inner.compile() as never }));
      await graph.invoke(empty, { ...thread(), durability });
      expect(deeds.count("pay")).toBe(3);
    }
  });
});

describe("S2.9 a graph that a functional task calls, when another process continues in the middle of a loop", () => {
  test.each(kinds)("the next visit does its side effect, and is not taken for one of a lost run (%s)", async (_, given) => {
    const deeds = new Deeds();
    const path = fresh();
    // Each process has its own; only deeds are outside.
    const flowOf = (dies: boolean) => {
      const saver = open(path);
      const called = line({
        pays: async () => effect("pay", () => deeds.do("pay"), given).then(() => ({ log: ["paid"] })),
        rests: () => {
          if (dies) throw new Error("the process ends");
          return {};
        },
      });
      called.addConditionalEdges("rests", (state: { log: string[] }) => (state.log.length < 2 ? "pays" : "__end__"));
      const graph = called.compile();
      const calls = task("calls", async () => graph.invoke(empty));
      const flow = entrypoint({ name: "flow", checkpointer: saver }, async (_input: unknown) => (await calls()).log.length);
      saver.attach(flow);
      return flow;
    };
    await expect(flowOf(true).invoke(empty, thread())).rejects.toThrow("the process ends");
    expect(deeds.count("pay")).toBe(1);
    expect(await flowOf(false).invoke(null, thread())).toBe(2);
    expect(deeds.count("pay")).toBe(2);
  });
});
