import { describe, TurnsError } from "../../errors";
import { driftOf, type SchemaPart } from "../schema-drift";
import { SQLITE } from "./dialect";
import type { DatabaseHandle, SqliteDatabase } from "./driver";
import { directoryGiven, isBusy, translated } from "./failures";
import { checkSchema, isNewest, migrate, newest as newestVersion } from "./migrate";
import { isNodeDatabase } from "./node-driver";
import { type DriverName, nodeDatabase, openDatabase, refuseSecondName } from "./open-database";
import { uptime } from "../../system";
import { closeFile, refuseEmptied } from "./opened-file";
import { existsSync } from "node:fs";
import { sep } from "node:path";

/** SQLite's own waiting blocks the event loop, so it is kept short. `Commits` does the rest of the waiting. */
const SQLITE_WAIT_MS = 5;
const OPEN_WAIT_MS = 10_000;
const WAL_LIMIT_BYTES = 64 * 1024 * 1024;
/** The cache size that better-sqlite3 is compiled with; `node:sqlite` has 2 MB. */
const CACHE_KIB = 16_000;

export interface ConnectionOptions {
  /** `full`: a commit survives a power cut. `normal`: it survives a crash of the process, but a power cut may lose it. */
  synchronous: "full" | "normal";
  /** The driver that opens a file. Default: the first one that is installed. */
  driver?: DriverName;
  /** Opens an existing file that has our tables, and only reads it. */
  readOnly?: boolean;
}

/**
 * Opens or creates a database file, ready for use. `":memory:"` gives a database that exists as long as the saver.
 *
 * @throws {TurnsError} INVALID_OPTION, DRIVER_UNAVAILABLE, and what {@link prepareConnection} throws
 */
export function openFile(path: string, options: ConnectionOptions): SqliteDatabase {
  if (typeof path !== "string" || path.trim() === "" || path.includes("\0")) {
    throw new TurnsError("INVALID_OPTION", {
      problem: `The path of the database is ${path === undefined ? "missing" : describe(path)}.`,
      remedy: 'Pass the path of a file, as a non-empty string without NUL characters, or ":memory:".',
    });
  }
  refuseFolder(path.trim());
  let db: SqliteDatabase;
  // better-sqlite3 takes spaces off the ends of a path.
  const isThere = existsSync(path.trim());
  try {
    const existing = options.readOnly === true ? { readonly: true } : {};
    db = openDatabase(path, { driver: options.driver, ...existing });
  } catch (error) {
    throw unopened(error, path);
  }
  try {
    if (isThere) refuseEmptied(db);
    prepareConnection(db, options);
    db.pragma(`cache_size = -${CACHE_KIB}`);
    return db;
  } catch (error) {
    closeFile(db);
    throw error;
  }
}

/**
 * SQLite would take the slash off, and create a file with the name of the folder.
 *
 * @throws {TurnsError} INVALID_OPTION for a path that ends like a folder's; one that is there is refused when it's opened
 */
function refuseFolder(path: string): void {
  if (!(path.endsWith("/") || path.endsWith(sep)) || existsSync(path)) return;
  throw new TurnsError("INVALID_OPTION", {
    problem: `The path of the database is ${JSON.stringify(path)}, which ends like a folder's.`,
    remedy: `Pass the path of a file: ${JSON.stringify(`${path}agent.db`)}. Nothing was created.`,
  });
}

/** Takes over a handle that a caller brings. @throws {TurnsError} INVALID_OPTION, and what {@link prepareConnection} throws */
export function takeOver(handle: DatabaseHandle, options: ConnectionOptions): SqliteDatabase {
  if (options.driver !== undefined) {
    throw brought("driver", `Option "driver" is ${describe(options.driver)} beside an open database, which has its own driver.`);
  }
  if (options.readOnly === true) {
    throw brought("readOnly", 'Option "readOnly" is true, but it has no effect on a database that is already open.');
  }
  return prepareConnection(handle, options);
}

function brought(option: string, problem: string): TurnsError {
  const remedy = "Leave the option out, or pass the path of the file.";
  return new TurnsError("INVALID_OPTION", { problem, remedy, data: { option } });
}

