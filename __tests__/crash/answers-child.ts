import { appendFileSync } from "node:fs";
import { Annotation, Command, END, interrupt, Send, START, StateGraph } from "@langchain/langgraph";
import { GraphRunner } from "../../src/index";
import { openSaver } from "../support/open-saver";

/**
 * `answers-child.ts <db> <shape> <answers> <kills>`: starts the thread, or resumes it with answers by id (as JSON; `{}`: without; as
 * `plain`: one without an id), and prints how it stands. Kills itself in the node that gets the so-manieth answer, right after `interrupt()` has returned it; 0: never.
 */
const [path = "", shape = "", given = "", kills = "0"] = process.argv.slice(2);

const State = Annotation.Root({
  i: Annotation<number>({ reducer: (_, next) => next, default: () => 0 }),
  log: Annotation<string[]>({ reducer: (left, right) => left.concat(right), default: () => [] }),
});

let answered = 0;
function ask(question: string): string {
  const answer: string = interrupt(question);
  appendFileSync(`${path}.ledger`, `${question}\n`);
  answered += 1;
  if (answered === Number(kills)) process.kill(process.pid, "SIGKILL");
  return `${question}=${answer}`;
}
const asks =
  (name: string, times: number) =>
  ({ i }: typeof State.State) => ({ log: Array.from({ length: times }, (_, index) => ask(`${name}${i}-${index}`)) });

const nested = new StateGraph(State)
  .addNode("x", asks("x", 1))
  .addNode("y", asks("y", 2))
  .addEdge(START, "x")
  .addEdge("x", "y")
  .addEdge("y", END)
  .compile();
const to = (node: string, count: number) => () => Array.from({ length: count }, (_, i) => new Send(node, { i }));
const begun = () => new StateGraph(State).addNode("begin", () => ({})).addEdge(START, "begin");
const SHAPES = {
  parallel: () =>
    begun()
      .addNode("p", asks("p", 2))
      .addNode("q", asks("q", 1))
      .addNode("end", () => ({ log: ["end"] }))
      .addEdge("begin", "p")
      .addEdge("begin", "q")
      .addEdge(["p", "q"], "end"),
  workers: () =>
    begun()
      .addNode("p", asks("p", 2))
      .addNode("end", () => ({ log: ["end"] }))
      .addConditionalEdges("begin", to("p", 3), ["p"])
      .addEdge("p", "end"),
  nested: () =>
    begun()
      .addNode("sub", nested)
      .addNode("q", asks("q", 1))
      .addNode("end", () => ({ log: ["end"] }))
      .addEdge("begin", "sub")
      .addEdge("begin", "q")
      .addEdge(["sub", "q"], "end"),
  "one by one": () =>
    begun()
      .addNode("p", asks("p", 3))
      .addNode("sub", nested)
      .addNode("end", () => ({ log: ["end"] }))
      .addEdge("begin", "p")
      .addEdge("p", "sub")
      .addEdge("sub", "end"),
  "nested workers": () =>
    begun()
      .addNode("sub", nested)
      .addNode("end", () => ({ log: ["end"] }))
      .addConditionalEdges("begin", to("sub", 2), ["sub"])
      .addEdge("sub", "end"),
};

void (async () => {
  const saver = openSaver(path, { logger: { debug() {}, info() {}, warn() {}, error() {} } });
  const graph = SHAPES[shape as keyof typeof SHAPES]().compile({ checkpointer: saver });
  const runner = new GraphRunner(graph);
  const { plain, ...byId } = JSON.parse(given) as Record<string, string>;
  const resume = plain ?? byId;
  if ((await runner.status("t")).completed.length === 0) await runner.invoke({}, { threadId: "t" });
  else if (Object.keys(resume).length > 0) await runner.resume({ threadId: "t", command: new Command({ resume }) });
  else await runner.resume({ threadId: "t" });
  const { waiting, onResume } = await runner.status("t");
  const { values } = (await graph.getState({ configurable: { thread_id: "t" } })) as { values: typeof State.State };
  const open = waiting.map(({ id, value }) => [id, value]);
  process.stdout.write(JSON.stringify({ open, isFinished: onResume === "return", log: values.log }));
  await (saver.close() as unknown);
})();
