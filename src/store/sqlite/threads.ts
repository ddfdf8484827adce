import type { ThreadRow } from "../store";
import type { Sql } from "./sql";
import { threadKey } from "./thread-keys";
import { bury, removeTombstone } from "./tombstones";

/** Every table that has rows of a thread under its number; `langgraph_threads` last. */
export const NUMBERED_TABLES = [
  "langgraph_snapshots",
  "langgraph_items",
  "langgraph_lists",
  "langgraph_chunks",
  "langgraph_writes",
  "langgraph_checkpoints",
  "langgraph_tasks",
  "langgraph_graphs",
  "langgraph_effects",
  "langgraph_names",
  "langgraph_threads",
] as const;
/** Those that have them under its id. */
const NAMED_TABLES = ["langgraph_runs", "langgraph_rewinds", "langgraph_archive"] as const;

interface Row {
  thread_id: string;
  created_at: string;
  epoch: number;
  checkpoints: number;
  turns: number;
  tasks: number;
}

const SELECT = `SELECT thread_id, created_at, epoch,
    (SELECT count(*) FROM langgraph_snapshots AS s WHERE s.thread = t.thread AND s.superseded_by IS NULL) AS checkpoints,
    (SELECT count(*) FROM langgraph_checkpoints AS c WHERE c.thread = t.thread) AS turns,
    (SELECT count(DISTINCT task_id) FROM langgraph_tasks AS k WHERE k.thread = t.thread) AS tasks
  FROM langgraph_threads AS t`;
const PAGE = `${SELECT} WHERE thread_id > ? ORDER BY thread_id LIMIT ?`;
const ONE = `${SELECT} WHERE thread_id = ?`;

export function listThreads(sql: Sql, query: { after: string | undefined; limit: number }): ThreadRow[] {
  return sql.all<Row>(PAGE, query.after ?? "", query.limit).map(toThread);
}

export function getThread(sql: Sql, threadId: string): ThreadRow | undefined {
  const row = sql.get<Row>(ONE, threadId);
  return row === undefined ? undefined : toThread(row);
}

/** Leaves a tombstone, also for a thread that is not there: its first save may be on its way. */
export function deleteThread(sql: Sql, threadId: string, deletedAt: number, final: boolean): void {
  removeThread(sql, threadId);
  bury(sql, threadId, deletedAt, final);
}

/** Every row of the thread, in every table. */
export function removeThread(sql: Sql, threadId: string): void {
  const key = threadKey(sql, threadId);
  if (key !== undefined) {
    for (const table of NUMBERED_TABLES) {
      if (table !== "langgraph_items") sql.run(`DELETE FROM ${table} WHERE thread = ?`, key.thread);
      else sql.run("DELETE FROM langgraph_items WHERE list IN (SELECT seq FROM langgraph_lists WHERE thread = ?)", key.thread);
    }
  }
  for (const table of NAMED_TABLES) sql.run(`DELETE FROM ${table} WHERE thread_id = ?`, threadId);
}

/** @returns whether the id had been deleted */
export function reuseThread(sql: Sql, threadId: string): boolean {
  return removeTombstone(sql, threadId);
}

function toThread(row: Row): ThreadRow {
  const { thread_id: threadId, created_at: createdAt, epoch, checkpoints, turns, tasks } = row;
  return { threadId, createdAt, epoch, checkpoints, turns, tasks };
}
