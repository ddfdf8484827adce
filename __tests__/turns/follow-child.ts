import { Annotation, END, START, StateGraph } from "@langchain/langgraph";
import { effect, GraphRunner } from "../../src/index";
import { openSaver } from "../support/open-saver";

/**
 * `follow-child.ts <db> <thread> <steps>`: runs a graph of so many steps on the thread, each with one effect, or resumes it where an
 * earlier process was killed.
 */
const [path = "", threadId = "", steps = "0"] = process.argv.slice(2);
const saver = openSaver(path, { logger: { debug() {}, info() {}, warn() {}, error() {} } });
const State = Annotation.Root({ count: Annotation<number>() });
const graph = new StateGraph(State)
  .addNode("step", async ({ count }) => {
    await effect("mail", () => `sent ${count}`, { idempotent: true });
    await new Promise((resolve) => setTimeout(resolve, 2));
    return { count: count + 1 };
  })
  .addEdge(START, "step")
  .addConditionalEdges("step", ({ count }) => (count < Number(steps) ? "step" : END))
  .compile({ checkpointer: saver });
const runner = new GraphRunner(graph, { nodes: { step: { idempotent: true, version: "1" } }, stateVersion: "1" });
const config = { configurable: { thread_id: threadId }, recursionLimit: 1_000 };
const isThere = (await saver.getTuple(config)) !== undefined;
if (isThere) await runner.resume({ threadId, recursionLimit: 1_000 });
else await runner.invoke({ count: 0 }, { threadId, recursionLimit: 1_000 });
process.stdout.write("done\n");
await (saver.close() as unknown as Promise<void>);
