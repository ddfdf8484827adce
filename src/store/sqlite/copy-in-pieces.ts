import { open } from "node:fs/promises";
import type { Awaitable, CopyOrder } from "../store";
import { uptime } from "../../uptime";
import type { CopyPath, RowWrite, RowWrites } from "./copy-path";
import type { SqliteDatabase } from "./driver";
import { translated } from "./failures";
import { forgetLeftover, isGone, isLarge, isThere, type Leftover, leaveThread } from "./leftovers";
import { snapshotOf } from "./open-database";
import { pathOf } from "./opened-file";
import { beatRun, beginCopyRun } from "../ops/runs";
import { sqlOn, type SqliteSql } from "./engine";
import type { Program } from "../program";
import { beginCopy, copiedRows, copyAtOnce, isComplete, isOutdated, publishCopy, refuseTaken, sourceOf } from "./thread-copy";
import { threadKey } from "../ops/thread-rows";

/** A piece ends with whichever comes first. Writing rows takes about twice as long as reading them. */
const READ_MS = 5;
const ROWS_PER_PIECE = 500;

/** What copying needs of the store around it. */
export interface CopyParts {
  db: SqliteDatabase;
  sql: SqliteSql;
  write: <T>(work: () => T) => Awaitable<T>;
  /** As `write`, without waiting for the disk. The last transaction of a copy waits for all before it. */
  writeUnsynced: <T>(work: () => T) => Awaitable<T>;
  /** Runs work that no transaction may be around, behind everything that was handed in before it. */
  inTurn: <T>(work: () => T) => Awaitable<T>;
}

/**
 * Copies a thread: a small one in one transaction, a large one in short transactions, between which the event loop runs and others save.
 * The source is read by a connection of its own, in one transaction, so the copy shows one moment of it. Its rows stand under a number
 * that nobody reads until the last transaction makes it a thread.
 *
 * @returns whether the thread was copied. If not, rows of the source were deleted or brought back meanwhile, or rows of the copy
 *   removed: by CheckpointPersister, or by somebody who took this process for dead.
 * @throws {TurnsError} THREAD_NOT_FOUND, THREAD_EXISTS, REWIND_UNFINISHED, CHECKPOINT_CORRUPTED, and what a save throws
 */
export async function copyThread(parts: CopyParts, order: CopyOrder): Promise<boolean> {
  const { db, sql, write } = parts;
  if (await write(() => sql.now(isCopiedAtOnce(sql, order, order.atOnce || db.memory)))) return true;
  const reader = await parts.inTurn(() => snapshotIfReadable(db));
  if (reader === undefined) return write(() => sql.now(isCopiedAtOnce(sql, order, true)));
  try {
    return await copyInPieces(parts, sqlOn(reader, sql.sealing), order);
  } catch (error) {
    throw translated(error, db.name);
  } finally {
    reader.close();
  }
}

/** @returns whether it was: a large thread is not, unless it has to be */
function* isCopiedAtOnce(sql: SqliteSql, order: CopyOrder, hasToBe: boolean): Program<boolean> {
  const source = yield* threadKey(sql, order.sourceId);
  if (!hasToBe && source !== undefined && (yield* isLarge(sql, source.thread))) {
    yield* refuseTaken(sql, order.targetId);
    return false;
  }
  yield* copyAtOnce(sql, order);
  return true;
}

/** None, where only the caller's own connection can read the file: one that decrypts it, say. */
function snapshotIfReadable(db: SqliteDatabase): SqliteDatabase | undefined {
  try {
    return snapshotOf(db);
  } catch {
    return undefined;
  }
}

async function copyInPieces(parts: CopyParts, from: SqliteSql, order: CopyOrder): Promise<boolean> {
  const { db, sql, write, writeUnsynced } = parts;
  const { runId } = order.run;
  const source = from.now(sourceOf(from, order.sourceId));
  const path = await writeUnsynced(() => {
    const begun = sql.now(beginCopy(from, source, sql, order));
    sql.now(beginCopyRun(sql, { ...order.run, beatAt: uptime() }));
    sql.now(leaveThread(sql, begun.target.thread, runId));
    return begun;
  });
  const leftover = { thread: path.target.thread, rewind_id: "", run_id: runId };
  let isPublished = false;
  try {
    if (await arePiecesWritten(parts, path, leftover)) {
      await synchronisedLog(db);
      isPublished = await write(() => sql.now(publishIfWhole(sql, path, leftover)));
    }
  } finally {
    if (!isPublished) await removed(parts, leftover);
  }
  return isPublished;
}

/** @returns false if somebody took this process for dead */
async function arePiecesWritten({ sql, writeUnsynced }: CopyParts, path: CopyPath, leftover: Leftover): Promise<boolean> {
  const rows = copiedRows(path);
  for (let isLast = false; !isLast;) {
    await othersFirst();
    const piece: RowWrite[] = [];
    isLast = isReadFor(READ_MS, rows, piece);
    if (!(await writeUnsynced(() => sql.now(isPieceWritten(sql, piece, leftover))))) return false;
  }
  return true;
}

function* isPieceWritten(sql: SqliteSql, piece: readonly RowWrite[], leftover: Leftover): Program<boolean> {
  if (!(yield* isThere(sql, leftover))) return false;
  yield* beatRun(sql, leftover.run_id, uptime());
  for (const write of piece) yield* write();
  return true;
}

/** @returns false if rows of the source were deleted or brought back since it was read, or rows of the copy removed */
function* publishIfWhole(sql: SqliteSql, path: CopyPath, leftover: Leftover): Program<boolean> {
  if (!(yield* isThere(sql, leftover)) || (yield* isOutdated(path)) || !(yield* isComplete(path))) return false;
  yield* publishCopy(path);
  yield* forgetLeftover(sql, leftover);
  return true;
}

/** Removes what was written of a copy that is not to be. */
async function removed({ db, sql, writeUnsynced }: CopyParts, leftover: Leftover): Promise<void> {
  try {
    while (db.open && !(await writeUnsynced(() => sql.now(isGone(sql, leftover))))) await othersFirst();
  } catch {
    // The copy's own error is the one to tell. What is left goes with the next deletion, or when the file is opened again.
  }
}

/** Reads for some milliseconds. @param piece gets how the rows are written @returns whether that was all */
function isReadFor(ms: number, rows: RowWrites, piece: RowWrite[]): boolean {
  const until = uptime() + ms;
  do {
    const { done, value } = rows.next();
    if (done === true) return true;
    if (value !== undefined) piece.push(value);
  } while (piece.length < ROWS_PER_PIECE && uptime() < until);
  return false;
}

/** Brings the pieces to the disk without blocking the event loop, so that the last transaction has little left to wait for. */
async function synchronisedLog(db: SqliteDatabase): Promise<void> {
  try {
    const log = await open(`${pathOf(db)}-wal`, "r");
    try {
      await log.sync();
    } finally {
      await log.close();
    }
  } catch {
    // The last transaction does it, and says what is wrong.
  }
}

function othersFirst(): Promise<void> {
  return new Promise((resolve) => setImmediate(resolve));
}
