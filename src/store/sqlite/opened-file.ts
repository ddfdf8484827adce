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
 * Refuses writes that would be lost: into a file that isn't there any more, or behind a hole in the file or its log.
 *
 * A file that is no longer where it was opened is recognised by its number. SQLite continues in its open file even if that file,
 * or its write-ahead log, was deleted, replaced or moved. Everything saved then is silently lost with the process. An open file
 * keeps its number, so equal numbers mean the same file.
 */
export class OpenedFile {
  readonly #db: SqliteDatabase;
  /** Undefined for a database in memory, and if there never was a file under its name. */
  readonly #path: string | undefined;
  readonly #file: string | undefined;
  readonly #logPath: string;
  readonly #cuts: CutWatch;
  /** Undefined until there is a log. */
  #log: string | undefined;

  constructor(db: SqliteDatabase) {
    const path = pathOf(db);
    this.#db = db;
    const found = path === "" ? undefined : lookedAt(path);
    this.#cuts = new CutWatch(db, path, typeof found === "object" ? found.size : 0);
    const file = identityIn(found);
    this.#file = file === UNTOLD ? undefined : file;
    this.#path = this.#file === undefined ? undefined : path;
    this.#logPath = `${path}-wal`;
    const log = this.#path && identityOf(this.#logPath);
    this.#log = log === UNTOLD ? undefined : log;
  }

  /**
   * Call it before each write. Call it again after the commit, before anybody is told.
   *
   * @param committed whether it is the second call: then the refusal says that the outcome of the commit is unknown
   * @throws {TurnsError} STORE_UNAVAILABLE
   */
  refuseLost(committed = false): void {
    this.#cuts.refuseCut(committed, this.#refuseAnother());
  }

  /**
   * {@link refuseLost} before the log is moved into the file: a quick check isn't enough then.
   * @throws {TurnsError} STORE_UNAVAILABLE
   */
  refuseMoving(): void {
    this.#refuseAnother();
    this.#cuts.refuseCut();
  }

  /** Closes the database. A cut file stays as it is: SQLite moves no log into it. */
  close(): void {
    closeFile(this.#db, () => {
      this.#cuts.close();
    });
  }

  /** @returns the lengths of the file and its log, undefined if they aren't known */
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
    // A handle that its owner has taken out of WAL mode no longer has a log.
    if (this.#log !== undefined && log !== this.#log && this.#db.pragma("journal_mode", { simple: true }) === "wal") {
      throw another(this.#logPath, log === undefined ? "is gone" : "was replaced", LOG_REMEDY);
    }
    this.#log = log;
    return found;
  }
}

/** The system doesn't tell. */
const UNTOLD = "";
const MISSING_IS_UNDEFINED = { throwIfNoEntry: false } as const;
const FILE_REMEDY =
  "It was deleted, moved or replaced while it was open, and nothing was saved into it since. Put it back while this saver is open, or open a new saver.";
const LOG_REMEDY =
  "The log was deleted or replaced while the database was open, and nothing was saved since. Close this saver, which brings the log's contents into the file, before anybody else opens it; then open a new saver.";

/**
 * Undefined if there is no such file; {@link UNTOLD} if it can't be inspected: SQLite has it open, and will report the problem.
 */
function lookedAt(path: string): Stats | typeof UNTOLD | undefined {
  try {
    return statSync(path, MISSING_IS_UNDEFINED);
  } catch {
    return UNTOLD;
  }
}

/** The length of a file; undefined if it doesn't exist or can't be inspected. */
export function sizeOf(path: string): number | undefined {
  const found = lookedAt(path);
  return typeof found === "object" ? found.size : undefined;
}

/** A connection that can't write leaves an empty log beside the file. If nobody else has the file open, one that can removes it. */
export function closeFile(db: SqliteDatabase, close: () => void = () => db.close()): void {
  const path = db.open && db.readonly ? pathOf(db) : "";
  close();
  if (path === "" || sizeOf(`${path}-wal`) !== 0) return;
  try {
    const writer = openBeside(db, path, false);
    writer.prepare("SELECT 1 FROM sqlite_schema").get();
    writer.close();
  } catch {
    // An empty log does no harm.
  }
}

/**
 * Refuses an empty file with a log that isn't, before anything of it is read: SQLite would delete the log, which may hold all.
 * @throws {TurnsError} STORE_UNAVAILABLE
 */
export function refuseEmptied(db: SqliteDatabase): void {
  const path = pathOf(db);
  // The log first: who creates a file has written its first page before there is a log.
  if (path === "" || !sizeOf(`${path}-wal`) || sizeOf(path) !== 0) return;
  throw new TurnsError("STORE_UNAVAILABLE", {
    problem: `Database file ${path} is empty, but its write-ahead log isn't. SQLite would delete the log.`,
    remedy: `Nothing was opened. Copy both, and restore a backup or ${salvageOf(path)} If the log belongs to another file, remove it.`,
    data: { file: path },
  });
}

