import { open } from "node:fs/promises";
import type { Awaitable, CopyOrder } from "../store";
import { uptime } from "../../system";
import type { CopyPath, RowWrite } from "../ops/copy-path";
import type { SqliteDatabase } from "./driver";
import { translated } from "./failures";
import { forgetLeftover, isGone, isLarge, isThere, type Leftover, leaveThread } from "../ops/leftovers";
import { snapshotOf, pathOf } from "./open-database";
import { beatRuns, beginCopyRun } from "../ops/runs";
import { sessionOn, type SqliteSession } from "./engine";
import type { Statement, Program } from "../program";
import { beginCopy, copyAtOnce, copyRows, isComplete, isOutdated, publishCopy, refuseTaken, sourceOf } from "../ops/thread-copy";
import { threadKey } from "../ops/thread-rows";
import { othersFirst } from "../../timers";

/** A piece is complete at the first of these two limits. Writing rows takes about twice as long as reading them. */
const READ_MS = 5;
const ROWS_PER_PIECE = 500;

interface CopyParts {
  db: SqliteDatabase;
  session: SqliteSession;
  write: <T>(work: () => T) => Awaitable<T>;
  /** `write` without waiting for the disk. The last transaction of a copy waits for all before it. */
  writeUnsynced: <T>(work: () => T) => Awaitable<T>;
  /** Runs work outside of any transaction, after everything that was handed in before it. */
  inTurn: <T>(work: () => T) => Awaitable<T>;
}

/**
 * Copies a thread: a small one in one transaction, a large one in short transactions. Between those, the event loop runs and
 * others save. A separate connection reads the source in one transaction, so the copy shows one moment of it. The copy's rows use
 * a number that nobody reads until the last transaction makes it a thread.
 *
 * @returns whether the thread was copied. If not, rows of the source were deleted or restored meanwhile, or rows of the copy
 *   removed: by CheckpointPersister, or by a process that took this one for dead.
 * @throws {TurnsError} THREAD_NOT_FOUND, THREAD_EXISTS, REWIND_UNFINISHED, CHECKPOINT_CORRUPTED, and what a save throws
 */
export async function copyThread(parts: CopyParts, order: CopyOrder): Promise<boolean> {
  const { db, session, write } = parts;
  if (await write(() => session.now(isCopiedAtOnce(session, order, order.atOnce || db.memory)))) return true;
  const reader = await parts.inTurn(() => snapshotIfReadable(db));
  if (reader === undefined) return write(() => session.now(isCopiedAtOnce(session, order, true)));
  try {
    return await copyInPieces(parts, sessionOn(reader, session.sealing, true), order);
  } catch (error) {
    throw translated(error, db.name);
  } finally {
    reader.close();
  }
}

/** @returns whether it was copied; a large thread is copied here only if it has to be */
function* isCopiedAtOnce(session: SqliteSession, order: CopyOrder, hasToBe: boolean): Program<boolean> {
  const source = yield* threadKey(session, order.sourceId);
  if (!hasToBe && source !== undefined && (yield* isLarge(session, source.thread))) {
    yield* refuseTaken(session, order.targetId);
    return false;
  }
  yield* copyAtOnce(session, order);
  return true;
}

/** Undefined if only the caller's own connection can read the file, for example one that decrypts it. */
function snapshotIfReadable(db: SqliteDatabase): SqliteDatabase | undefined {
  try {
    return snapshotOf(db);
  } catch {
    return undefined;
  }
}

async function copyInPieces(parts: CopyParts, from: SqliteSession, order: CopyOrder): Promise<boolean> {
  const { db, session, write, writeUnsynced } = parts;
  const { runId } = order.run;
  const source = from.now(sourceOf(from, order.sourceId));
  const read: RowWrite[] = [];
  const path = await writeUnsynced(() => {
    // eslint-disable-next-line require-yield -- it is written later
    const later = function* (one: RowWrite): Program {
      read.push(one);
    };
    const begun = session.now(beginCopy(from, source, session, order, later));
    session.now(beginCopyRun(session, { ...order.run, beatAt: uptime() }));
    session.now(leaveThread(session, begun.target.thread, runId));
    return begun;
  });
  const leftover = { thread: path.target.thread, rewind_id: "", run_id: runId };
  let isPublished = false;
  try {
    if (await arePiecesWritten(parts, from, path, read, leftover)) {
      await synchronisedLog(db);
      isPublished = await write(() => session.now(publishIfWhole(session, path, leftover)));
    }
  } finally {
    if (!isPublished) await removed(parts, leftover);
  }
  return isPublished;
}

/**
 * @param read gets what is to be written
 * @returns false if another process took this one for dead
 */
async function arePiecesWritten(
  { session, writeUnsynced }: CopyParts,
  from: SqliteSession,
  path: CopyPath,
  read: RowWrite[],
  leftover: Leftover,
): Promise<boolean> {
  const reading = copyRows(path);
  let step = reading.next();
  for (let isLast = false; !isLast;) {
    await othersFirst();
    const until = uptime() + READ_MS;
    while (step.done !== true && read.length < ROWS_PER_PIECE && uptime() < until)
      step = reading.next(from.now(answerTo(step.value)));
    isLast = step.done === true;
    const piece = read.splice(0);
    if (!(await writeUnsynced(() => session.now(isPieceWritten(session, piece, leftover))))) return false;
  }
  return true;
}

function* answerTo(statement: Statement): Program<unknown> {
  return yield statement;
}

function* isPieceWritten(session: SqliteSession, piece: readonly RowWrite[], leftover: Leftover): Program<boolean> {
  if (!(yield* isThere(session, leftover))) return false;
  yield* beatRuns(session, [leftover.run_id], uptime());
  for (const write of piece) yield* write();
  return true;
}

/** @returns false if rows of the source were deleted or restored since it was read, or rows of the copy removed */
function* publishIfWhole(session: SqliteSession, path: CopyPath, leftover: Leftover): Program<boolean> {
  if (!(yield* isThere(session, leftover)) || (yield* isOutdated(path)) || !(yield* isComplete(path))) return false;
  yield* publishCopy(path);
  yield* forgetLeftover(session, leftover);
  return true;
}

/** Removes what was written of an abandoned copy. */
async function removed({ db, session, writeUnsynced }: CopyParts, leftover: Leftover): Promise<void> {
  try {
    while (db.open && !(await writeUnsynced(() => session.now(isGone(session, leftover))))) await othersFirst();
  } catch {
    // Report the copy's own error. The rest is removed with the next deletion, or when the file is opened again.
  }
}

/** Writes the pieces to the disk without blocking the event loop, so that the last transaction has little left to wait for. */
async function synchronisedLog(db: SqliteDatabase): Promise<void> {
  try {
    const log = await open(`${pathOf(db)}-wal`, "r");
    try {
      await log.sync();
    } finally {
      await log.close();
    }
  } catch {
    // The last transaction syncs too, and reports what is wrong.
  }
}
