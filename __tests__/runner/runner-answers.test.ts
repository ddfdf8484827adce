import { Annotation, Command, END, interrupt, START, StateGraph } from "@langchain/langgraph";
import { GraphRunner } from "langgraph-checkpoint-turns";
import { openSaver } from "../support/open-saver";

/* LangGraph keeps an answer without an id until its step is finished, and takes it for later questions of the step. A runner doesn't. */

describe("S4.1 answers without an id", () => {
  const State = Annotation.Root({
    log: Annotation<string[]>({ reducer: (left, right) => left.concat(right), default: () => [] }),
  });
  const asks = (name: string, times: number) => () => ({
    log: Array.from({ length: times }, (_, index) => `${name}${index}: ${interrupt(`${name}${index}?`)}`),
  });
  const nested = new StateGraph(State)
    .addNode("x", asks("x", 1))
    .addNode("y", asks("y", 2))
    .addEdge(START, "x")
    .addEdge("x", "y")
    .addEdge("y", END)
    .compile();

  test.each([
    ["a node that asks again", asks("p", 3), ["p0", "p1", "p2"]],
    ["a nested graph", nested, ["x0", "y0", "y1"]],
  ])("S4.1 an answer isn't given to a later question of %s, however the run is continued", async (_, node, questions) => {
    const saver = openSaver(":memory:", { logger: { debug() {}, info() {}, warn() {}, error() {} } });
    const graph = new StateGraph(State)
      .addNode("n", node as typeof nested)
      .addEdge(START, "n")
      .addEdge("n", END);
    const runner = new GraphRunner(graph.compile({ checkpointer: saver }));
    for (const plain of [[0], [1], [0, 1], [0, 1, 2]]) {
      const threadId = `plain ${plain.join(" ")}`;
      const open = async () => (await runner.status(threadId)).waiting.map(({ id, value }) => [id, value] as const);
      await runner.invoke({}, { threadId });
      for (const [index, name] of questions.entries()) {
        // Nobody answers here.
        await runner.resume({ threadId });
        const [[id = "", question] = [], ...others] = await open();
        expect([question, others]).toEqual([`${name}?`, []]);
        const answer = `answer ${index}`;
        await runner.resume({ threadId, command: new Command({ resume: plain.includes(index) ? answer : { [id]: answer } }) });
      }
      const { values } = (await runner.graph.getState({ configurable: { thread_id: threadId } })) as {
        values: { log: string[] };
      };
      expect(values.log).toEqual(questions.map((name, index) => `${name}: answer ${index}`));
    }
    await (saver.close() as unknown);
  });
});
