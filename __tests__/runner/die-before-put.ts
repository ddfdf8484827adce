import { Annotation, START, StateGraph } from "@langchain/langgraph";
import { openSaver } from "../support/open-saver";

/** Dies by SIGKILL when b's writes are committed and the checkpoint that takes them up is not; with "in-b" in the middle of b. */
const [path = "", where = "before-put"] = process.argv.slice(2);
const die = (): void => void process.kill(process.pid, "SIGKILL");
const saver = openSaver(path);
const State = Annotation.Root({
  log: Annotation<string[]>({ reducer: (left, right) => left.concat(right), default: () => [] }),
});
const graph = new StateGraph(State)
  .addNode("a", () => ({ log: ["a"] }))
  .addNode("b", () => {
    if (where === "in-b") die();
    return { log: ["b"] };
  })
  .addNode("c", () => ({ log: ["c"] }))
  .addEdge(START, "a")
  .addEdge("a", "b")
  .addEdge("b", "c")
  .compile({ checkpointer: saver });
saver.attach(graph);
if (where === "before-put") {
  // They come in one commit, unless the checkpoint is handed in later, as one of delta channels is, or one behind a slow one.
  const put = saver.put.bind(saver);
  saver.put = (...args) => (args[2].step === 2 ? new Promise(() => undefined) : put(...args));
}
saver.events.on("turn", (turn) => {
  if (turn.nodeName === "b" && turn.durable) die();
});
await graph.invoke({ log: ["in"] }, { configurable: { thread_id: "t" } });
