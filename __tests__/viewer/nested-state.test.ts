import { Annotation, END, Send, START, StateGraph } from "@langchain/langgraph";
import { blameOf, branchesOf, differenceBetween, logOf, showTurn, stateAt } from "../../src/testing-internal";
import { openSaver } from "../support/open-saver";
import { tempFile } from "../support/temp";

/* What the state is at a turn of a graph within a graph, and who wrote it there. */

const merged = (left: string[], right: string[]): string[] => [...left, ...right];
const Outer = Annotation.Root({
  topics: Annotation<string[]>(),
  found: Annotation<string[]>({ reducer: merged, default: () => [] }),
});
const Inner = Annotation.Root({
  topic: Annotation<string>(),
  query: Annotation<string>(),
  found: Annotation<string[]>({ reducer: merged, default: () => [] }),
});

/** Two researches side by side, each a graph of two nodes. */
async function researched(durability: "sync" | "exit" = "sync") {
  const saver = openSaver(tempFile());
  const inner = new StateGraph(Inner)
    .addNode("ask", ({ topic }) => ({ query: `${topic}?` }))
    .addNode("read", ({ query }) => ({ found: [`on ${query}`] }))
    .addEdge(START, "ask")
    .addEdge("ask", "read")
    .addEdge("read", END)
    .compile();
  const graph = new StateGraph(Outer)
    .addNode("plan", () => ({ topics: ["wind", "rain"] }))
    .addNode("research", inner)
    .addNode("write", () => ({}))
    .addEdge(START, "plan")
    .addConditionalEdges("plan", ({ topics }) => topics.map((topic) => new Send("research", { topic })))
    .addEdge("research", "write")
    .addEdge("write", END)
    .compile({ checkpointer: saver });
  await saver.attach(graph).invoke({}, { configurable: { thread_id: "t" }, durability });
  const { attempts } = await logOf(saver, "t");
  const of = (node: string): number[] =>
    attempts
      .filter((attempt) => attempt.node === node)
      .map(({ number }) => number)
      .reverse();
  return { saver, of };
}

test("S10.1 at a turn of a nested graph the state is that of its graph, of each of several at once", async () => {
  const { saver, of } = await researched();
  const topics = new Set<unknown>();
  for (const number of of("research|read")) {
    const { checkpoint, state } = await stateAt(saver, "t", String(number));
    expect(checkpoint.inside).toBe("research");
    expect(state).toEqual({ topic: expect.any(String), query: `${String(state["topic"])}?`, found: [] });
    topics.add(state["topic"]);
    const { actionId } = await showTurn(saver, "t", String(number));
    const after = await stateAt(saver, "t", actionId ?? "");
    expect(after.state).toEqual({ ...state, found: [`on ${String(state["query"])}`] });
    // The checkpoint that is named there can be given in turn.
    for (const name of [after.checkpoint.checkpointId, `#${after.checkpoint.number}`])
      expect(await stateAt(saver, "t", name)).toEqual(after);
  }
  expect(topics).toEqual(new Set(["wind", "rain"]));
  const [plan] = of("plan");
  expect((await stateAt(saver, "t", String(plan))).checkpoint.inside).toBeNull();
  expect((await stateAt(saver, "t")).state).toMatchObject({ topics: ["wind", "rain"], found: expect.any(Array) });
  await (saver.close() as unknown);
});

test("S10.1 what a nested turn changed is told of its graph; turns of two graphs are compared by the outermost", async () => {
  const { saver, of } = await researched();
  const [number] = of("research|ask");
  const { thoughtId, actionId } = await showTurn(saver, "t", String(number));
  const own = await differenceBetween(saver, "t", thoughtId ?? "", actionId ?? "");
  expect(own.channels.map(({ channel, change }) => [channel, change])).toEqual([["query", "added"]]);
  expect([own.from.inside, own.to.inside]).toEqual(["research", "research"]);
  expect(await differenceBetween(saver, "t", undefined, actionId ?? "")).toEqual(own);
  const [one = 0, other = 0] = of("research|read");
  const [write = 0] = of("write");
  for (const [from, to, changed] of [
    [one, other, []],
    [one, write, ["found"]],
    [write, one, ["found"]],
  ] as const) {
    const difference = await differenceBetween(saver, "t", String(from), String(to));
    expect([difference.from.inside, difference.to.inside]).toEqual([null, null]);
    expect(difference.channels.map(({ channel }) => channel)).toEqual(changed);
  }
  await (saver.close() as unknown);
});

test("S10.1 who wrote a nested graph's channel is told at its turns, by the number that the log has", async () => {
  const { saver, of } = await researched();
  const reads = of("research|read");
  const writers = await Promise.all(
    reads.map(async (number) => {
      const { changes } = await blameOf(saver, "t", "query", { at: String(number) });
      expect(changes.map(({ change, nodes }) => [change, nodes.map(({ node }) => node)])).toEqual([["first", ["ask"]]]);
      return changes[0]?.nodes[0]?.number;
    }),
  );
  expect(writers.sort()).toEqual(of("research|ask").sort());
  await expect(blameOf(saver, "t", "query")).rejects.toMatchObject({ code: "INVALID_OPTION" });
  const { changes } = await blameOf(saver, "t", "topics");
  expect(changes[0]?.nodes).toEqual([{ node: "plan", number: of("plan")[0], attempt: 1 }]);
  // Up to a turn, and in pages.
  expect((await blameOf(saver, "t", "found", { at: String(of("plan")[0]) })).changes.map(({ change }) => change)).not.toContain(
    "appended",
  );
  await (saver.close() as unknown);
});

test("S10.1 a nested graph that has saved no checkpoint has the state of the outermost", async () => {
  const { saver, of } = await researched("exit");
  const [number] = of("research|read");
  const { actionId } = await showTurn(saver, "t", String(number));
  const { checkpoint, state } = await stateAt(saver, "t", actionId ?? "");
  expect([checkpoint.inside, state["topics"]]).toEqual([null, ["wind", "rain"]]);
  expect((await branchesOf(saver, "t")).checkpoints[0]).not.toHaveProperty("inside");
  await (saver.close() as unknown);
});

test("S10.1 the checkpoint that a turn names is shown, even if the turn's task is named after it", async () => {
  const { saver, of } = await researched();
  const graph = new StateGraph(Outer)
    .addNode("plan", () => ({ topics: ["wind"] }))
    .addNode("write", ({ topics }) => ({ topics: [...topics, "written"] }))
    .addEdge(START, "plan")
    .addEdge("plan", "write")
    .addEdge("write", END)
    .compile({ checkpointer: saver });
  saver.attach(graph);
  const config = { configurable: { thread_id: "fork" } };
  await graph.invoke({}, config);
  // A time travel: LangGraph saves the old state once more, as a fork.
  for await (const { next, config: at } of graph.getStateHistory(config)) if (next[0] === "write") await graph.invoke(null, at);
  const [first, own] = (await saver.turns.tasks("fork")).map(({ taskId }) => taskId);
  const { attempts } = await logOf(saver, "fork");
  const { checkpointId } = await showTurn(saver, "fork", String(attempts[0]?.number));
  expect(checkpointId).toBe(own);
  expect((await stateAt(saver, "fork", String(own))).state["topics"]).toEqual(["wind"]);
  // No node starts from an input. So its id means the task, and shows how that ended.
  expect((await stateAt(saver, "fork", String(first))).state["topics"]).toEqual(["wind", "written"]);
  expect(of("plan")).toHaveLength(1);
  await (saver.close() as unknown);
});