/** Sets the pragmas and brings the schema up to date; for handles of our own and for those that callers bring. */
function prepareConnection(handle: DatabaseHandle, options: ConnectionOptions): SqliteDatabase {
  const db = adapted(handle);
  refuseNoHandle(db);
  refuseSecondName(db);
  waitingForOthers(db.name, () => {
    const isCurrent = isNewest(db);
    if (isCurrent && options.readOnly === true) refuseMissing(db);
    if (!isCurrent) {
      db.exec(`PRAGMA busy_timeout = ${SQLITE_WAIT_MS}`);
      const found = checkSchema(db);
      if (options.readOnly === true) {
        if (found === 0) throw noTables(db.name);
        refuseMissing(db);
      }
      // On a fresh file auto_vacuum must come before WAL. The other way round, it silently stays off.
      if (!db.readonly && db.pragma("page_count", { simple: true }) === 0) db.pragma("auto_vacuum = INCREMENTAL");
    }
    db.exec(pragmasOf(db, options));
    if (!isCurrent) migrate(db);
  });
  return db;
}

/** A handle of either driver, adapted to the interface that the store uses. Anything else is returned unchanged. */
export function adapted(handle: DatabaseHandle): SqliteDatabase {
  return isNodeDatabase(handle) ? nodeDatabase(handle) : handle;
}

function refuseNoHandle(db: unknown): void {
  const { open, prepare, pragma, transaction } = (db ?? {}) as Partial<SqliteDatabase>;
  const isHandle = [prepare, pragma, transaction].every((method) => typeof method === "function");
  if (isHandle && open === true) return;
  throw new TurnsError("INVALID_OPTION", {
    problem: `The database is ${isHandle ? "closed" : db === undefined ? "missing" : describe(db)}.`,
    remedy: 'Pass the path of a database file, ":memory:", or an open database of better-sqlite3 or of node:sqlite.',
  });
}

/** All in one statement text: the overhead of each exceeds its cost. */
function pragmasOf(db: SqliteDatabase, { synchronous }: ConnectionOptions): string {
  const own = `PRAGMA busy_timeout = ${SQLITE_WAIT_MS};`;
  if (db.readonly) return own;
  return `${own} PRAGMA journal_mode = WAL; PRAGMA synchronous = ${synchronous === "full" ? "FULL" : "NORMAL"}; PRAGMA fullfsync = ON;
    PRAGMA foreign_keys = ON; PRAGMA wal_autocheckpoint = 1000; PRAGMA journal_size_limit = ${WAL_LIMIT_BYTES};
    PRAGMA trusted_schema = OFF; PRAGMA cell_size_check = ON`;
}

/**
 * Two processes that create the same file meet here. Opening is synchronous, and so is this wait, but it lasts only as long as
 * the other process migrates.
 */
export function waitingForOthers<T>(file: string, work: () => T): T {
  const deadline = uptime() + OPEN_WAIT_MS;
  for (;;) {
    try {
      return work();
    } catch (error) {
      if (!isBusy(error) || uptime() >= deadline) throw translated(error, file);
    }
    Atomics.wait(new Int32Array(new SharedArrayBuffer(4)), 0, 0, 5 + Math.random() * 20);
  }
}

function noTables(file: string): TurnsError {
  return new TurnsError("SCHEMA_OUTDATED", {
    problem: `Database ${file} doesn't have the tables of this package.`,
    remedy: "Check the path. To create the tables, open it without `readOnly`. Nothing was changed.",
    data: { file, found: 0, newest: newestVersion },
  });
}

/**
 * A file of another version is read as long as it has everything that queries ask for.
 * @throws {TurnsError} SCHEMA_OUTDATED
 */
function refuseMissing(db: SqliteDatabase): void {
  const { sql, place, parts } = SQLITE.schema;
  const drift = driftOf(sql, place, db.prepare(parts).raw(true).all() as SchemaPart[]).filter(({ isMissing }) => isMissing);
  const [first, ...others] = drift;
  if (first === undefined) return;
  const more = others.length === 0 ? "" : ` ${others.length} more of its tables and columns are missing.`;
  throw new TurnsError("SCHEMA_OUTDATED", {
    problem: `Database ${db.name} has the tables of another version of this package, or damaged ones. ${first.what}${more}`,
    remedy: "Open it without `readOnly`, which brings it up to date if an older version made it. Nothing was changed.",
    data: { file: db.name, drift },
  });
}

function unopened(error: unknown, path: string): unknown {
  const directory = directoryGiven(path, error);
  if (directory !== undefined) return directory;
  // A missing folder is refused with a TypeError before SQLite sees the path.
  if (!(error instanceof TypeError)) return translated(error, path);
  return new TurnsError("STORE_UNAVAILABLE", {
    problem: `Database ${path} can't be opened: ${error.message}.`,
    remedy: "Create the folder first, or give another path.",
    data: { file: path },
    cause: error,
  });
}
