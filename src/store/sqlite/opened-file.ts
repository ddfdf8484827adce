import { type Stats, statSync } from "node:fs";
import { TurnsError } from "../../errors";
import type { SqliteDatabase } from "./driver";

/** In bytes. */
export interface Lengths {
  file: number;
  log: number;
}

/**
 * Notices that the file behind an open database is no longer where it was opened. SQLite goes on in the file that it has open, also
 * when that one was deleted, replaced or moved, or when its write-ahead log was: what is saved then is lost with the process, and nobody
 * is told. A file that is open keeps its number, so equal numbers mean the same file.
 */
export class OpenedFile {
  readonly #db: SqliteDatabase;
  /** Undefined for a database in memory, and where there never was a file under its name. */
  readonly #path: string | undefined;
  readonly #file: string | undefined;
  readonly #logPath: string;
  /** Undefined until there is a log. */
  #log: string | undefined;

  /** @param path what {@link pathOf} tells */
  constructor(db: SqliteDatabase, path: string) {
    this.#db = db;
    const file = path === "" ? undefined : identityOf(path);
    this.#file = file === UNTOLD ? undefined : file;
    this.#path = this.#file === undefined ? undefined : path;
    this.#logPath = `${path}-wal`;
    const log = this.#path && identityOf(this.#logPath);
    this.#log = log === UNTOLD ? undefined : log;
  }

  /**
   * To be asked before something is written.
   *
   * @returns how long the file and its log are, undefined if that isn't known
   * @throws {TurnsError} STORE_UNAVAILABLE
   */
  refuseAnother(): Lengths | undefined {
    const path = this.#path;
    if (path === undefined) return undefined;
    const found = lookedAt(path);
    const file = identityIn(found);
    if (file !== this.#file && file !== UNTOLD) throw another(path, file === undefined ? "none" : "another one", FILE_REMEDY);
    const log = this.#refuseAnotherLog();
    return typeof found === "object" && typeof log === "object" ? { file: found.size, log: log.size } : undefined;
  }

  #refuseAnotherLog(): ReturnType<typeof lookedAt> {
    const found = lookedAt(this.#logPath);
    const log = identityIn(found);
    if (log === UNTOLD) return found;
    // A handle that its owner has taken out of WAL mode has no log any more.
    if (this.#log !== undefined && log !== this.#log && this.#db.pragma("journal_mode", { simple: true }) === "wal") {
      throw another(this.#logPath, log === undefined ? "none" : "another one", LOG_REMEDY);
    }
    this.#log = log;
    return found;
  }
}

/** Where SQLite has the file open; empty for a database in memory. */
export function pathOf(db: SqliteDatabase): string {
  const [main] = (db.memory ? [] : db.pragma("database_list")) as { file: string | null }[];
  return main?.file ?? "";
}

/**
 * Refuses a file that has several names, before anything of it is read. SQLite finds the write-ahead log by the name: under a second name
 * there is a second log, and what either holds destroys the other's pages. A saver that has the file open continues.
 *
 * @throws {TurnsError} STORE_UNAVAILABLE
 */
export function refuseSecondName(db: Pick<SqliteDatabase, "name" | "memory">): void {
  if (db.memory || db.name === "") return;
  const links = linksOf(db.name);
  if (links < 2) return;
  throw new TurnsError("STORE_UNAVAILABLE", {
    problem: `The database file ${db.name} has ${links} names (hard links). Each name would get a write-ahead log of its own, which corrupts the file.`,
    remedy: `Nothing was opened. Find the names with: find <folder> -samefile ${JSON.stringify(db.name)}. Remove all but one while nobody has the file open; to have a second file, copy it.`,
    data: { file: db.name, links },
  });
}

function linksOf(path: string): number {
  try {
    const found = statSync(path, { throwIfNoEntry: false });
    return found?.isFile() === true ? found.nlink : 0;
  } catch {
    return 0;
  }
}

/** The system does not tell. */
const UNTOLD = "";
const MISSING_IS_UNDEFINED = { throwIfNoEntry: false } as const;
const FILE_REMEDY =
  "It was deleted, moved or replaced while it was open, and nothing was saved into it since. Put it back while this saver is open, or open a new saver.";
const LOG_REMEDY =
  "The log was deleted or replaced while the database was open, and nothing was saved since. Close this saver, which brings the log's contents into the file, before anybody else opens it; then open a new saver.";

/** Undefined if there is no such file, {@link UNTOLD} where it cannot be looked at: SQLite has it open, and will tell. */
function lookedAt(path: string): Stats | typeof UNTOLD | undefined {
  try {
    return statSync(path, MISSING_IS_UNDEFINED);
  } catch {
    return UNTOLD;
  }
}

/** How long a file is; undefined where there is none, or it cannot be looked at. */
export function sizeOf(path: string): number | undefined {
  const found = lookedAt(path);
  return typeof found === "object" ? found.size : undefined;
}

function identityIn(found: Stats | typeof UNTOLD | undefined): string | undefined {
  return typeof found === "object" ? `${found.dev}:${found.ino}` : found;
}

function identityOf(path: string): string | undefined {
  return identityIn(lookedAt(path));
}

function another(path: string, found: string, remedy: string): TurnsError {
  return new TurnsError("STORE_UNAVAILABLE", {
    what: `database file ${path}`,
    expected: "the file that was opened",
    found,
    remedy,
    data: { file: path },
  });
}
