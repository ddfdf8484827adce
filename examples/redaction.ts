// Keep a card number out of the turn log, and see what redaction doesn't cover.
import assert from "node:assert/strict";
import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import path from "node:path";
import { Annotation, END, START, StateGraph } from "@langchain/langgraph";
import Database from "better-sqlite3";
import { TurnSaver, type TurnToRedact } from "langgraph-checkpoint-turns";

const CARD = "4111 1111 1111 1111";
const folder = mkdtempSync(path.join(tmpdir(), "turns-redaction-"));
const file = path.join(folder, "agent.db");

/** Called with a copy of the state before a turn's row is written. The row holds what it returns. */
function redact({ state }: TurnToRedact): Record<string, unknown> {
  const { card, ...rest } = state;
  return typeof card === "string" ? { ...rest, card: `…${card.slice(-4)}` } : rest;
}

const builder = new StateGraph(Annotation.Root({ card: Annotation<string>, receipt: Annotation<string> }))
  .addNode("charge", ({ card }) => ({ receipt: `charged a card of ${card.length} characters` }))
  .addEdge(START, "charge")
  .addEdge("charge", END);

try {
  const saver = TurnSaver.fromPath(file, { redact });
  const graph = saver.attach(builder.compile({ checkpointer: saver }));
  const result = await graph.invoke({ card: CARD }, { configurable: { thread_id: "order-1" } });
  assert.equal(result.card, CARD); // the graph's own state is untouched

  for (const turn of await saver.turns.list("order-1")) {
    const state = await saver.turns.state(turn);
    console.log(`${turn.turnType} of ${turn.nodeName}: ${JSON.stringify(state)}`);
    assert.ok(!JSON.stringify(state).includes(CARD));
  }
  const checkpoint = await saver.getTuple({ configurable: { thread_id: "order-1" } });
  saver.close();

  const db = new Database(file, { readonly: true });
  const rows = JSON.stringify(db.prepare("SELECT * FROM langgraph_checkpoints").all());
  db.close();
  assert.ok(!rows.includes(CARD));
  console.log("in the turn log: no card number");
  assert.equal(checkpoint?.checkpoint.channel_values["card"], CARD);
  console.log("in LangGraph's checkpoint: the card number, because a resume needs it; the option `encryption` encrypts it");
} finally {
  rmSync(folder, { recursive: true, force: true });
}
