import { mismatch, threadExists } from "../move-failures";
import type { Arrival, Departure, Destination, MovedRow, MovedTo } from "../moves";
import { movedToOf } from "../moves";
import type { Program } from "../program";
import { leaseLost, threadMoved, unfinishedRewind as refusal } from "../refusals";
import type { Session } from "../session";
import { firstSeq } from "../spans";
import { LEFT, type Lease, type RunRow } from "../store";
import type { ThreadFields, ThreadState } from "../thread-state";
import { refuseEncrypted } from "./keys";
import { isThere, leaveArchive, leaveThread } from "./leftovers";
import { saveMovedRows, smallRowsToMove } from "./move-rows";
import { unfinishedRewind } from "./rewind-records";
import { clearRuns, insertRun, leftId } from "./runs";
import { countedRows } from "./row-counts";
import {
  carryDeletion,
  checkLease,
  deletionOf,
  insertThread,
  listRuns,
  newThread,
  NO_ROWS,
  sayWhere,
  takeNumber,
  threadOrSignpost,
  tombstoneOf,
} from "./thread-rows";
import { removeThread } from "./threads";

/*
 * A thread moves in these steps, each in transactions of one database. No matter where that is interrupted, the thread can be
 * written in at most one database, and read in at least one. Doing it again continues.
 *
 *   both    a run holds the thread, so that nothing else runs on it
 *   target  the rows are written under a number that nobody sees, and read again
 *   source  the thread is held: it can be read, but nothing is saved on it any more
 *   target  the thread is published, with the id of the move
 *   source  the rows are removed. A row without any others stays, which tells where the thread is
 */

const ARCHIVES = "SELECT DISTINCT rewind_id FROM langgraph_archive WHERE thread_id = ?";
const TORN_ARCHIVE = `SELECT entries, (SELECT count(*) FROM langgraph_archive WHERE rewind_id = id) AS found FROM langgraph_rewinds
  WHERE thread_id = ? AND status = 'done' AND archived = 1 AND taken_back_at IS NULL
  AND entries <> (SELECT count(*) FROM langgraph_archive WHERE rewind_id = id) LIMIT 1`;
const ABANDON = "UPDATE langgraph_leftovers SET run_id = '' WHERE run_id = ?";
const FORGET = "DELETE FROM langgraph_leftovers WHERE run_id = ?";
const REMOVE = "DELETE FROM langgraph_threads WHERE thread = ?";

/**
 * The thread as it is in the source.
 * @returns undefined if there is none
 * @throws {TurnsError} THREAD_MOVED if it's gone; REWIND_UNFINISHED
 */
export function* departure(session: Session, threadId: string): Program<Departure | undefined> {
  const key = yield* threadOrSignpost(session, threadId);
  if (key === undefined) return undefined;
  if (key.row.gone) throw threadMoved(key.row);
  yield* refuseUnfinished(session, threadId);
  const small = yield* smallRowsToMove(session, key);
  const archives = new Set((yield* session.rows<[string]>(ARCHIVES, threadId)).map(([id]) => id));
  return {
    row: { ...key.row },
    stamp: key.stamp,
    movedTo: key.row.movedTo === undefined ? undefined : movedToOf(key.row.movedTo),
    small,
    archives: [...archives],
    deletion: yield* deletionOf(session, threadId),
  };
}

function* refuseUnfinished(session: Session, threadId: string): Program {
  const rewind = yield* unfinishedRewind(session, threadId);
  if (rewind !== undefined) throw refusal(rewind, `moving thread ${JSON.stringify(threadId)}`);
}

/** What the target has under the thread's id. */
export function* destination(session: Session, threadId: string): Program<Destination> {
  const key = yield* threadOrSignpost(session, threadId);
  const grave = yield* tombstoneOf(session, threadId);
  return {
    thread: key && { gone: key.row.gone, arrived: key.row.arrived },
    deletion: grave?.deletedAt ?? 0,
    isFinal: grave?.final ?? false,
  };
}

/** Whether a run holds the thread in this database. */
export function* isHeldBy(session: Session, { runId, threadId }: Lease): Program<boolean> {
  return (yield* listRuns(session, threadId)).some((run) => run.runId === runId);
}

/**
 * Takes a number for the thread in the target.
 * @throws {TurnsError} LEASE_LOST
 */
export function* beginArrival(session: Session, lease: Lease, archives: readonly string[]): Program<Arrival> {
  yield* checkHold(session, lease);
  const { threadId, runId } = lease;
  const thread = yield* takeNumber(session);
  yield* leaveThread(session, thread, runId);
  for (const rewindId of archives) yield* leaveArchive(session, rewindId, runId);
  return { threadId, runId, thread };
}

/** @throws {TurnsError} LEASE_LOST */
export function* saveMoved(session: Session, arrival: Arrival, rows: readonly MovedRow[]): Program {
  yield* refuseRemoved(session, arrival);
  yield* saveMovedRows(session, arrival, rows);
}

/** Leaves what was written to {@link removeLeftovers}. */
export function* abandonArrival(session: Session, { runId }: Arrival): Program {
  yield* session.run(ABANDON, runId);
}

