import { emptyCheckpoint, uuid6 } from "@langchain/langgraph-checkpoint";
import Database from "better-sqlite3";
import type { TurnSaver } from "langgraph-checkpoint-turns";
import { columnsOf, SPAN } from "../support/s1-tools";

/** Saves so many checkpoints on a thread, each with ten messages more than the last, a note of its own and a write: some 23 rows. */
export async function makeLarge(saver: TurnSaver, threadId: string, checkpoints: number): Promise<void> {
  let config = { configurable: { thread_id: threadId, checkpoint_ns: "", task_id: "task" } as Record<string, unknown> };
  const messages: string[] = [];
  for (let step = 0; step < checkpoints; step += 1) {
    for (let each = 0; each < 10; each += 1) messages.push(`message ${step}.${each} of ${threadId} ${"x".repeat(60)}`);
    const note = `the note of step ${step} of ${threadId} `.repeat(8);
    const channel_versions = { messages: step + 1, note: step + 1 };
    const checkpoint = {
      ...emptyCheckpoint(),
      id: uuid6(0),
      channel_values: { messages: [...messages], note },
      channel_versions,
    };
    const metadata = { source: step === 0 ? ("input" as const) : ("loop" as const), step: step - 1, parents: {} };
    const saved = await saver.put(config, checkpoint, metadata, channel_versions);
    const nodeTaskId = `00000000-0000-4000-8000-${String(step).padStart(12, "0")}`;
    await saver.putWrites(saved, [["note", `write ${step}`]], nodeTaskId);
    config = { configurable: { ...saved.configurable, task_id: "task" } };
  }
}

/** How many rows stand in the file under a thread's number, by table. */
export function rowsOfNumber(path: string, thread: number): Record<string, number> {
  return withFile(path, (db) => {
    const tables = db
      .prepare("SELECT name FROM sqlite_schema WHERE type = 'table' AND name LIKE 'langgraph%'")
      .pluck()
      .all() as string[];
    const numbered = tables.filter((table) => table === "langgraph_items" || columnsOf(db, table).includes("thread"));
    // An item has the thread of its list.
    const count = (table: string): number =>
      db
        .prepare(`SELECT count(*) FROM ${table} WHERE ${table === "langgraph_items" ? `list / ${SPAN}` : "thread"} = ?`)
        .pluck()
        .get(thread) as number;
    return Object.fromEntries(numbered.map((table) => [table, count(table)] as const).filter(([, rows]) => rows > 0));
  });
}

export function numberOfThread(path: string, threadId: string): number {
  return withFile(
    path,
    (db) => db.prepare("SELECT thread FROM langgraph_threads WHERE thread_id = ?").pluck().get(threadId) as number,
  );
}

export function leftovers(path: string): unknown[] {
  return withFile(path, (db) => db.prepare("SELECT * FROM langgraph_leftovers").all());
}

function withFile<T>(path: string, work: (db: Database.Database) => T): T {
  const db = new Database(path, { readonly: true });
  try {
    return work(db);
  } finally {
    db.close();
  }
}
