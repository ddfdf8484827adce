import type { FileSpace } from "../store";
import type { SqliteDatabase } from "./driver";
import { NEEDS_NO_TRANSACTION, refuseInside } from "./engine";
import { sizeOf } from "./opened-file";

const INCREMENTAL = 2;

/** The size of the database including its write-ahead log, and how much of it is free. */
export function spaceOf(db: SqliteDatabase): FileSpace {
  const pageBytes = numberOf(db, "page_size");
  const pages = numberOf(db, "page_count");
  const inPages = pages * pageBytes;
  const isFile = !db.memory && db.name !== "";
  const logBytes = isFile ? (sizeOf(`${db.name}-wal`) ?? 0) : 0;
  return {
    bytes: (isFile ? (sizeOf(db.name) ?? inPages) : inPages) + logBytes,
    pagesBytes: inPages,
    logBytes,
    freePages: numberOf(db, "freelist_count"),
    pageBytes,
    givesBack: numberOf(db, "auto_vacuum") === INCREMENTAL,
  };
}

/** Gives free pages back to the file system, in one transaction. The file gets smaller with the next {@link checkpointLog}. */
export function giveBackPages(db: SqliteDatabase, pages: number): void {
  // Fetches all rows: SQLite frees one page per step.
  db.pragma(`incremental_vacuum(${pages})`);
}

/**
 * Moves the log into the file. It doesn't wait for readers and writers; the rest follows with the next checkpoint.
 *
 * @param truncate empties the log as well
 * @throws {TurnsError} STORE_BUSY if it's to empty the log inside a transaction of the user's
 */
export function checkpointLog(db: SqliteDatabase, truncate: boolean): void {
  if (truncate) refuseInside(db, NEEDS_NO_TRANSACTION);
  if (!db.inTransaction && !db.readonly) db.pragma(`wal_checkpoint(${truncate ? "TRUNCATE" : "PASSIVE"})`);
}

/** Rewrites the whole file, so that it can give pages back from then on. Needs as much free disk space as the file has data. */
export function vacuumFully(db: SqliteDatabase): void {
  refuseInside(db, NEEDS_NO_TRANSACTION);
  db.pragma("auto_vacuum = INCREMENTAL");
  db.exec("VACUUM");
  checkpointLog(db, true);
}

function numberOf(db: SqliteDatabase, pragma: string): number {
  return Number(db.pragma(pragma, { simple: true }));
}
