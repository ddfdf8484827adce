import { TurnsError } from "../../errors";
import { type Program, question, type Statement } from "../program";
import { REWIND_ROWS } from "../rows";
import type { Session } from "../session";
import type { NewRewind, RewindRow } from "../store";
import type { RawOf, REWINDS, RowOf } from "../tables";
import type { ThreadState } from "../thread-state";
import { threadKey } from "./thread-rows";

/** A rewind with the number of rows in its archive. */
export type StoredRewind = RowOf<typeof REWINDS>;
export type RawRewind = RawOf<typeof REWINDS>;

const REWINDS_OF = REWIND_ROWS.select("WHERE thread_id = ? ORDER BY seq");
const BY_ID = REWIND_ROWS.select("WHERE id = ?");

/** Drops the number of archived rows, for callers that don't need it. */
export function publicRewind({ entries: _, ...rewind }: StoredRewind): RewindRow {
  return rewind;
}

/** What {@link listRewinds} asks. */
export function rewindsQuestion(threadId: string): Statement {
  return question("all", REWINDS_OF, threadId);
}

export function* listRewinds(session: Session, threadId: string): Program<StoredRewind[]> {
  return (yield* session.all<RawRewind>(REWINDS_OF, threadId)).map((row) => toRewind(session, row));
}

/**
 * The rewinds of a thread. It misses one whose row was moved to another thread.
 * @throws {TurnsError} CHECKPOINT_CORRUPTED
 */
export function* rewindsOf(session: Session, threadId: string): Program<RewindRow[]> {
  yield* threadKey(session, threadId);
  return (yield* listRewinds(session, threadId)).map(publicRewind);
}

/** A thread has at most one. */
export function* unfinishedRewind(session: Session, threadId: string): Program<StoredRewind | undefined> {
  return (yield* listRewinds(session, threadId)).find(({ status }) => status === "undoing");
}

export function* countRewinds(session: Session, threadId: string, reason: string): Program<number> {
  return (yield* listRewinds(session, threadId)).filter((rewind) => rewind.reason === reason && rewind.status !== "abandoned")
    .length;
}

/** @throws {TurnsError} REWIND_NOT_FOUND */
export function* rewindOf(session: Session, rewindId: string): Program<StoredRewind> {
  const row = yield* session.get<RawRewind>(BY_ID, rewindId);
  if (row !== undefined) return toRewind(session, row);
  throw new TurnsError("REWIND_NOT_FOUND", {
    problem: `No rewind ${JSON.stringify(rewindId)} is on record.`,
    remedy: "saver.rewinds.list(threadId) shows which there are.",
    data: { rewindId },
  });
}

/** What {@link saveRewind} asks. */
export function savedQuestion({ id }: Pick<NewRewind, "id">): Statement {
  return question("one", BY_ID, id);
}

/**
 * Records a rewind as of now.
 * @param targetSeq everything above it is deleted, or will be
 * @param entries how many rows went to the archive
 */
export function* saveRewind(
  session: Session,
  key: ThreadState,
  rewind: NewRewind,
  status: RewindRow["status"],
  targetSeq: number,
  entries = 0,
): Program<StoredRewind> {
  const row: StoredRewind = { ...rewind, targetSeq, seq: key.nextSeq(), takenBackAt: undefined, status, entries };
  if ((yield* session.get(BY_ID, rewind.id)) === undefined) key.count("others");
  yield* writeRewind(session, row);
  return row;
}

/** @throws {TurnsError} REWIND_NOT_FOUND */
export function* changeRewind(session: Session, rewindId: string, change: Partial<StoredRewind>): Program<void> {
  yield* writeRewind(session, { ...(yield* rewindOf(session, rewindId)), ...change });
}

/** A rewind that was begun is already on record. */
function* writeRewind(session: Session, row: StoredRewind): Program<void> {
  yield* session.run(REWIND_ROWS.save, ...REWIND_ROWS.values(session.sealing, { thread: null, threadId: row.threadId }, row));
}

/** The rewind of a row, verified. @throws {TurnsError} CHECKPOINT_CORRUPTED */
export function toRewind(session: Session, row: RawRewind): StoredRewind {
  return REWIND_ROWS.parse(session.sealing, row.thread_id, row);
}
