// A thread stopped half-way, and the graph has changed since: what a resume does under each policy, and how a version label
// replaces the source.
import assert from "node:assert/strict";
import { Annotation, START, StateGraph } from "@langchain/langgraph";
import { GraphRunner, type GraphRunnerOptions, TurnSaver } from "langgraph-checkpoint-turns";

const State = Annotation.Root({
  log: Annotation<string[]>({ reducer: (old, added) => old.concat(added), default: () => [] }),
});
const saver = TurnSaver.fromPath(":memory:", { logger: { debug() {}, info() {}, warn() {}, error() {} } });
type Node = () => { log: string[] };

/** fetch → summarise, as of some deployment. */
function deployed(fetch: Node, summarise: Node, options: GraphRunnerOptions = {}) {
  const graph = new StateGraph(State)
    .addNode("fetch", fetch)
    .addNode("summarise", summarise)
    .addEdge(START, "fetch")
    .addEdge("fetch", "summarise")
    .compile({ checkpointer: saver });
  return new GraphRunner(graph, options);
}

const fails: Node = () => {
  throw new Error("no model today");
};
const monday: Node = () => ({ log: ["fetched on monday"] });
const tuesday: Node = () => ({ log: ["fetched on tuesday, in another way"] });
const works: Node = () => ({ log: ["summarised"] });

// Without labels: fetch completed in Monday's version, summarise failed.
for (const threadId of ["refuse", "continue", "restart"] as const) {
  await assert.rejects(deployed(monday, fails).invoke({ log: [] }, { threadId }), /no model today/);
}
saver.events.on("drift", ({ changes, policy }) => console.log(`drift, policy ${policy}: ${changes.join("; ")}`));

await assert.rejects(deployed(tuesday, works, { drift: "refuse" }).resume({ threadId: "refuse" }), { code: "GRAPH_CHANGED" });
const mended = await deployed(monday, works, { drift: "refuse" }).resume({ threadId: "refuse" });
console.log(`only the failed node changed: ${mended.log.join(", ")}`);
assert.deepEqual(mended.log, ["fetched on monday", "summarised"]);

const continued = await deployed(tuesday, works, { drift: "continue" }).resume({ threadId: "continue" });
console.log(`continue: ${continued.log.join(", ")}`);
assert.deepEqual(continued.log, ["fetched on monday", "summarised"]);

const anew = await deployed(tuesday, works).resume({ threadId: "restart" });
console.log(`restart: ${anew.log.join(", ")}`);
assert.deepEqual(anew.log, ["fetched on tuesday, in another way", "summarised"]);

// With a label, you decide what "the same version" means: a refactoring is no drift, and a changed import can be.
const labelled = (version: string): GraphRunnerOptions => ({ drift: "refuse", nodes: { fetch: { version } } });
await assert.rejects(deployed(monday, fails, labelled("1")).invoke({ log: [] }, { threadId: "labelled" }));
await assert.rejects(deployed(monday, works, labelled("2")).resume({ threadId: "labelled" }), /its version, from 1 to 2/);
const same = await deployed(tuesday, works, labelled("1")).resume({ threadId: "labelled" });
console.log(`same label, other source: ${same.log.join(", ")}`);
assert.deepEqual(same.log, ["fetched on monday", "summarised"]);
saver.close();
