import { TurnsError } from "../../errors";
import type { SqliteDatabase } from "./driver";
import { sqliteCode } from "./failures";
import { type Commit, LogChain, type LogEnd } from "./log-chain";
import { pathOf, openBeside } from "./open-database";
import { type Stats, statSync, renameSync } from "node:fs";

/** In bytes. */
interface Lengths {
  file: number;
  log: number;
}

/**
 * Refuses what would be lost: what is written into a file that isn't there any more, or behind a hole in it or in its log.
 *
 * A file that is no longer where it was opened is noticed by its number. SQLite goes on in the file that it has open, also
 * when that one was deleted, replaced or moved, or when its write-ahead log was: what is saved then is lost with the process, and nobody
 * is told. A file that is open keeps its number, so equal numbers mean the same file.
 */
export class OpenedFile {
  readonly #db: SqliteDatabase;
  /** Undefined for a database in memory, and where there never was a file under its name. */
  readonly #path: string | undefined;
  readonly #file: string | undefined;
  readonly #logPath: string;
  readonly #cuts: CutWatch;
  /** Undefined until there is a log. */
  #log: string | undefined;

  constructor(db: SqliteDatabase) {
    const path = pathOf(db);
    this.#db = db;
    this.#cuts = new CutWatch(db, path);
    const file = path === "" ? undefined : identityOf(path);
    this.#file = file === UNTOLD ? undefined : file;
    this.#path = this.#file === undefined ? undefined : path;
    this.#logPath = `${path}-wal`;
    const log = this.#path && identityOf(this.#logPath);
    this.#log = log === UNTOLD ? undefined : log;
  }

  /**
   * To be asked before something is written, and after it has been committed, before anybody is told so.
   *
   * @param committed whether it was: then the refusal says that nobody knows whether that is there
   * @throws {TurnsError} STORE_UNAVAILABLE
   */
  refuseLost(committed = false): void {
    this.#cuts.refuseCut(committed, this.#refuseAnother());
  }

  /** {@link refuseLost} before the log is moved into the file: a glance isn't enough then. @throws {TurnsError} STORE_UNAVAILABLE */
  refuseMoving(): void {
    this.#refuseAnother();
    this.#cuts.refuseCut();
  }

  /** Closes the database. What was cut stays as it is: SQLite moves no log into the file. */
  close(): void {
    this.#cuts.close();
  }

  /** @returns how long the file and its log are, undefined if that isn't known */
  #refuseAnother(): Lengths | undefined {
    const path = this.#path;
    if (path === undefined) return undefined;
    const found = lookedAt(path);
    const file = identityIn(found);
    if (file !== this.#file && file !== UNTOLD) throw another(path, file === undefined ? "is gone" : "was replaced", FILE_REMEDY);
    const log = this.#refuseAnotherLog();
    return typeof found === "object" && typeof log === "object" ? { file: found.size, log: log.size } : undefined;
  }

  #refuseAnotherLog(): ReturnType<typeof lookedAt> {
    const found = lookedAt(this.#logPath);
    const log = identityIn(found);
    if (log === UNTOLD) return found;
    // A handle that its owner has taken out of WAL mode has no log any more.
    if (this.#log !== undefined && log !== this.#log && this.#db.pragma("journal_mode", { simple: true }) === "wal") {
      throw another(this.#logPath, log === undefined ? "is gone" : "was replaced", LOG_REMEDY);
    }
    this.#log = log;
    return found;
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
    problem: `Database file ${path} ${found} since it was opened.`,
    remedy,
    data: { file: path },
  });
}

/** The first SQLite that tells how far its log goes without moving it into the file. Both drivers have a newer one. */
const TELLS_SINCE = [3, 51];
/** Looks at a log that others write to meanwhile. Two in a row that find the same decide. */
const LOOKS_MAX = 20;

/** How far SQLite says the log goes, and how much of it has been moved into the file. In frames, each of which holds a page. */
interface Told {
  frames: number;
  moved: number;
}

interface Fault {
  file: string;
  expected: string;
  found: string;
}

