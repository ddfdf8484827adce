import { Annotation, Command, END, interrupt, Send, START, StateGraph } from "@langchain/langgraph";
import { expectSame, type Lab, MODES, type Scenario, thread } from "./support/diff-harness";

const State = Annotation.Root({
  log: Annotation<string[]>({ reducer: (left, right) => left.concat(right), default: () => [] }),
  last: Annotation<string>(),
});
const node = (name: string) => () => ({ log: [name], last: name });
const logs = (name: string) => () => ({ log: [name] });

/** One test per way of running it. */
function same(title: string, scenario: Scenario): void {
  test.each(MODES)(`contract: ${title}, %s`, async (mode) => {
    await expectSame(mode, scenario);
  });
}

const linear = (lab: Lab, options: object = {}): any =>
  lab.compile(
    new StateGraph(State)
      .addNode("a", node("a"))
      .addNode("b", node("b"))
      .addEdge(START, "a")
      .addEdge("a", "b")
      .addEdge("b", END),
    options,
  );

describe("contract: graphs behave as on MemorySaver", () => {
  same("linear graph over two turns", async (lab) => {
    const graph = linear(lab);
    await lab.run(graph, { log: ["in1"] });
    await lab.run(graph, { log: ["in2"] });
  });

  same("parallel branches with a join", async (lab) => {
    const graph = lab.compile(
      new StateGraph(State)
        .addNode("a", logs("a"))
        .addNode("b", logs("b"))
        .addNode("c", logs("c"))
        .addNode("j", logs("j"))
        .addEdge(START, "a")
        .addEdge("a", "b")
        .addEdge("a", "c")
        .addEdge(["b", "c"], "j"),
    );
    await lab.run(graph, { log: ["in"] });
    await lab.run(graph, { log: ["again"] });
  });
});
