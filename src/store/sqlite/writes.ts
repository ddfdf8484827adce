import { rowChecksum, verifyChecksum } from "../checksum";
import type { LostTurn, NewWrites, StoredWrite, TurnRow } from "../store";
import type { Sql } from "./sql";
import { claimTask } from "./tasks";
import { settleAction } from "./turns";

interface Row {
  node_task_id: string;
  idx: number;
  channel: string;
  value: string;
  checksum: string;
}

const OF_CHECKPOINT = "thread_id = ? AND checkpoint_ns = ? AND checkpoint_id = ?";
const LIVE = `SELECT node_task_id, idx, channel, value, checksum FROM langgraph_writes
  WHERE ${OF_CHECKPOINT} AND superseded_by IS NULL ORDER BY seq, idx`;
const SUPERSEDE_REGULAR = `UPDATE langgraph_writes SET superseded_by = ? WHERE ${OF_CHECKPOINT} AND node_task_id = ? AND idx >= 0
  AND superseded_by IS NULL`;
const SUPERSEDE_ONE = `UPDATE langgraph_writes SET superseded_by = ? WHERE ${OF_CHECKPOINT} AND node_task_id = ? AND idx = ?
  AND superseded_by IS NULL`;
const INSERT = `INSERT INTO langgraph_writes
  (thread_id, checkpoint_ns, checkpoint_id, node_task_id, idx, seq, channel, value, checksum) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?)`;

/**
 * A node task's regular writes replace all its earlier regular ones: a task that runs again under the same id must not keep rows of
 * its first run. Of the special ones (negative idx) each replaces its own kind.
 */
export function putWrites(sql: Sql, batch: NewWrites): { seq: number; turn: TurnRow | undefined; lost: LostTurn[] } {
  const { threadId, ns, checkpointId, nodeTaskId } = batch;
  claimTask(sql, threadId, batch.claim, batch.createdAt);
  const seq = sql.nextSeq();
  const key = [threadId, ns, checkpointId, nodeTaskId] as const;
  const rows = [...new Map(batch.rows.map((row) => [row.idx, row])).values()];
  if (rows.some((row) => row.idx >= 0)) sql.run(SUPERSEDE_REGULAR, seq, ...key);
  for (const { idx, channel, value } of rows) {
    if (idx < 0) sql.run(SUPERSEDE_ONE, seq, ...key, idx);
    sql.run(INSERT, ...key, idx, seq, channel, value, checksumOf(key, idx, channel, value));
  }
  const settled = batch.settle === undefined ? undefined : settleAction(sql, batch, batch.settle);
  return { seq, turn: settled?.turn, lost: settled?.lost === undefined ? [] : [settled.lost] };
}

export function liveWrites(sql: Sql, threadId: string, ns: string, checkpointId: string): StoredWrite[] {
  return sql.all<Row>(LIVE, threadId, ns, checkpointId).map((row) => {
    verifyWrite(row, threadId, ns, checkpointId);
    return { nodeTaskId: row.node_task_id, channel: row.channel, value: row.value };
  });
}

export function verifyWrite(row: Row, threadId: string, ns: string, checkpointId: string): void {
  const computed = checksumOf([threadId, ns, checkpointId, row.node_task_id], row.idx, row.channel, row.value);
  const what = `a pending write to ${JSON.stringify(row.channel)} on checkpoint ${checkpointId}`;
  verifyChecksum(row.checksum, computed, what, { threadId, ns, checkpointId, nodeTaskId: row.node_task_id });
}

function checksumOf(key: readonly [string, string, string, string], idx: number, channel: string, value: string): string {
  return rowChecksum(...key, idx, channel, value);
}
