import { open } from "node:fs/promises";
import type { Awaitable, CopyOrder, RunRow } from "../store";
import { uptime } from "../../uptime";
import type { RowWrite } from "./copy-rows";
import type { SqliteDatabase } from "./driver";
import { translated } from "./failures";
import { forgetLeftover, isGone, isLarge, isThere, type Leftover, leaveThread } from "./leftovers";
import { mainFileOf, snapshotOf } from "./read-snapshot";
import { beatRun, beginCopyRun } from "./runs";
import { Sql } from "./sql";
import { copyAtOnce, refuseTaken, ThreadCopy } from "./thread-copy";
import { wholeThread } from "./whole-thread";

/** A piece ends with whichever comes first. Writing rows takes about twice as long as reading them. */
const READ_MS = 5;
const ROWS_PER_PIECE = 500;

/** What copying needs of the store around it. */
export interface CopyParts {
  db: SqliteDatabase;
  sql: Sql;
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
  const isDone = await write(() => {
    if (!order.atOnce && !db.memory && isLargeThread(sql, order)) return false;
    copyAtOnce(sql, order);
    return true;
  });
  if (isDone) return true;
  const reader = await parts.inTurn(() => snapshotIfReadable(db));
  if (reader === undefined) {
    await write(() => {
      copyAtOnce(sql, order);
    });
    return true;
  }
  try {
    return await copyInPieces(parts, new ThreadCopy(new Sql(reader, sql.sealing), order), order.run);
  } catch (error) {
    throw translated(error, db.name);
  } finally {
    reader.close();
  }
}

/** None, where only the caller's own connection can read the file: one that decrypts it, say. */
function snapshotIfReadable(db: SqliteDatabase): SqliteDatabase | undefined {
  try {
    return snapshotOf(db);
  } catch {
    return undefined;
  }
}

function isLargeThread(sql: Sql, { sourceId, targetId }: CopyOrder): boolean {
  const source = sql.now(wholeThread(sql, sourceId));
  if (source === undefined || !sql.now(isLarge(sql, source.thread))) return false;
  refuseTaken(sql, targetId);
  return true;
}

async function copyInPieces(parts: CopyParts, copy: ThreadCopy, run: RunRow): Promise<boolean> {
  const { sql, writeUnsynced } = parts;
  const seqs = copy.readSeqs();
  while (!isReadFor(READ_MS, seqs)) await othersFirst();
  const thread = await writeUnsynced(() => {
    const number = copy.place(sql);
    sql.now(beginCopyRun(sql, { ...run, beatAt: uptime() }));
    sql.now(leaveThread(sql, number, run.runId));
    return number;
  });
  const leftover = { thread, rewind_id: "", run_id: run.runId };
  let isPublished = false;
  try {
    isPublished = await writePieces(parts, copy, leftover);
  } finally {
    if (!isPublished) await removed(parts, leftover);
  }
  return isPublished;
}

async function writePieces({ db, sql, write, writeUnsynced }: CopyParts, copy: ThreadCopy, leftover: Leftover): Promise<boolean> {
  const rows = copy.rows(sql);
  for (let isLast = false; !isLast;) {
    await othersFirst();
    const piece: RowWrite[] = [];
    isLast = isReadFor(READ_MS, rows, piece);
    const isOurs = await writeUnsynced(() => {
      if (!sql.now(isThere(sql, leftover))) return false;
      sql.now(beatRun(sql, leftover.run_id, uptime()));
      for (const writeRow of piece) writeRow();
      return true;
    });
    if (!isOurs) return false;
  }
  await synchronisedLog(db);
  return write(() => {
    if (!sql.now(isThere(sql, leftover)) || copy.isOutdated(sql) || !copy.isComplete(sql)) return false;
    copy.publish(sql);
    sql.now(forgetLeftover(sql, leftover));
    return true;
  });
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
function isReadFor(ms: number, rows: Generator<RowWrite | undefined, void>, piece: RowWrite[] = []): boolean {
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
    const log = await open(`${mainFileOf(db)}-wal`, "r");
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
