import { StateGraph, Annotation, END, START } from "@langchain/langgraph";
import { TurnSaver } from "langgraph-checkpoint-turns";
import { live, threadId } from "../../torture/longevity/lives";
import { early, late } from "../../torture/longevity/measure";
import { dump, quiet } from "../support/s1-tools";
import { tempFile } from "../support/temp";

const savers: TurnSaver[] = [];
function open(options: ConstructorParameters<typeof TurnSaver>[1] = {}): { saver: TurnSaver; path: string } {
  const path = tempFile();
  const saver = TurnSaver.fromPath(path, { logger: quiet, ...options });
  savers.push(saver);
  return { saver, path };
}
afterEach(() => {
  for (const saver of savers.splice(0)) saver.close();
});

/** A loop of one node that awaits nothing. */
function counter(saver: TurnSaver, until: number) {
  const State = Annotation.Root({ n: Annotation<number> });
  const graph = new StateGraph(State)
    .addNode("step", ({ n }) => ({ n: n + 1 }))
    .addEdge(START, "step")
    .addConditionalEdges("step", ({ n }) => (n < until ? "step" : END))
    .compile({ checkpointer: saver });
  saver.attach(graph);
  return graph;
}
const at = (thread: string) => ({ configurable: { thread_id: thread }, recursionLimit: 10_000 });

describe("a run whose nodes wait for nothing", () => {
  test("leaves room for timers, so that heartbeats continue", async () => {
    const { saver } = open();
    let ticks = 0;
    const timer = setInterval(() => (ticks += 1), 1);
    await counter(saver, 150).invoke({ n: 0 }, at("t"));
    clearInterval(timer);
    expect(ticks).toBeGreaterThan(0);
  });

  test("S2.4 is pruned while it continues", async () => {
    const { saver, path } = open({ retention: { keepLast: 5 } });
    await counter(saver, 250).invoke({ n: 0 }, at("t"));
    // At once: what a later pruning would take away is still there.
    expect(dump(path)["langgraph_snapshots"]?.length).toBeLessThan(200);
  });
});

describe("thousands of threads, long threads", () => {
  test("S2.1 listThreads has each thread once, in order, also over pages", async () => {
    const { saver, path } = open({ synchronous: "normal" });
    await live("many", { saver, path, steps: 25, window: 5, threads: 1 });
    const names = Array.from({ length: 650 }, (_, index) => threadId("copy", index));
    for (const name of names) await saver.copyThread(threadId("many", 0), name);
    const listed: string[] = [];
    for (const { threadId: id, checkpoints } of await saver.listThreads()) {
      listed.push(id);
      expect(checkpoints).toBeGreaterThan(25);
    }
    expect(listed).toEqual([...names, threadId("many", 0)]);
  });

  test("S2.1 getStateHistory by pages is getStateHistory", async () => {
    const { saver } = open({ synchronous: "normal" });
    const graph = counter(saver, 230);
    await graph.invoke({ n: 0 }, at("t"));
    const whole: unknown[] = [];
    for await (const state of graph.getStateHistory(at("t")))
      whole.push([state.config.configurable?.["checkpoint_id"], state.values]);
    expect(whole).toHaveLength(232);
    const paged: unknown[] = [];
    let before: any;
    for (let isFull = true; isFull;) {
      const length = paged.length;
      for await (const state of graph.getStateHistory(at("t"), { limit: 50, before })) {
        paged.push([state.config.configurable?.["checkpoint_id"], state.values]);
        before = state.config;
      }
      isFull = paged.length === length + 50;
    }
    expect(paged).toEqual(whole);
  });

  test("memory does not grow with the number of steps", async () => {
    const { saver, path } = open({ synchronous: "normal", retention: { keepLast: 20 }, cacheSize: 1_000_000 });
    const { weights, steps } = await live("one", { saver, path, steps: 1_000, window: 50, threads: 1 });
    const [then, now] = [early, late].map((part) => part(weights, ({ memory }) => memory)) as [number, number];
    // 600 steps lie between: a step that left 10 KB behind would show.
    expect({ steps, grew: now - then > 6e6 }).toEqual({ steps: 1_000, grew: false });
  }, 300_000);
});
