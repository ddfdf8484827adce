import { Annotation, START, StateGraph } from "@langchain/langgraph";
import { TurnSaver } from "langgraph-checkpoint-turns";

/** Dies by SIGKILL when b's writes are committed and the checkpoint that takes them up is not; with "in-b" in the middle of b. */
const [path = "", where = "before-put"] = process.argv.slice(2);
const die = (): void => void process.kill(process.pid, "SIGKILL");
const saver = TurnSaver.fromPath(path);
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
saver.events.on("turn", (turn) => {
  if (turn.nodeName === "b" && turn.durable) die();
});
await graph.invoke({ log: ["in"] }, { configurable: { thread_id: "t" } });
