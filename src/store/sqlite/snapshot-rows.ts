import { corrupted } from "../checksum";
import { SNAPSHOT_ROWS } from "../rows";
import type { CheckpointHead } from "../store";
import type { RawOf, SNAPSHOTS } from "../tables";
import { parseManifest } from "./manifest";
import type { Sql } from "../session";

export type RawSnapshot = RawOf<typeof SNAPSHOTS>;

/** A row, verified. */
export function toHead(sql: Sql, threadId: string, raw: RawSnapshot): CheckpointHead {
  const row = SNAPSHOT_ROWS.parse(sql.sealing, threadId, raw);
  return { ...row, threadId, channels: parseManifest(row.channels) };
}

/** The row that counts as its checkpoint's newest version, verified: none supersedes it. */
export function toLiveHead(sql: Sql, threadId: string, row: RawSnapshot): CheckpointHead {
  const head = toHead(sql, threadId, row);
  if (row.superseded_by === null) return head;
  const { ns, checkpointId } = head;
  throw corrupted(`checkpoint ${checkpointId} of thread ${threadId}`, "its newest version", "one that is marked as superseded", {
    threadId,
    ns,
    checkpointId,
  });
}
