import type { Program } from "../program";
import type { Sql } from "../session";
import { threadKey } from "../ops/thread-rows";

const SAVED = `SELECT min(seq) AS seq FROM langgraph_snapshots WHERE thread = ? AND checkpoint_ns = ? AND checkpoint_id = ?`;
/** LangGraph's task id for writes that are no node's: what a Command brought as input. */
const NO_NODE = "00000000-0000-0000-0000-000000000000";
/**
 * What was first done on the grounds of a checkpoint: a node task begun or ended, an effect, or the checkpoint that came next in its
 * namespace. Input that a Command saved beside the checkpoint is none of it.
 */
const FIRST_DEED = `SELECT min(seq) AS seq FROM (
  SELECT min(seq) AS seq FROM langgraph_checkpoints
    WHERE thread = ?1 AND checkpoint_ns = ?2 AND checkpoint_id = ?3 AND seq > ?4
  UNION ALL SELECT min(seq) FROM langgraph_writes
    WHERE thread = ?1 AND checkpoint_ns = ?2 AND checkpoint_id = ?3 AND seq > ?4 AND node_task_id <> '${NO_NODE}'
  UNION ALL SELECT min(seq) FROM langgraph_effects WHERE thread = ?1 AND anchor = ?3 AND ?2 = '' AND seq > ?4
  UNION ALL SELECT min(seq) FROM langgraph_snapshots
    WHERE thread = ?1 AND checkpoint_ns = ?2 AND checkpoint_id <> ?3 AND seq > ?4)`;

/**
 * Where to rewind to so that a checkpoint stands as it did before anything was done on its grounds: with the input that came with it,
 * and without what its node tasks, and all that they led to, have left.
 *
 * @returns the seq behind which all is to go; Infinity if nothing was done yet; undefined if there is no such checkpoint
 */
export function* seqBeforeDeeds(sql: Sql, threadId: string, ns: string, checkpointId: string): Program<number | undefined> {
  const key = yield* threadKey(sql, threadId);
  const saved = key && (yield* sql.get<{ seq: number | null }>(SAVED, key.thread, ns, checkpointId))?.seq;
  if (key === undefined || saved === undefined || saved === null) return undefined;
  const first = (yield* sql.get<{ seq: number | null }>(FIRST_DEED, key.thread, ns, checkpointId, saved))?.seq ?? Infinity;
  return first - 1;
}
