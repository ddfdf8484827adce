import { verifyChecksum } from "../checksum";
import { writesIdentity } from "./identities";
import type { Sql } from "./sql";
import type { ThreadKey } from "./thread-keys";

/** A row of `langgraph_writes`, as far as its contents go. */
export interface WriteRow {
  seq: number;
  node_task_id: string;
  idx: number;
  entries: string | Uint8Array;
  checksum: string;
}

const INSERT = `INSERT INTO langgraph_writes
  (seq, thread, checkpoint_ns, checkpoint_id, node_task_id, idx, entries, checksum) VALUES (?, ?, ?, ?, ?, ?, ?, ?)`;

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

/** The entries of a row, verified. */
export function openWrites(sql: Sql, threadId: string, row: WriteRow, ns: string, checkpointId: string): string {
  const { seq, node_task_id: nodeTaskId, idx, checksum } = row;
  const entries = sql.sealing.open(threadId, writesIdentity({ seq, ns, checkpointId, nodeTaskId, idx }), row.entries);
  const computed = sql.sealing.checksum(threadId, seq, ns, checkpointId, nodeTaskId, idx, entries);
  verifyChecksum(checksum, computed, `pending writes on checkpoint ${checkpointId}`, { threadId, ns, checkpointId, nodeTaskId });
  return entries;
}
