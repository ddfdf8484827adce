import { corrupted } from "../checksum";
import type { RunRow, ThreadRow } from "../store";
import { refuseBack } from "./paging";
import { clearRuns, listRuns } from "./runs";
import type { Sql } from "./sql";
import { tasksOf } from "./tasks";
import { threadNumbers } from "./thread-keys";
import { bury, removeTombstone } from "./tombstones";
import { wholeThread } from "./whole-thread";

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
const NAMED_TABLES = ["langgraph_rewinds", "langgraph_archive"] as const;

interface Row {
  created_at: string;
  epoch: number;
  checkpoints: number;
  live: number;
  turns: number;
}

const PAGE = "SELECT thread_id FROM langgraph_threads WHERE thread_id > ? ORDER BY thread_id LIMIT ?";
const COUNTS = `SELECT (SELECT count(*) FROM langgraph_threads NOT INDEXED) AS there,
  (SELECT count(*) FROM langgraph_threads WHERE thread_id > '') AS listed`;
/** Checkpoints are counted in two ways, which agree in a thread that is whole. */
const ONE = `SELECT created_at, epoch, turns,
    (SELECT count(*) FROM langgraph_snapshots AS s WHERE s.thread = t.thread AND s.superseded_by IS NULL) AS live,
    (SELECT count(*) FROM (SELECT 1 FROM langgraph_snapshots AS s WHERE s.thread = t.thread
      GROUP BY checkpoint_ns, checkpoint_id)) AS checkpoints
  FROM langgraph_threads AS t WHERE thread = ?`;

export function listThreads(sql: Sql, query: { after: string | undefined; limit: number }): ThreadRow[] {
  if (query.after === undefined) verifyListed(sql);
  const ids = sql.rows<[string]>(PAGE, query.after ?? "", query.limit);
  let last = query.after ?? "";
  return ids.flatMap(([threadId]) => {
    refuseBack("langgraph_threads", last, threadId);
    last = threadId;
    return getThread(sql, threadId) ?? [];
  });
}

/** A damaged index would leave threads out without a word. @throws {TurnsError} CHECKPOINT_CORRUPTED */
function verifyListed(sql: Sql): void {
  const { there, listed } = sql.get<{ there: number; listed: number }>(COUNTS) ?? { there: 0, listed: 0 };
  if (there !== listed) throw corrupted("the list of threads", `${there} threads`, `${listed} in their index`, {});
}

export function getThread(sql: Sql, threadId: string): ThreadRow | undefined {
  const key = wholeThread(sql, threadId);
  const row = key && sql.get<Row>(ONE, key.thread);
  if (key === undefined || row === undefined) return undefined;
  const { created_at: createdAt, epoch, checkpoints, live, turns } = row;
  if (checkpoints !== live) {
    const what = `thread ${JSON.stringify(threadId)}`;
    throw corrupted(what, "a newest version of each of its checkpoints", `${live} of ${checkpoints}`, { threadId });
  }
  return { threadId, createdAt, epoch, checkpoints, turns, tasks: new Set(tasksOf(sql, key).map(({ taskId }) => taskId)).size };
}

/** Leaves a tombstone, also for a thread that is not there: its first save may be on its way. */
export function deleteThread(
  sql: Sql,
  threadId: string,
  deletedAt: number,
  final: boolean,
  isAlive: (run: RunRow) => boolean,
): void {
  clearRuns(
    sql,
    listRuns(sql, threadId).filter((run) => !isAlive(run)),
  );
  removeThread(sql, threadId);
  bury(sql, threadId, deletedAt, final);
}

/** Every row of the thread, in every table but the one of who is at work. */
export function removeThread(sql: Sql, threadId: string): void {
  for (const thread of threadNumbers(sql, threadId)) {
    for (const table of NUMBERED_TABLES) {
      if (table !== "langgraph_items") sql.run(`DELETE FROM ${table} WHERE thread = ?`, thread);
      else sql.run("DELETE FROM langgraph_items WHERE list IN (SELECT seq FROM langgraph_lists WHERE thread = ?)", thread);
    }
  }
  for (const table of NAMED_TABLES) sql.run(`DELETE FROM ${table} WHERE thread_id = ?`, threadId);
}

/** @returns whether the id had been deleted */
export function reuseThread(sql: Sql, threadId: string): boolean {
  return removeTombstone(sql, threadId);
}
