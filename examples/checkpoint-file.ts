/**
 * CHECKPOINT.md: kept up to date from the database during a run, including what a person writes into it. Run: npx tsx
 * examples/checkpoint-file.ts
 */
import assert from "node:assert/strict";
import { appendFileSync, mkdtempSync, readFileSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { Annotation, END, START, StateGraph } from "@langchain/langgraph";
import { TurnSaver } from "langgraph-checkpoint-turns";
import { CheckpointFile } from "langgraph-checkpoint-turns/checkpoint-file";

const folder = mkdtempSync(join(tmpdir(), "turns-checkpoint-file-"));
process.on("exit", () => rmSync(folder, { recursive: true, force: true }));

let paper = false;
const State = Annotation.Root({ text: Annotation<string> });
const builder = new StateGraph(State)
  .addNode("draft", () => ({ text: "Dear all" }))
  .addNode("print", () => {
    if (!paper) throw new Error("no paper");
    return {};
  })
  .addEdge(START, "draft")
  .addEdge("draft", "print")
  .addEdge("print", END);

const saver = TurnSaver.fromPath(join(folder, "agent.db"));
const graph = saver.attach(builder.compile({ checkpointer: saver }));
const config = { configurable: { thread_id: "letter", task_id: "monday" } };
const file = new CheckpointFile(join(folder, "CHECKPOINT.md"));
const follower = CheckpointFile.follow(saver, "letter", file.path, { by: "node" });

await assert.rejects(graph.invoke({ text: "" }, config));
await follower.flush();
console.log(readFileSync(file.path, "utf8"));
const failed = await file.getResumePoint();
console.log(`last completed: ${failed?.lastCompleted}; next: ${failed?.nextPhase}; can resume: ${failed?.canResume}`);
assert.deepEqual([failed?.lastCompleted, failed?.nextPhase], ["draft", "print"]);

appendFileSync(file.path, "\nPaper is in the cellar.\n");
await file.updatePhase("print", { notes: `${(await file.read())?.phases[1]?.notes}\n\nI fetched some. – Ada` });
console.log("a person wrote below the phases, and into the notes of one");

paper = true;
await graph.invoke(null, config);
await follower.close();
saver.close();

const text = readFileSync(file.path, "utf8");
const done = await file.read();
console.log(`after the repair: ${done?.phases.map(({ id, status }) => `${id} ${status}`).join(", ")}`);
console.log(`notes of print: ${done?.phases[1]?.notes}`);
console.log(`last line: ${text.trim().split("\n").at(-1)}`);
assert.deepEqual(
  done?.phases.map(({ status }) => status),
  ["completed", "completed"],
);
assert.ok(text.endsWith("Paper is in the cellar.\n"));
