import { SNAPSHOT_ROWS } from "../rows";
import type { CheckpointHead } from "../store";
import { type RawSnapshot, toLiveHead } from "./snapshot-rows";
import type { Program, Sql } from "./sql";
import { headKey, type KnownHead } from "./thread-facts";
import type { ThreadKey } from "./thread-key";

/** Of the versions of a checkpoint the one with the greatest seq counts; that the others are superseded is verified, not relied upon. */
export const BY_ID = SNAPSHOT_ROWS.select(
  "WHERE thread = ? AND checkpoint_ns = ? AND checkpoint_id = ? ORDER BY seq DESC LIMIT 1",
);

const greatestIn = (table: string): string =>
  `SELECT max(checkpoint_id) AS id FROM ${table} WHERE thread = ?1 AND checkpoint_ns = ?2`;
const GREATEST_ID = `SELECT max(id) AS id FROM (${greatestIn("langgraph_snapshots")} UNION ALL ${greatestIn("langgraph_writes")})`;

/** What saves know of a checkpoint: remembered, or read. */
export function* knownHead(sql: Sql, key: ThreadKey, ns: string, checkpointId: string): Program<KnownHead | undefined> {
  const remembered = key.facts.heads.get(headKey(ns, checkpointId));
  if (remembered !== undefined) return remembered;
  const row = yield* sql.get<RawSnapshot>(BY_ID, key.thread, ns, checkpointId);
  if (row === undefined) return undefined;
  const { position, parentId, step, channels } = toLiveHead(sql, key.threadId, row);
  return rememberHead(key, { ns, checkpointId, position, parentId, step, channels, writes: undefined });
}

/** What is there already of a checkpoint that is about to be saved. */
export interface SavedBefore {
  /** Its last version. */
  head: KnownHead | undefined;
  /** {@link KnownHead.writes}: a checkpoint may have writes before it is saved. */
  writes: KnownHead["writes"];
}

/** Mostly nothing, and nothing is read: the checkpoint's id is greater than all that its namespace has had. */
export function* savedBefore(sql: Sql, key: ThreadKey, ns: string, checkpointId: string): Program<SavedBefore> {
  const { heads, greatestIds } = key.facts;
  const remembered = heads.get(headKey(ns, checkpointId));
  if (remembered !== undefined) return { head: remembered, writes: remembered.writes };
  let greatest = greatestIds.get(ns);
  if (greatest === undefined) {
    greatest = (yield* sql.get<{ id: string | null }>(GREATEST_ID, key.thread, ns))?.id ?? null;
    greatestIds.set(ns, greatest);
  }
  if (greatest !== null && !isGreater(checkpointId, greatest)) {
    const head = yield* knownHead(sql, key, ns, checkpointId);
    return { head, writes: head?.writes };
  }
  greatestIds.set(ns, checkpointId);
  return { head: undefined, writes: new Set() };
}

/** A checkpoint that may not have been saved yet gets writes. */
export function writtenEarly({ facts: { greatestIds } }: ThreadKey, ns: string, checkpointId: string): void {
  const greatest = greatestIds.get(ns);
  if (greatest === null || (greatest !== undefined && isGreater(checkpointId, greatest))) greatestIds.set(ns, checkpointId);
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
