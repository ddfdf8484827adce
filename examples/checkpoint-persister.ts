// The turn log by itself, without LangGraph: your own agent loop saves a Thought before each step and an Action after it.
import assert from "node:assert/strict";
import { randomUUID } from "node:crypto";
import Database from "better-sqlite3";
import { CheckpointPersister, type LangGraphCheckpoint } from "langgraph-checkpoint-turns";

const db = new Database(":memory:");
const persister = new CheckpointPersister(db);

function save(taskId: string, turnType: LangGraphCheckpoint["turnType"], state: Record<string, unknown>): void {
  persister.save({ id: randomUUID(), graphId: "agent", nodeName: "step", turnType, state, taskId, createdAt: new Date() });
}

const tasks = ["read", "think", "write"];
for (const [index, taskId] of tasks.entries()) {
  save(taskId, "Thought", { index, startedAt: new Date(0) });
  if (taskId === "write") break; // imagine a crash here: `write` is in flight
  save(taskId, "Action", { index, total: BigInt(index) * 10n });
}

const latest = persister.loadLatest("agent");
console.log(`the newest turn is the ${latest?.turnType} of task ${latest?.taskId}: that step has started and not finished`);
assert.equal(latest?.turnType, "Thought");
assert.equal(latest.taskId, "write");
assert.ok(latest.state["startedAt"] instanceof Date, "a Date is restored as a Date");

const ofThink = persister.loadForTask("think");
console.log(`turns of task think: ${ofThink.map((turn) => turn.turnType).join(", ")}`);
assert.deepEqual(
  ofThink.map((turn) => turn.turnType),
  ["Thought", "Action"],
);
assert.equal(ofThink[1]?.state["total"], 10n, "a BigInt is restored as a BigInt");

assert.throws(() => persister.deleteAfter("publish", tasks), { code: "UNKNOWN_TASK" });
const deleted = persister.deleteAfter("read", tasks);
console.log(`back to task read: ${deleted} rows deleted, ${persister.loadForTask("read").length} left`);
assert.equal(deleted, 3);
assert.equal(persister.loadLatest("agent")?.taskId, "read");

const rows = db.prepare("SELECT task_id, turn_type, serialized_state FROM langgraph_checkpoints ORDER BY rowid").all();
console.log("the rows, as any SQLite client sees them:", rows);
db.close();
