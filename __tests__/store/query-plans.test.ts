import Database from "better-sqlite3";
import { effect, GraphRunner, TurnSaver } from "langgraph-checkpoint-turns";
import { chain } from "../support/s1-graph";
import { quiet } from "../support/s1-tools";

const TURNS = "langgraph_checkpoints";
/** A turn that is looked up by its node task, under any name of the table. */
const BY_NODE_TASK = /\bnode_task_id = /;

/** Statements of turns that a saver prepares while a graph with an effect runs, is resumed, asked for its status and verified. */
async function statementsOfTurns(db: Database.Database): Promise<string[]> {
  const prepared = new Set<string>();
  const prepare = db.prepare.bind(db);
  db.prepare = (text: string) => {
    prepared.add(text);
    return prepare(text);
  };
  const saver = new TurnSaver(db, { logger: quiet });
  const graph = chain(saver, async () => void (await effect("mail", () => "sent")));
  const runner = new GraphRunner(graph);
  await runner.invoke({ log: ["in"] }, { threadId: "x", taskId: "one" });
  await runner.status("x");
  await runner.resume({ threadId: "x" });
  expect((await saver.verify()).ok).toBe(true);
  db.prepare = prepare;
  return [...prepared].filter((text) => text.includes(TURNS));
}

test("turns of a node task are found by its index, not by reading all turns of the thread", async () => {
  const db = new Database(":memory:");
  const texts = (await statementsOfTurns(db)).filter((text) => /^\s*SELECT/.test(text) && BY_NODE_TASK.test(text));
  expect(texts.length).toBeGreaterThanOrEqual(3);
  for (const text of texts) {
    const plan = db.prepare(`EXPLAIN QUERY PLAN ${text.replace(/\?\d*/g, "1")}`).all() as { detail: string }[];
    const details = plan.map(({ detail }) => detail);
    expect([text, details]).toEqual([
      text,
      expect.arrayContaining([expect.stringContaining("by_node_task (thread=? AND node_task_id=?")]),
    ]);
  }
});
