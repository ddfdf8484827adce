import { TurnsError } from "../../errors";
import { verifyChecksum } from "../checksum";
import type { NewRewind, RewindRow } from "../store";
import type { Program, Sql } from "./sql";
import type { ThreadKey } from "./thread-key";
import { threadKey } from "./thread-keys";

/** A rewind with how many rows its archive was given. */
export interface StoredRewind extends RewindRow {
  entries: number;
}
/** A row of `langgraph_rewinds` as SQLite returns it. */
export interface RawRewind {
  id: string;
  thread_id: string;
  target_task_id: string;
  target_seq: number;
  seq: number;
  archived: number;
  created_at: string;
  taken_back_at: string | null;
  status: RewindRow["status"];
  reason: string | null;
  entries: number;
  checksum: string;
}

const COLUMNS =
  "id, thread_id, target_task_id, target_seq, seq, archived, created_at, taken_back_at, status, reason, entries, checksum";
const OF_THREAD = `SELECT ${COLUMNS} FROM langgraph_rewinds WHERE thread_id = ? ORDER BY seq`;
const BY_ID = `SELECT ${COLUMNS} FROM langgraph_rewinds WHERE id = ?`;
/** A rewind that was begun is on record already. */
const SAVE = `INSERT INTO langgraph_rewinds (${COLUMNS}) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)
  ON CONFLICT (id) DO UPDATE SET ${COLUMNS.split(", ")
    .slice(1)
    .map((column) => `${column} = excluded.${column}`)
    .join(", ")}`;

/** For those who need not know how many rows an archive has. */
export function publicRewind({ entries: _, ...rewind }: StoredRewind): RewindRow {
  return rewind;
}

export function* listRewinds(sql: Sql, threadId: string): Program<StoredRewind[]> {
  return (yield* sql.all<RawRewind>(OF_THREAD, threadId)).map((row) => toRewind(sql, row));
}

/** Those of a thread, for whoever asks; one whose row was moved to another thread is missed. @throws {TurnsError} CHECKPOINT_CORRUPTED */
export function* rewindsOf(sql: Sql, threadId: string): Program<RewindRow[]> {
  yield* threadKey(sql, threadId);
  return (yield* listRewinds(sql, threadId)).map(publicRewind);
}

/** There is at most one of a thread. */
export function* unfinishedRewind(sql: Sql, threadId: string): Program<StoredRewind | undefined> {
  return (yield* listRewinds(sql, threadId)).find(({ status }) => status === "undoing");
}

export function* countRewinds(sql: Sql, threadId: string, reason: string): Program<number> {
  return (yield* listRewinds(sql, threadId)).filter((rewind) => rewind.reason === reason && rewind.status !== "abandoned").length;
}

/** @throws {TurnsError} REWIND_NOT_FOUND */
export function* rewindOf(sql: Sql, rewindId: string): Program<StoredRewind> {
  const row = yield* sql.get<RawRewind>(BY_ID, rewindId);
  if (row !== undefined) return toRewind(sql, row);
  throw new TurnsError("REWIND_NOT_FOUND", {
    what: `rewind ${JSON.stringify(rewindId)}`,
    expected: "the id of a rewind on record",
    found: "none of that id",
    remedy: "saver.listRewinds(threadId) shows which there are.",
    data: { rewindId },
  });
}

/**
 * Puts a rewind on record as of now.
 *
 * @param targetSeq all above it goes, or is to go
 * @param entries how many rows went to the archive
 */
export function* saveRewind(
  sql: Sql,
  key: ThreadKey,
  rewind: NewRewind,
  status: RewindRow["status"],
  targetSeq: number,
  entries = 0,
): Program<StoredRewind> {
  const row: StoredRewind = { ...rewind, targetSeq, seq: key.nextSeq(), takenBackAt: undefined, status, entries };
  if ((yield* sql.get(BY_ID, rewind.id)) === undefined) key.count("others");
  yield* writeRewind(sql, row);
  return row;
}

/** @throws {TurnsError} REWIND_NOT_FOUND */
export function* changeRewind(sql: Sql, rewindId: string, change: Partial<StoredRewind>): Program<void> {
  yield* writeRewind(sql, { ...(yield* rewindOf(sql, rewindId)), ...change });
}

function* writeRewind(sql: Sql, row: StoredRewind): Program<void> {
  yield* sql.run(
    SAVE,
    row.id,
    row.threadId,
    row.targetTaskId,
    row.targetSeq,
    row.seq,
    row.archived ? 1 : 0,
    row.createdAt,
    row.takenBackAt ?? null,
    row.status,
    row.reason ?? null,
    row.entries,
    checksumOf(sql, row),
  );
}

/** The rewind of a row, verified. @throws {TurnsError} CHECKPOINT_CORRUPTED */
export function toRewind(sql: Sql, row: RawRewind): StoredRewind {
  const rewind: StoredRewind = {
    id: row.id,
    threadId: row.thread_id,
    targetTaskId: row.target_task_id,
    targetSeq: row.target_seq,
    seq: row.seq,
    archived: row.archived === 1,
    createdAt: row.created_at,
    takenBackAt: row.taken_back_at ?? undefined,
    status: row.status,
    reason: row.reason ?? undefined,
    entries: row.entries,
  };
  const { id: rewindId, threadId } = rewind;
  verifyChecksum(row.checksum, checksumOf(sql, rewind), `rewind ${rewindId} of thread ${threadId}`, { threadId, rewindId });
  return rewind;
}

function checksumOf(sql: Sql, row: StoredRewind): string {
  const { id, threadId, targetTaskId, targetSeq, seq, archived, createdAt, takenBackAt, status, reason, entries } = row;
  const numbers = [targetSeq, seq, archived ? 1 : 0, entries];
  return sql.sealing.checksum(threadId, "rewind", id, targetTaskId, ...numbers, createdAt, takenBackAt, status, reason);
}