const salvageOf = (path: string): string => `call salvage("${path}", target) of langgraph-checkpoint-turns/maintenance.`;

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
/** How often to look at a log that others write to meanwhile. Two equal results in a row decide. */
const LOOKS_MAX = 20;

/** How far SQLite says the log goes, and how much of it has been moved into the file. Counted in frames; each holds a page. */
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
 * Notices that the file or its write-ahead log has been cut while it was open. SQLite doesn't: it keeps what it has read, writes
 * on behind the hole, and moves a log with holes into the file when it is closed.
 *
 * Two things hold whenever the log is not being reset:
 * - the log has every frame that SQLite says it has, and each frame's checksum continues the one before;
 * - every page of the database is in the file, or in a frame of the log that has not been moved into the file yet.
 *
 * So any process may shorten the file (a vacuum) and the log (a truncating checkpoint, `journal_size_limit`).
 *
 * Usually nobody else has written, and a quick check confirms both: by the lengths before a commit, by two frames after it
 * (decision 18).
 */
class CutWatch {
  readonly #db: SqliteDatabase;
  readonly #path: string;
  readonly #ask: (() => unknown) | undefined;
  readonly #log: LogChain;
  /** The state in which the file was last found long enough for a part of its pages, while the log had the rest. */
  #seen = "";
  /** The length of the file when nothing was wrong. */
  #bytes: number;
  #refusal: TurnsError | undefined;
  /** Holds a lock on a file that was cut, because closing the last connection would move the log into it. */
  #guard: SqliteDatabase | undefined;

  /**
   * @param path where SQLite has the file open; empty for a database in memory
   * @param bytes how long the file is
   */
  constructor(db: SqliteDatabase, path: string, bytes: number) {
    this.#db = db;
    this.#path = path;
    this.#log = new LogChain(`${this.#path}-wal`);
    this.#bytes = bytes;
    if (this.#path === "" || !tells(db)) return;
    const statement = db.prepare("PRAGMA wal_checkpoint(NOOP)").raw(true);
    this.#ask = () => statement.get();
  }

  /**
   * Call it before each write. Call it again after the commit, before anybody is told. Once it has thrown it always throws. It
   * never throws within a transaction.
   *
   * @param committed whether it is the second call: then the refusal says that the outcome of the commit is unknown
   * @param lengths the current lengths of the file and its log: then a quick check may be enough
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

  /** Closes the database. A cut file stays as it is: SQLite moves no log into it. */
  close(): void {
    const db = this.#db;
    try {
      // Without frames, closing moves nothing into the file.
      if (db.open && this.#told()?.frames !== 0) this.refuseCut();
    } catch {
      // The file stays as it is; the last save was refused already.
    }
    if (this.#refusal === undefined || this.#guard !== undefined) db.close();
    else closedAside(db, this.#path);
    this.#guard?.close();
    this.#guard = undefined;
  }

  /** Whether a quick check is enough. It takes some microseconds; a full check takes as much per frame. */
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
      // A commit must not be retried only because it couldn't be checked.
      if (committed) return undefined;
      throw error;
    }
  }

  /** Another process may have reset the log between the steps of one look, so two equal results are needed. */
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

  /** Undefined if SQLite doesn't tell. */
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
    // When SQLite opens an empty file, it deletes the log, no matter what the log holds.
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

/** By the class of the connection: each driver brings one SQLite. */
const TELLING = new WeakMap<object, boolean>();

function tells(db: SqliteDatabase): boolean {
  const known = TELLING.get(db.constructor);
  if (known !== undefined) return known;
  const { version } = db.prepare("SELECT sqlite_version() AS version").get() as { version: string };
  const [major = 0, minor = 0] = version.split(".").map(Number);
  const [sinceMajor = 0, sinceMinor = 0] = TELLS_SINCE;
  const isNewEnough = major > sinceMajor || (major === sinceMajor && minor >= sinceMinor);
  TELLING.set(db.constructor, isNewEnough);
  return isNewEnough;
}

/**
 * A second, read-only connection, which therefore never moves a log. While it is open, the first connection isn't the last one,
 * even if the end of the process closes it.
 */
function guarded(db: SqliteDatabase, path: string): SqliteDatabase | undefined {
  // When SQLite opens an empty file, it deletes the log.
  if (sizeOf(path) === 0) return undefined;
  let guard: SqliteDatabase | undefined;
  try {
    guard = openBeside(db, path);
    // The result doesn't matter, and may be damaged: the read takes the lock.
    guard.prepare("SELECT 1 FROM sqlite_schema").get();
  } catch {
    // With a lock or without.
  }
  return guard;
}

/**
 * Closes the database while the file is elsewhere: then SQLite leaves the log alone. The file is empty, so nothing is lost if the
 * process dies here.
 */
function closedAside(db: SqliteDatabase, path: string): void {
  const aside = `${path}.closing`;
  let isAside = false;
  try {
    renameSync(path, aside);
    isAside = true;
  } catch {
    // If moving is refused, it is closed in place.
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
    remedy: `${lost} Close this saver, which leaves the file and its log as they are, copy both, and restore a backup or ${salvageOf(path)}`,
    data: { file },
  });
}
