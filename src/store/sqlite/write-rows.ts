import { verifyChecksum } from "../checksum";
import { writesIdentity } from "./identities";
import type { Program, Sql } from "./sql";
import type { ThreadKey } from "./thread-key";

/** A row of `langgraph_writes`, as far as its contents go. */
export interface WriteRow {
  seq: number;
  node_task_id: string;
  task_path: string;
  idx: number;
  entries: string | Uint8Array;
  checksum: string;
}

/** A row with the checkpoint it belongs to: all that {@link openWrites} needs. */
export interface PlacedWrites extends WriteRow {
  checkpoint_ns: string;
  checkpoint_id: string;
}

/** The columns of {@link PlacedWrites}. */
export const WRITE_COLUMNS = "seq, checkpoint_ns, checkpoint_id, node_task_id, task_path, idx, entries, checksum";

const INSERT = `INSERT INTO langgraph_writes
  (seq, thread, checkpoint_ns, checkpoint_id, node_task_id, task_path, idx, entries, checksum) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?)`;

export interface WriteFields {
  seq: number;
  ns: string;
  checkpointId: string;
  nodeTaskId: string;
  taskPath: string;
  idx: number;
  entries: string;
}

export function* insertWrites(sql: Sql, key: ThreadKey, row: WriteFields): Program<void> {
  key.count("writes");
  const { seq, ns, checkpointId, nodeTaskId, taskPath, idx, entries } = row;
  const sealed = sql.sealing.seal(key.threadId, writesIdentity(row), entries);
  const checksum = sql.sealing.checksum(key.threadId, seq, ns, checkpointId, nodeTaskId, taskPath, idx, entries);
  yield* sql.run(INSERT, seq, key.thread, ns, checkpointId, nodeTaskId, taskPath, idx, sealed, checksum);
}

/** The entries of a row, verified. */
export function openWrites(sql: Sql, threadId: string, row: WriteRow, ns: string, checkpointId: string): string {
  const { seq, node_task_id: nodeTaskId, task_path: taskPath, idx, checksum } = row;
  const entries = sql.sealing.open(threadId, writesIdentity({ seq, ns, checkpointId, nodeTaskId, idx }), row.entries);
  const computed = sql.sealing.checksum(threadId, seq, ns, checkpointId, nodeTaskId, taskPath, idx, entries);
  verifyChecksum(checksum, computed, `pending writes on checkpoint ${checkpointId}`, { threadId, ns, checkpointId, nodeTaskId });
  return entries;
}