/**
 * Notices that the file or its write-ahead log has been cut while it was open. SQLite doesn't: it keeps what it has read, writes on
 * behind the hole, and moves a log with holes into the file when it is closed.
 *
 * Two things hold at any moment in which the log is not being reset:
 * - the log has every frame that SQLite says it has, and each frame's checksum continues the one before;
 * - every page of the database is in the file, or in a frame of the log that has not been moved into the file yet.
 *
 * So the file may get shorter (a vacuum), and so may the log (a truncating checkpoint, `journal_size_limit`), by any process.
 *
 * Mostly nobody else has written, and a glance tells both: at the lengths before a commit, at two frames after it (decision 18).
 */
class CutWatch {
  readonly #db: SqliteDatabase;
  readonly #path: string;
  readonly #ask: (() => unknown) | undefined;
  readonly #log: LogChain;
  /** As the file was last found to be long enough for a part of its pages, while the log had the rest. */
  #seen = "";
  /** How long the file was when nothing was wrong. */
  #bytes: number;
  #refusal: TurnsError | undefined;
  /** Holds a lock on a file that was cut: closing the last connection would move the log into it. */
  #guard: SqliteDatabase | undefined;

  /** @param path where SQLite has the file open; empty for a database in memory */
  constructor(db: SqliteDatabase, path: string) {
    this.#db = db;
    this.#path = path;
    this.#log = new LogChain(`${this.#path}-wal`);
    this.#bytes = sizeOf(this.#path) ?? 0;
    if (this.#path === "" || !tells(db)) return;
    const statement = db.prepare("PRAGMA wal_checkpoint(NOOP)").raw(true);
    this.#ask = () => statement.get();
  }

  /**
   * To be asked before something is written, and after it has been committed, before anybody is told so. Once it has thrown it always
   * throws. Says nothing within a transaction.
   *
   * @param committed whether it was: then the refusal says that nobody knows whether that is there
   * @param lengths those of the file and its log just now: then a glance may be enough
   * @throws {TurnsError} STORE_UNAVAILABLE
   */
  refuseCut(committed = false, lengths?: Lengths): void {
    if (this.#refusal !== undefined) throw this.#refusal;
    if (lengths !== undefined && this.#isSeenWhole(committed, lengths)) return;
    const fault = this.#fault(committed);
    if (fault === undefined) return;
    this.#refusal = cutWhileOpen(this.#path, fault, committed);
    this.#guard = guarded(this.#db, this.#path);
    throw this.#refusal;
  }

  /** Closes the database. What was cut stays as it is: SQLite moves no log into the file. */
  close(): void {
    const db = this.#db;
    try {
      if (db.open) this.refuseCut();
    } catch {
      // The file stays as it is; the last save was refused already.
    }
    if (this.#refusal === undefined || this.#guard !== undefined) db.close();
    else closedAside(db, this.#path);
    this.#guard?.close();
    this.#guard = undefined;
  }

  /** Whether a glance is enough. It costs some microseconds; a whole look costs as much per frame. */
  #isSeenWhole(committed: boolean, lengths: Lengths): boolean {
    if (this.#ask === undefined || this.#db.inTransaction) return true;
    try {
      const told = this.#told();
      if (told === undefined || told.frames <= 0) return false;
      const end = committed ? this.#log.committed(told.frames) : this.#log.untouched(told.frames, lengths.log);
      return end !== undefined && this.#faultOfFile(told, end, lengths.file) === undefined;
    } catch {
      return false;
    }
  }

  #fault(committed: boolean): Fault | undefined {
    try {
      return this.#lookedFor();
    } catch (error) {
      // What is committed must not be tried again because it couldn't be looked at.
      if (committed) return undefined;
      throw error;
    }
  }

  /** Another process may have reset the log between the steps of one look, so it takes two that find the same. */
  #lookedFor(): Fault | undefined {
    let former = "";
    for (let look = 0; look < LOOKS_MAX; look += 1) {
      const told = this.#told();
      const fault = told && this.#faultOf(told);
      if (fault === undefined) return undefined;
      const found = JSON.stringify([told, fault]);
      if (found === former) return fault;
      former = found;
    }
    return undefined;
  }

  /** Undefined where SQLite doesn't tell. */
  #told(): Told | undefined {
    if (this.#ask === undefined || this.#db.inTransaction) return undefined;
    const [busy, frames, moved] = this.#ask() as [number, number, number];
    return busy === 0 ? { frames, moved } : undefined;
  }

  #faultOf(told: Told): Fault | undefined {
    if (told.frames <= 0) return this.#faultWithoutLog(told);
    const end = this.#log.walk(told.frames);
    if (end === undefined) return undefined;
    return end.whole ? this.#faultOfFile(told, end) : this.#faultOfLog(end);
  }

  /** With an empty log, or without one, everything is in the file. */
  #faultWithoutLog(told: Told): Fault | undefined {
    try {
      return this.#faultOfFile(told, { pages: this.#number("page_count"), pageBytes: this.#number("page_size"), generation: "" });
    } catch (error) {
      const bytes = sizeOf(this.#path) ?? this.#bytes;
      const isDamaged = /^SQLITE_(CORRUPT|NOTADB)/.test(sqliteCode(error));
      if (!isDamaged || bytes >= this.#bytes) throw error;
      return { file: this.#path, expected: `${this.#bytes} bytes`, found: `${bytes}, which are no database any more` };
    }
  }

  #faultOfLog({ bytes, expected }: LogEnd): Fault {
    const found = bytes < expected ? `${bytes}` : `${bytes} with a hole in them`;
    return { file: `${this.#path}-wal`, expected: `the ${expected} bytes that were written to it`, found };
  }

  #faultOfFile(told: Told, { pages, pageBytes, generation }: Commit, bytes = sizeOf(this.#path)): Fault | undefined {
    if (bytes === undefined) return undefined;
    // SQLite deletes the log of an empty file when it opens that, whatever the log holds.
    if (bytes === 0) return { file: this.#path, expected: `at least ${pageBytes} bytes, its first page`, found: "0" };
    if (bytes >= pages * pageBytes) {
      this.#bytes = bytes;
      return undefined;
    }
    // New pages go through the log, so a file that was long enough stays so.
    const seen = `${generation} ${told.moved} ${bytes}`;
    if (seen === this.#seen) return undefined;
    const inLog = told.frames > told.moved ? this.#log.pagesBehind(told.moved, told.frames) : new Set<number>();
    if (inLog === undefined) return undefined;
    for (let page = Math.floor(bytes / pageBytes) + 1; page <= pages; page += 1) {
      if (inLog.has(page)) continue;
      return { file: this.#path, expected: `at least ${page * pageBytes} bytes, as SQLite left it`, found: `${bytes}` };
    }
    this.#seen = seen;
    return undefined;
  }

  #number(pragma: string): number {
    return Number(this.#db.pragma(pragma, { simple: true }));
  }
}

function tells(db: SqliteDatabase): boolean {
  const { version } = db.prepare("SELECT sqlite_version() AS version").get() as { version: string };
  const [major = 0, minor = 0] = version.split(".").map(Number);
  const [sinceMajor = 0, sinceMinor = 0] = TELLS_SINCE;
  return major > sinceMajor || (major === sinceMajor && minor >= sinceMinor);
}

/**
 * A second connection, which can only read and therefore never moves a log. As long as it is open, the first one is not the last, also
 * if it is closed by the end of the process.
 */
function guarded(db: SqliteDatabase, path: string): SqliteDatabase | undefined {
  // SQLite deletes the log of an empty file when it opens that.
  if (sizeOf(path) === 0) return undefined;
  let guard: SqliteDatabase | undefined;
  try {
    guard = openBeside(db, path);
    // What it reads is of no interest, and may be damaged: it has its lock.
    guard.prepare("SELECT 1 FROM sqlite_schema").get();
  } catch {
    // With a lock or without.
  }
  return guard;
}

/** SQLite leaves the log alone if the file isn't where it was opened. It is empty, so nothing is at stake should the process die here. */
function closedAside(db: SqliteDatabase, path: string): void {
  const aside = `${path}.closing`;
  let isAside = false;
  try {
    renameSync(path, aside);
    isAside = true;
  } catch {
    // Where that is refused, it is closed where it is.
  }
  try {
    db.close();
  } finally {
    if (isAside) renameSync(aside, path);
  }
}

function cutWhileOpen(path: string, { file, expected, found }: Fault, committed: boolean): TurnsError {
  const lost = committed ? "Take this save for not made." : "Nothing of this was saved.";
  return new TurnsError("STORE_UNAVAILABLE", {
    problem: `Database file ${file} was cut while it was open: ${expected} expected, ${found} found.`,
    remedy: `${lost} Close this saver, which leaves the file and its log as they are, copy both, and restore a backup or call salvage("${path}", target) of langgraph-checkpoint-turns/maintenance.`,
    data: { file },
  });
}
