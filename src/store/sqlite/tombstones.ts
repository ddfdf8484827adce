import { TurnsError } from "../../errors";
import type { Sql } from "./sql";
import { createThread, type ThreadKey, threadKey } from "./thread-keys";

/** What a save says about where it belongs. */
export interface Entry {
  /** The first checkpoint of a new history: no parent, root namespace. */
  begins: boolean;
  /** The checkpoint that the save continues or belongs to. */
  refersTo: string | undefined;
  ns: string;
  /** The checkpoint that the save creates. */
  saves: string | undefined;
}

const OF_THREAD = "SELECT deleted_at, final FROM langgraph_tombstones WHERE thread_id = ?";
const BURY = "INSERT OR REPLACE INTO langgraph_tombstones (thread_id, deleted_at, final) VALUES (?, ?, ?)";
const REMOVE = "DELETE FROM langgraph_tombstones WHERE thread_id = ?";
const EXISTS =
  "SELECT 1 FROM langgraph_snapshots WHERE thread = ? AND checkpoint_ns = ? AND checkpoint_id = ? AND superseded_by IS NULL";

/**
 * The thread that a save goes to, created if there is none yet.
 *
 * @throws {TurnsError} THREAD_DELETED for a save that goes on with what was deleted: it would bring back a part of the thread
 * (langgraph#7206). A new beginning under the id is a thread of its own, unless the deletion was final.
 */
export function enterThread(sql: Sql, threadId: string, createdAt: string, entry: Entry): ThreadKey {
  const key = threadKey(sql, threadId);
  const grave = sql.get<{ deleted_at: number; final: number }>(OF_THREAD, threadId);
  if (grave !== undefined && (grave.final === 1 || isLate(sql, key, entry, grave.deleted_at))) {
    if (entry.saves !== undefined) sql.refused.add(entry.saves);
    throw threadDeleted(threadId, grave.deleted_at, grave.final === 1);
  }
  return key ?? createThread(sql, threadId, createdAt);
}

/**
 * What a save refers to may be missing for good reasons (pruned; or, with durability "exit", not saved yet), but then its id is younger
 * than the deletion, and not that of a checkpoint that was refused.
 */
function isLate(sql: Sql, key: ThreadKey | undefined, entry: Entry, deletedAt: number): boolean {
  if (entry.begins || entry.refersTo === undefined) return !entry.begins && key === undefined;
  if (key !== undefined && sql.get(EXISTS, key.thread, entry.ns, entry.refersTo) !== undefined) return false;
  return sql.refused.has(entry.refersTo) || !(timeOf(entry.refersTo) > deletedAt);
}

/** Milliseconds since the epoch at which a UUID of version 6 was made; NaN for any other id. */
export function timeOf(id: string): number {
  const [, high = "", middle = "", low = ""] = /^([0-9a-f]{8})-([0-9a-f]{4})-6([0-9a-f]{3})-/.exec(id) ?? [];
  if (high === "") return NaN;
  // 100-nanosecond intervals since 1582-10-15.
  return Number(BigInt(`0x${high}${middle}${low}`) / 10_000n) - 12_219_292_800_000;
}

export function bury(sql: Sql, threadId: string, deletedAt: number, final: boolean): void {
  sql.run(BURY, threadId, deletedAt, final ? 1 : 0);
}

/** @returns whether there was a tombstone */
export function removeTombstone(sql: Sql, threadId: string): boolean {
  return sql.run(REMOVE, threadId) > 0;
}

function threadDeleted(threadId: string, deletedAt: number, final: boolean): TurnsError {
  return new TurnsError("THREAD_DELETED", {
    what: `thread ${JSON.stringify(threadId)}`,
    expected: final ? "a thread that was not deleted for good" : "a save that begins anew, or goes on with what is there",
    found: `a thread deleted at ${new Date(deletedAt).toISOString()}`,
    remedy: "Nothing was saved. End the run that is still at work; saver.reuseThread(threadId) allows the id again.",
    data: { threadId },
  });
}
