// Compile a graph with a TurnSaver, run it, close the file, and read the state back from it.
import assert from "node:assert/strict";
import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import path from "node:path";
import { Annotation, END, START, StateGraph } from "@langchain/langgraph";
import { TurnSaver } from "langgraph-checkpoint-turns";

const folder = mkdtempSync(path.join(tmpdir(), "turns-minimal-"));
const file = path.join(folder, "agent.db");
const config = { configurable: { thread_id: "thread-1" } };

const builder = new StateGraph(Annotation.Root({ name: Annotation<string>, greeting: Annotation<string> }))
  .addNode("greet", (state) => ({ greeting: `Hello, ${state.name}.` }))
  .addEdge(START, "greet")
  .addEdge("greet", END);

try {
  const saver = TurnSaver.fromPath(file);
  const graph = saver.attach(builder.compile({ checkpointer: saver }));
  console.log((await graph.invoke({ name: "Ada" }, config)).greeting);
  saver.close();

  const reopened = TurnSaver.fromPath(file);
  const state = await builder.compile({ checkpointer: reopened }).getState(config);
  const turns = await reopened.turns.list("thread-1");
  reopened.close();

  console.log(`read back from the file: ${JSON.stringify(state.values)}`);
  console.log(`turns: ${turns.map((turn) => `${turn.turnType} of ${turn.nodeName}`).join(", ")}`);
  assert.deepEqual(state.values, { name: "Ada", greeting: "Hello, Ada." });
  assert.deepEqual(
    turns.map((turn) => turn.turnType),
    ["Thought", "Action"],
  );
} finally {
  rmSync(folder, { recursive: true, force: true });
}
