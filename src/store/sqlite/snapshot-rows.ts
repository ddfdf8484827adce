import { corrupted, verifyChecksum } from "../checksum";
import type { CheckpointHead } from "../store";
import { metadataIdentity } from "./identities";
import { parseManifest } from "./manifest";
import type { Program, Sql } from "./sql";
import type { ThreadKey } from "./thread-key";

/** A row of `langgraph_snapshots`, as far as its contents go. */
export interface Row {
  seq: number;
  thread: number;
  checkpoint_ns: string;
  checkpoint_id: string;
  position: number;
  parent_checkpoint_id: string | null;
  source: string;
  step: number;
  run_id: string | null;
  created_at: number;
  delta: string | null;
  body: string;
  channels: string;
  metadata: string | Uint8Array;
  checksum: string;
  superseded_by: number | null;
}

export const SNAPSHOT_COLUMNS =
  "seq, thread, checkpoint_ns, checkpoint_id, position, parent_checkpoint_id, source, step, run_id, created_at, delta, body, channels, " +
  "metadata, checksum, superseded_by";
const INSERT = `INSERT INTO langgraph_snapshots (seq, thread, checkpoint_ns, checkpoint_id, position, parent_checkpoint_id, source, step,
  run_id, created_at, delta, body, channels, metadata, checksum) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)`;

export interface SnapshotFields {
  seq: number;
  ns: string;
  checkpointId: string;
  /** The seq of the checkpoint's first version. */
  position: number;
  parentId: string | undefined;
  source: string;
  step: number;
  runId: string | undefined;
  createdAt: number;
  delta: string | undefined;
  body: string;
  channels: string;
  metadata: string;
}

export function* insertSnapshot(sql: Sql, key: ThreadKey, row: SnapshotFields): Program<void> {
  key.count("snapshots");
  yield* sql.run(
    INSERT,
    row.seq,
    key.thread,
    row.ns,
    row.checkpointId,
    row.position,
    row.parentId ?? null,
    row.source,
    row.step,
    row.runId ?? null,
    row.createdAt,
    row.delta ?? null,
    row.body,
    row.channels,
    sql.sealing.seal(key.threadId, metadataIdentity(row), row.metadata),
    checksumOf(sql, key.threadId, row),
  );
}

/** Over all that never changes; superseded_by is updated in place. */
function checksumOf(sql: Sql, threadId: string, row: SnapshotFields): string {
  const { seq, ns, checkpointId, position, parentId, source, step, runId, createdAt, delta, body, channels, metadata } = row;
  const { sealing } = sql;
  return sealing.checksum(
    threadId,
    seq,
    ns,
    checkpointId,
    position,
    parentId,
    source,
    step,
    runId,
    createdAt,
    delta,
    body,
    channels,
    metadata,
  );
}

/** A row, verified. */
export function toHead(sql: Sql, threadId: string, row: Row): CheckpointHead {
  const { seq, checkpoint_ns: ns, checkpoint_id: checkpointId, position, body, channels } = row;
  const parentId = row.parent_checkpoint_id ?? undefined;
  const metadata = sql.sealing.open(threadId, metadataIdentity({ seq, ns, checkpointId }), row.metadata);
  const computed = checksumOf(sql, threadId, {
    seq,
    ns,
    checkpointId,
    position,
    parentId,
    source: row.source,
    step: row.step,
    runId: row.run_id ?? undefined,
    createdAt: row.created_at,
    delta: row.delta ?? undefined,
    body,
    channels,
    metadata,
  });
  verifyChecksum(row.checksum, computed, `checkpoint ${checkpointId} of thread ${threadId}`, { threadId, ns, checkpointId });
  return { threadId, ns, checkpointId, position, parentId, seq, body, metadata, channels: parseManifest(channels) };
}

/** The row that counts as its checkpoint's newest version, verified: none supersedes it. */
export function toLiveHead(sql: Sql, threadId: string, row: Row): CheckpointHead {
  const head = toHead(sql, threadId, row);
  if (row.superseded_by === null) return head;
  const { ns, checkpointId } = head;
  throw corrupted(`checkpoint ${checkpointId} of thread ${threadId}`, "its newest version", "one that is marked as superseded", {
    threadId,
    ns,
    checkpointId,
  });
}