/**
 * Makes the thread one that everyone sees, unless it's there already.
 *
 * @param id of the move
 * @param lost a run of the thread that is left to recovery, from here on in this database
 * @throws {TurnsError} THREAD_EXISTS, THREAD_DELETED, ENCRYPTED, LEASE_LOST; MOVE_MISMATCH if rows were removed meanwhile
 */
export function* publishArrival(
  session: Session,
  arrival: Arrival,
  id: string,
  { row, small, deletion }: Departure,
  lost?: RunRow,
): Program {
  const { threadId, thread } = arrival;
  yield* session.lock(threadId);
  const there = yield* threadOrSignpost(session, threadId);
  if (there?.row.arrived === id && !there.row.gone) return;
  yield* checkHold(session, arrival);
  yield* refuseRemoved(session, arrival);
  if (there?.row.gone === true) {
    session.threads.delete(threadId);
    yield* session.run(REMOVE, there.thread);
  } else if (there !== undefined) throw threadExists(threadId);
  yield* carryDeletion(session, threadId, deletion);
  if (!session.sealing.encrypted) yield* refuseEncrypted(session, `Thread ${JSON.stringify(threadId)}`);
  yield* saveMovedRows(session, arrival, small);
  const counts = (yield* countedRows(session, arrival)) ?? NO_ROWS;
  for (const kind of Object.keys(NO_ROWS) as (keyof typeof NO_ROWS)[])
    if (counts[kind] !== row[kind]) throw mismatch(threadId, `${row[kind]} rows of ${kind}`, `${counts[kind]}`);
  const torn = yield* session.get<{ entries: number; found: number }>(TORN_ARCHIVE, threadId);
  if (torn !== undefined) throw mismatch(threadId, `an archive of ${torn.entries} rows`, `one of ${torn.found}`);
  const { createdAt, seq, epoch, prunedSeq, unswept } = row;
  const pruned = prunedSeq === 0 ? 0 : prunedSeq - firstSeq(row.thread) + firstSeq(thread);
  const fresh = newThread(session, thread, threadId, createdAt);
  yield* insertThread(session, { ...fresh, ...counts, seq, epoch, prunedSeq: pruned, unswept, arrived: id });
  yield* session.run(FORGET, arrival.runId);
  if (lost !== undefined) yield* insertRun(session, { ...lost, runId: leftId(id), beatAt: LEFT });
}

/**
 * Holds the thread in the source: from here on, nothing is saved on it.
 *
 * @param stamp of the thread as it was read; undefined to hold it as it is
 * @returns false if it has changed since
 * @throws {TurnsError} LEASE_LOST, THREAD_MOVED, REWIND_UNFINISHED
 */
export function* holdDeparture(session: Session, lease: Lease, movedTo: MovedTo, stamp: string | undefined): Program<boolean> {
  yield* checkHold(session, lease);
  const key = yield* threadOrSignpost(session, lease.threadId);
  if (key === undefined) return false;
  if (key.row.movedTo !== undefined) {
    if (movedToOf(key.row.movedTo).id === movedTo.id && !key.row.gone) return true;
    throw threadMoved(key.row);
  }
  if (stamp !== undefined && key.stamp !== stamp) return false;
  yield* refuseUnfinished(session, lease.threadId);
  yield* sayWhere(session, key, JSON.stringify(movedTo));
  return true;
}

/** Lets the thread be written in the source again, after a move that surely published nothing. */
export function* releaseDeparture(session: Session, lease: Lease, id: string): Program {
  yield* checkHold(session, lease);
  const key = yield* movingWith(session, lease.threadId, id);
  if (key !== undefined) yield* sayWhere(session, key, undefined);
}

/** Removes the rows of a thread that was published in the target. What is left tells where it is. */
export function* endDeparture(session: Session, threadId: string, id: string, createdAt: string): Program {
  yield* session.lock(threadId);
  const key = yield* movingWith(session, threadId, id);
  if (key === undefined) return;
  const { movedTo, arrived, epoch } = key.row;
  yield* removeThread(session, threadId);
  yield* clearRuns(
    session,
    (yield* listRuns(session, threadId)).filter(({ beatAt }) => beatAt === LEFT),
  );
  const signpost: ThreadFields = newThread(session, yield* takeNumber(session), threadId, createdAt);
  yield* insertThread(session, { ...signpost, seq: 1, epoch, movedTo, arrived, gone: true });
}

/** The thread, if it's held for that move. */
function* movingWith(session: Session, threadId: string, id: string): Program<ThreadState | undefined> {
  const key = yield* threadOrSignpost(session, threadId);
  const isMoving = key?.row.movedTo !== undefined && !key.row.gone && movedToOf(key.row.movedTo).id === id;
  return isMoving ? key : undefined;
}

/** {@link checkLease} that relies on nothing remembered: a thread that is held, or isn't there, can't tell that others took it. */
function* checkHold(session: Session, { runId, threadId }: Lease): Program {
  session.leases.delete(runId);
  yield* checkLease(session, { runId, threadId });
}

/** @throws {TurnsError} LEASE_LOST if another process has removed what was written */
function* refuseRemoved(session: Session, { thread, threadId, runId }: Arrival): Program {
  if (yield* isThere(session, { thread, rewind_id: "", run_id: runId })) return;
  throw leaseLost({ threadId }, (yield* listRuns(session, threadId))[0]);
}
