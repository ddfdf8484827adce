import type { PruneCounts, RunRow } from "../store";
import { unfinishedRewind } from "./rewind-records";
import { listRuns } from "../ops/runs";
import type { Program } from "../program";
import type { Sql } from "../session";
import { threadKey } from "../ops/thread-rows";
import { deleteThread } from "./threads";

const LAST_SAVED = `SELECT max(
    coalesce((SELECT created_at FROM langgraph_snapshots WHERE thread = ?1 ORDER BY seq DESC LIMIT 1), 0),
    coalesce((SELECT unixepoch(created_at, 'subsec') * 1000 FROM langgraph_checkpoints WHERE thread = ?1 ORDER BY seq DESC LIMIT 1), 0),
    coalesce((SELECT unixepoch(created_at, 'subsec') * 1000 FROM langgraph_tasks WHERE thread = ?1 ORDER BY seq DESC LIMIT 1), 0),
    unixepoch(created_at, 'subsec') * 1000) AS at
  FROM langgraph_threads WHERE thread = ?1`;
/** What was saved last may have been saved by a clock that was behind: nothing is older than what was saved before it. */
const YOUNGEST = `SELECT max(
    coalesce((SELECT max(created_at) FROM langgraph_snapshots WHERE thread = ?1), 0),
    coalesce((SELECT unixepoch(max(created_at), 'subsec') * 1000 FROM langgraph_checkpoints WHERE thread = ?1), 0),
    coalesce((SELECT unixepoch(max(created_at), 'subsec') * 1000 FROM langgraph_tasks WHERE thread = ?1), 0)) AS at`;
const NAMED = "SELECT 1 FROM langgraph_names WHERE thread = ? LIMIT 1";
const SIZE = `SELECT
  (SELECT count(*) FROM (SELECT DISTINCT checkpoint_ns, checkpoint_id FROM langgraph_snapshots WHERE thread = ?1)) AS checkpoints,
  (SELECT count(*) FROM langgraph_writes WHERE thread = ?1) AS writes,
  (SELECT count(*) FROM langgraph_checkpoints WHERE thread = ?1) AS turns,
  (SELECT count(*) FROM langgraph_chunks WHERE thread = ?1) AS chunks`;

/**
 * Whether nothing was saved on the thread since a moment, so that it may go whole: a thread with a named checkpoint never
 * does, nor one with a rewind that was begun and not finished.
 *
 * @param before milliseconds since the epoch
 * @returns how much it holds; undefined if it stays
 */
export function* idleThread(
  sql: Sql,
  threadId: string,
  before: number,
  isAlive: (run: RunRow) => boolean,
): Program<PruneCounts | undefined> {
  const key = yield* threadKey(sql, threadId);
  if (key === undefined || (yield* sql.get(NAMED, key.thread)) !== undefined || (yield* listRuns(sql, threadId)).some(isAlive))
    return undefined;
  if ((yield* unfinishedRewind(sql, threadId)) !== undefined) return undefined;
  const saved = yield* sql.get<{ at: number }>(LAST_SAVED, key.thread);
  if (saved === undefined || saved.at >= before) return undefined;
  if (((yield* sql.get<{ at: number }>(YOUNGEST, key.thread))?.at ?? 0) >= before) return undefined;
  return yield* sql.get<PruneCounts>(SIZE, key.thread);
}

/** Deletes the thread, with a tombstone, if it is idle now. @returns as {@link idleThread} */
export function* deleteIdleThread(
  sql: Sql,
  threadId: string,
  before: number,
  isAlive: (run: RunRow) => boolean,
  deletedAt: number,
): Program<PruneCounts | undefined> {
  const size = yield* idleThread(sql, threadId, before, isAlive);
  if (size !== undefined) yield* deleteThread(sql, threadId, deletedAt, false, isAlive);
  return size;
}
