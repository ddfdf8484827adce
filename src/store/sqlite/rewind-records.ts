import { TurnsError } from "../../errors";
import type { NewRewind, RewindRow } from "../store";
import type { Sql } from "./sql";

/** A row of `langgraph_rewinds` as SQLite returns it. */
interface Row {
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
}

const COLUMNS = "id, thread_id, target_task_id, target_seq, seq, archived, created_at, taken_back_at, status, reason";
const OF_THREAD = `SELECT ${COLUMNS} FROM langgraph_rewinds WHERE thread_id = ? ORDER BY seq`;
const BY_ID = `SELECT ${COLUMNS} FROM langgraph_rewinds WHERE id = ?`;
const UNFINISHED = `SELECT ${COLUMNS} FROM langgraph_rewinds WHERE thread_id = ? AND status = 'undoing'`;
/** A rewind that was begun is on record already. */
const SAVE = `INSERT OR REPLACE INTO langgraph_rewinds (${COLUMNS}) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?)`;
const COUNT = "SELECT count(*) AS n FROM langgraph_rewinds WHERE thread_id = ? AND reason = ? AND status <> 'abandoned'";

export function listRewinds(sql: Sql, threadId: string): RewindRow[] {
  return sql.all<Row>(OF_THREAD, threadId).map(toRewind);
}

/** There is at most one of a thread. */
export function unfinishedRewind(sql: Sql, threadId: string): RewindRow | undefined {
  const row = sql.get<Row>(UNFINISHED, threadId);
  return row === undefined ? undefined : toRewind(row);
}

export function countRewinds(sql: Sql, threadId: string, reason: string): number {
  return sql.get<{ n: number }>(COUNT, threadId, reason)?.n ?? 0;
}

/** @throws {TurnsError} REWIND_NOT_FOUND */
export function rewindOf(sql: Sql, rewindId: string): RewindRow {
  const row = sql.get<Row>(BY_ID, rewindId);
  if (row !== undefined) return toRewind(row);
  throw new TurnsError("REWIND_NOT_FOUND", {
    what: `rewind ${JSON.stringify(rewindId)}`,
    expected: "the id of a rewind on record",
    found: "none of that id",
    remedy: "saver.listRewinds(threadId) shows which there are.",
    data: { rewindId },
  });
}

/** Puts a rewind on record as of now. @param targetSeq all above it goes, or is to go */
export function saveRewind(sql: Sql, rewind: NewRewind, status: RewindRow["status"], targetSeq: number): RewindRow {
  const row: RewindRow = { ...rewind, targetSeq, seq: sql.nextSeq(), takenBackAt: undefined, status };
  sql.run(
    SAVE,
    row.id,
    row.threadId,
    row.targetTaskId,
    row.targetSeq,
    row.seq,
    row.archived ? 1 : 0,
    row.createdAt,
    null,
    row.status,
    row.reason ?? null,
  );
  return row;
}

function toRewind(row: Row): RewindRow {
  return {
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
  };
}
