import { verifyChecksum } from "../checksum";
import type { LostTurn, NewWrites, StoredWrites, TurnRow } from "../store";
import { storeChunks } from "./chunks";
import { writesIdentity } from "./identities";
import type { Sql } from "./sql";
import { claimTask } from "./tasks";
import type { ThreadKey } from "./thread-keys";
import { enterThread, isThere } from "./tombstones";
import { settleAction } from "./turns";

export interface WriteRow {
  seq: number;
  node_task_id: string;
  idx: number;
  entries: string | Uint8Array;
  checksum: string;
}

const OF_CHECKPOINT = "thread = ? AND checkpoint_ns = ? AND checkpoint_id = ?";
const LIVE = `SELECT seq, node_task_id, idx, entries, checksum FROM langgraph_writes
  WHERE ${OF_CHECKPOINT} AND superseded_by IS NULL ORDER BY seq`;
const SUPERSEDE = `UPDATE langgraph_writes SET superseded_by = ? WHERE ${OF_CHECKPOINT} AND node_task_id = ? AND idx = ?
  AND superseded_by IS NULL`;
const INSERT = `INSERT INTO langgraph_writes
  (seq, thread, checkpoint_ns, checkpoint_id, node_task_id, idx, entries, checksum) VALUES (?, ?, ?, ?, ?, ?, ?, ?)`;

/**
 * A node task's regular writes replace all its earlier regular ones: a task that runs again under the same id must not keep rows of
 * its first run. Of the special ones (negative idx) each replaces its own kind.
 */
export function putWrites(sql: Sql, batch: NewWrites): { seq: number; turn: TurnRow | undefined; lost: LostTurn[] } {
  const { threadId, ns, checkpointId, nodeTaskId } = batch;
  const key = enterThread(sql, threadId, batch.createdAt, {
    begins: false,
    belongs: (on) => isThere(sql, on, ns, checkpointId),
    refersTo: checkpointId,
    saves: undefined,
    sawDeletion: batch.sawDeletion,
  });
  claimTask(sql, key, batch.claim, batch.createdAt);
  for (const { idx, entries } of batch.rows) {
    const seq = sql.nextSeq();
    sql.run(SUPERSEDE, seq, key.thread, ns, checkpointId, nodeTaskId, idx);
    storeChunks(sql, key, entries.parts);
    insertWrites(sql, key, { seq, ns, checkpointId, nodeTaskId, idx, entries: entries.text });
  }
  const settled = batch.settle === undefined ? undefined : settleAction(sql, key, batch, batch.settle);
  return { seq: sql.currentSeq(), turn: settled?.turn, lost: settled?.lost === undefined ? [] : [settled.lost] };
}

export interface WriteFields {
  seq: number;
  ns: string;
  checkpointId: string;
  nodeTaskId: string;
  idx: number;
  entries: string;
}

export function insertWrites(sql: Sql, key: ThreadKey, row: WriteFields): void {
  const { seq, ns, checkpointId, nodeTaskId, idx, entries } = row;
  const sealed = sql.sealing.seal(key.threadId, writesIdentity(row), entries);
  const checksum = sql.sealing.checksum(key.threadId, seq, ns, checkpointId, nodeTaskId, idx, entries);
  sql.run(INSERT, seq, key.thread, ns, checkpointId, nodeTaskId, idx, sealed, checksum);
}

export function liveWrites(sql: Sql, key: ThreadKey, ns: string, checkpointId: string): StoredWrites[] {
  return sql.all<WriteRow>(LIVE, key.thread, ns, checkpointId).map((row) => ({
    nodeTaskId: row.node_task_id,
    entries: openWrites(sql, key.threadId, row, ns, checkpointId),
  }));
}

/** The entries of a row, verified. */
export function openWrites(sql: Sql, threadId: string, row: WriteRow, ns: string, checkpointId: string): string {
  const { seq, node_task_id: nodeTaskId, idx, checksum } = row;
  const entries = sql.sealing.open(threadId, writesIdentity({ seq, ns, checkpointId, nodeTaskId, idx }), row.entries);
  const computed = sql.sealing.checksum(threadId, seq, ns, checkpointId, nodeTaskId, idx, entries);
  verifyChecksum(checksum, computed, `pending writes on checkpoint ${checkpointId}`, { threadId, ns, checkpointId, nodeTaskId });
  return entries;
}
