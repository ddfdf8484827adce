import { SNAPSHOT_ROWS } from "../rows";
import type { CheckpointHead } from "../store";
import { type RawSnapshot, toLiveHead } from "./snapshot-rows";
import type { Program } from "../program";
import type { Sql } from "../session";
import { headKey, type KnownHead, type ThreadKey } from "../thread-state";

/** Of the versions of a checkpoint the one with the greatest seq counts; that the others are superseded is verified, not relied upon. */
export const BY_ID = SNAPSHOT_ROWS.select(
  "WHERE thread = ? AND checkpoint_ns = ? AND checkpoint_id = ? ORDER BY seq DESC LIMIT 1",
);

const GREATEST_ID = "SELECT max(checkpoint_id) AS id FROM langgraph_snapshots WHERE thread = ? AND checkpoint_ns = ?";

/** What saves know of a checkpoint: remembered, or read. */
export function* knownHead(sql: Sql, key: ThreadKey, ns: string, checkpointId: string): Program<KnownHead | undefined> {
  const remembered = key.facts.heads.get(headKey(ns, checkpointId));
  if (remembered !== undefined) return remembered;
  const row = yield* sql.get<RawSnapshot>(BY_ID, key.thread, ns, checkpointId);
  if (row === undefined) return undefined;
  const { position, parentId, step, channels } = toLiveHead(sql, key.threadId, row);
  return rememberHead(key, { ns, checkpointId, position, parentId, step, channels, writes: undefined });
}

/** What saves know of a checkpoint that they are about to save: mostly that it is new, as its id is greater than all others. */
export function* savedBefore(sql: Sql, key: ThreadKey, ns: string, checkpointId: string): Program<KnownHead | undefined> {
  const { heads, greatestIds } = key.facts;
  const remembered = heads.get(headKey(ns, checkpointId));
  if (remembered !== undefined) return remembered;
  let greatest = greatestIds.get(ns);
  if (greatest === undefined) {
    greatest = (yield* sql.get<{ id: string | null }>(GREATEST_ID, key.thread, ns))?.id ?? null;
    greatestIds.set(ns, greatest);
  }
  if (greatest !== null && !isGreater(checkpointId, greatest)) return yield* knownHead(sql, key, ns, checkpointId);
  greatestIds.set(ns, checkpointId);
  return undefined;
}

/** In the order of SQLite, which compares bytes. */
function isGreater(left: string, right: string): boolean {
  return Buffer.compare(Buffer.from(left), Buffer.from(right)) > 0;
}

export function rememberHead({ facts }: ThreadKey, head: KnownHead): KnownHead {
  facts.heads.set(headKey(head.ns, head.checkpointId), head);
  return head;
}

/** What new values go on from is verified as what is read: a damaged row must not be built upon. */
export function* headOf(sql: Sql, key: ThreadKey, ns: string, checkpointId: string): Program<CheckpointHead | undefined> {
  const row = yield* sql.get<RawSnapshot>(BY_ID, key.thread, ns, checkpointId);
  return row === undefined ? undefined : toLiveHead(sql, key.threadId, row);
}
