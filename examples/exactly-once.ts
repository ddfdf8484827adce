// A process charges a customer in its own database and is killed right after the commit, before the journal knows. The next process
// finds the charge by its key and doesn't repeat it; a rewind takes it back. The script starts itself: `run` is the role that dies.
import assert from "node:assert/strict";
import { spawnSync } from "node:child_process";
import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import path from "node:path";
import { fileURLToPath } from "node:url";
import { Annotation, START, StateGraph } from "@langchain/langgraph";
import Database from "better-sqlite3";
import { defineEffect, GraphRunner, TurnSaver } from "langgraph-checkpoint-turns";
import { sqliteTransactions } from "langgraph-checkpoint-turns/transactions";

const threadId = "order-7";
const [role, folder = mkdtempSync(path.join(tmpdir(), "exactly-once-"))] = process.argv.slice(2);

const bank = new Database(path.join(folder, "bank.db"));
bank.exec("CREATE TABLE IF NOT EXISTS charges (id INTEGER PRIMARY KEY, cents INTEGER)");
const charges = (): unknown[] => bank.prepare("SELECT cents FROM charges").all();

const charge = defineEffect("charge", {
  tx: sqliteTransactions(bank),
  run: ({ cents }: { cents: number }, { db }) =>
    Number(db.prepare("INSERT INTO charges (cents) VALUES (?)").run(cents).lastInsertRowid),
  undo: ({ db, result }) => db.prepare("DELETE FROM charges WHERE id = ?").run(result),
});

const State = Annotation.Root({ cents: Annotation<number>, charge: Annotation<number> });
const builder = new StateGraph(State)
  .addNode("pay", async ({ cents }) => ({ charge: await charge({ cents }) }))
  .addEdge(START, "pay");

const saver = TurnSaver.fromPath(path.join(folder, "agent.db"), {
  clock: () => {
    // The journal asks for the time when it records the outcome: the charge is committed by then.
    if (role === "run" && charges().length === 2) process.kill(process.pid, "SIGKILL");
    return new Date();
  },
});
const runner = new GraphRunner(builder.compile({ checkpointer: saver }), { nodes: { pay: { idempotent: true } } });

if (role === "run") {
  await runner.invoke({ cents: 500 }, { threadId, taskId: "first" });
  await runner.invoke({ cents: 700 }, { threadId, taskId: "second" });
} else {
  const self = fileURLToPath(import.meta.url);
  const { signal } = spawnSync(process.execPath, [...process.execArgv, self, "run", folder], { stdio: "inherit" });
  assert.equal(signal, "SIGKILL");
  const [doubt] = await saver.effects.list(threadId, { status: "in-doubt" });
  console.log(`killed: ${charges().length} charges, and the journal doesn't know about the second (${doubt?.status})`);

  await runner.resume({ threadId });
  console.log(`resumed: ${charges().length} charges`);
  assert.deepEqual(charges(), [{ cents: 500 }, { cents: 700 }]);

  await runner.rewind({ threadId, toTask: "first" });
  console.log(`rewound: ${charges().length} charge`);
  assert.deepEqual(charges(), [{ cents: 500 }]);
  saver.close();
  bank.close();
  rmSync(folder, { recursive: true });
}
