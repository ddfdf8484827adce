import { TurnsError } from "../../errors";
import type { Logger } from "../../logger";
import type { Sealing } from "../../sealing";
import { uptime } from "../../system";
import type { Engine } from "../engine";
import type { Execute, Program } from "../program";
import { Session } from "../session";
import type { Awaitable } from "../store";
import type { SqliteDatabase, SqliteStatement, SqliteTransaction } from "./driver";
import { SQLITE } from "./dialect";
import { isBusy, sqliteCode, translated } from "./failures";
import { OpenedFile, sizeOf } from "./opened-file";
import { later } from "../../timers";

const CHANGES_ROWS = /^(INSERT|UPDATE|DELETE) /;

/** SQLite over one connection. Each statement text is compiled once; texts are constants, and values are always bound. */
export class SqliteEngine implements Engine {
  readonly dialect = SQLITE;
  readonly buffers = false;
  readonly db: SqliteDatabase;
  readonly #commits: Commits | undefined;
  /** Whether others use the connection too. */
  readonly #isShared: boolean;
  readonly #prepared = new Map<string, Compiled>();
  readonly #raw = new Map<string, Compiled>();
  #version: number | undefined;
  /** SQLite's change count when a program had last written, and the changes of programs since. */
  #counted: number | undefined;
  #changed = 0;
  #provisional = 0;

  /** @param commits undefined if the caller manages the connection's transactions */
  constructor(db: SqliteDatabase, commits: Commits | undefined, isShared = true) {
    this.db = db;
    this.#commits = commits;
    this.#isShared = isShared;
  }

  get name(): string {
    return this.db.name;
  }

  get open(): boolean {
    return this.db.open;
  }

  get provisional(): number {
    return this.#provisional;
  }

  write<T>(program: () => Program<T>, durability: "synced" | "unsynced" = "synced", busyMs?: number): Awaitable<T> {
    const work = (): T => this.now(program());
    return durability === "synced" ? this.#inTransactions.run(work, busyMs) : this.#inTransactions.runUnsynced(work, busyMs);
  }

  read<T>(program: () => Program<T>): Awaitable<T> {
    return this.#inTransactions.read(() => this.now(program()));
  }

  /** Runs a program at once, in the open transaction or in none. */
  now<T>(program: Program<T>): T {
    return runNow(program, this.execute);
  }

  /** Called within a transaction, so that the answer stays true until its end. */
  // eslint-disable-next-line require-yield -- SQLite answers at once
  *hasChanged(): Program<boolean> {
    const version = this.#number("PRAGMA data_version");
    let isChanged = version !== this.#version;
    this.#version = version;
    if (this.#isShared) {
      const counted = this.#number("SELECT total_changes()");
      isChanged ||= counted !== this.#counted;
      this.#counted = undefined;
      this.#changed = counted;
    }
    return isChanged;
  }

  /** What other connections have committed, and what this one has changed. */
  version(): string {
    return `${this.#number("PRAGMA data_version")} ${this.#number("SELECT total_changes()")}`;
  }

  /** The writes of a transaction are gone, or may be: its COMMIT failed, or it is inside one of the user's. */
  rolledBack(isInside: boolean): void {
    this.#version = undefined;
    if (isInside) this.#provisional += 1;
  }

  /** The statements have reported how many rows the transaction changed. */
  hasWritten(): void {
    this.#counted = this.#changed;
  }

  *columnsOf(table: string): Program<string[]> {
    const text = "SELECT name FROM pragma_table_info(?) ORDER BY cid";
    return ((yield { text, values: [table], returns: "arrays" }) as [string][]).map(([name]) => name);
  }

  meaningOf(error: unknown): unknown {
    return translated(error, this.db.name);
  }

  codeOf(error: unknown): string {
    return sqliteCode(error);
  }

  /** Also a page that the disk failed to return once: it is read again. */
  isPassing(error: unknown): boolean {
    return isBusy(error) || sqliteCode(error).startsWith("SQLITE_CORRUPT");
  }

  /** Nobody cancels a statement of this process. */
  isCancelled(): boolean {
    return false;
  }

  get #inTransactions(): Commits {
    if (this.#commits === undefined) throw new Error("this connection begins no transactions of its own");
    return this.#commits;
  }

  readonly execute: Execute = (text, values, returns) => {
    const { statement, order, changesRows } = this.#compiled(text, returns === "arrays");
    const bound = order === undefined ? values : order.map((index) => values[index]);
    const isCounted = this.#isShared && changesRows;
    switch (returns) {
      case "one": {
        const row = statement.get(...bound);
        // This row may be one of many changed rows. Then there are more than were counted, and the next transaction forgets all
        // facts.
        if (isCounted && row !== undefined) this.#changed += 1;
        return row;
      }
      case "count":
      case "none": {
        const changes = Number(statement.run(...bound).changes);
        if (isCounted) this.#changed += changes;
        return changes;
      }
      default: {
        const rows = statement.all(...bound);
        if (isCounted) this.#changed += rows.length;
        return rows;
      }
    }
  };

  /** The value of a statement with one row and one column. */
  #number(text: string): number {
    return (this.#compiled(text, true).statement.get() as [number])[0];
  }

  #compiled(text: string, isRaw: boolean): Compiled {
    const known = isRaw ? this.#raw : this.#prepared;
    let compiled = known.get(text);
    if (compiled === undefined) {
      compiled = compile(this.db, text);
      if (isRaw) compiled.statement.raw(true);
      known.set(text, compiled);
    }
    return compiled;
  }
}

interface Compiled {
  statement: SqliteStatement;
  /** The index of the value that each parameter takes; undefined where the text numbers none. */
  order: readonly number[] | undefined;
  changesRows: boolean;
}

/** Binds numbered parameters (`?1`) by position. The drivers treat them as named ones, which costs an object per call. */
function compile(db: SqliteDatabase, text: string): Compiled {
  const order: number[] = [];
  const plain = text.replace(/\?(\d+)/g, (_, number: string) => {
    order.push(Number(number) - 1);
    return "?";
  });
  return { statement: db.prepare(plain), order: order.length === 0 ? undefined : order, changesRows: CHANGES_ROWS.test(text) };
}

/** For code that works on SQLite alone (salvage, a copy from a snapshot, the persister): its programs run at once. */
export class SqliteSession extends Session {
  readonly db: SqliteDatabase;
  readonly #engine: SqliteEngine;

  /**
   * @param around its transactions use this engine instead
   * @param isStepped its programs stop at each statement
   */
  constructor(engine: SqliteEngine, sealing?: Sealing, around: Engine = engine, isStepped = false) {
    super(around, sealing, isStepped);
    this.db = engine.db;
    this.#engine = engine;
  }

  /** Runs a program at once, in the open transaction or in none. */
  now<T>(program: Program<T>): T {
    return this.#engine.now(program);
  }
}

/**
 * For a connection whose caller begins and commits transactions.
 * @param isStepped programs stop at each statement
 */
export function sessionOn(db: SqliteDatabase, sealing?: Sealing, isStepped = false): SqliteSession {
  const engine = new SqliteEngine(db, undefined);
  return new SqliteSession(engine, sealing, engine, isStepped);
}

/**
 * Runs a program that reads one state of the file. On a damaged page, COMMIT fails even if nothing was written.
 * @throws {TurnsError} STORE_BUSY inside a transaction
 */
export function lookedAt<T>(session: SqliteSession, program: () => Program<T>): T {
  refuseInside(session.db, NEEDS_NO_TRANSACTION);
  session.db.exec("BEGIN");
  try {
    return session.now(program());
  } finally {
    if (session.db.inTransaction) session.db.exec("ROLLBACK");
  }
}

/** Average pause between two attempts to get the lock. Long waiters try more often, so that nobody waits for ever. */
const PAUSE_MS = 12;
const EAGER_PAUSE_MS = 3;
const EAGER_AFTER_MS = 250;
/** SQLite's number for it. */
const SYNCHRONOUS_FULL = 2;

/**
 * Runs transactions strictly in the order in which they were handed in.
 *
 * While no other connection holds the file's lock, each commits before {@link run} returns; callers rely on that. When the lock
 * is taken, the transaction waits asynchronously (SQLite itself would freeze the event loop). Everything handed in meanwhile
 * queues behind it: a Thought never overtakes its checkpoint. A transaction that the user has open on the same handle is waited
 * for like a lock: what is saved inside it isn't committed, and would be gone with its rollback (requirement S7.1). As long as the lock is contended, each commit is followed by a
 * pause in which others get the lock. Without it, a process with much to save would hold the lock without a gap, because the file
 * has no queue.
 */
export class Commits {
  readonly #db: SqliteDatabase;
  /** Made once, on first use: a driver prepares several statements for each. */
  #transaction: SqliteTransaction<[work: () => unknown]> | undefined;
  #begin: SqliteStatement | undefined;
  #commitRead: SqliteStatement | undefined;
  readonly #busyTimeoutMs: number;
  readonly #file: OpenedFile;
  readonly #log: LogWatch | undefined;
  #isFull: boolean | undefined;
  readonly #rolledBack: (isInside: boolean) => void;
  #waiting: Promise<unknown> | undefined;
  /** Whether another process had the lock since the queue was last empty. */
  #contended = false;
  #refusal: { error: unknown } | undefined;
  /** What is left to do before anything else; see {@link beginWith}. */
  #first: (() => void) | undefined;

  /**
   * @param rolledBack called when the writes of transactions may be gone: one failed, its COMMIT included, or begins or ends
   *   inside one of the user's
   */
  constructor(db: SqliteDatabase, busyTimeoutMs: number, rolledBack: (isInside: boolean) => void, log?: LogWatch) {
    this.#db = db;
    this.#rolledBack = rolledBack;
    this.#log = log;
    this.#file = new OpenedFile(db);
    this.#busyTimeoutMs = busyTimeoutMs;
  }

  /**
   * Lets nothing run before the promise resolves. If it rejects, everything is refused with its error. Call it before anything
   * else.
   */
  holdUntil(opening: Promise<unknown>): void {
    const settled: Promise<unknown> = opening
      .catch((error: unknown) => {
        this.#refusal = { error };
      })
      .then(() => {
        if (this.#waiting === settled) this.#waiting = undefined;
      });
    this.#waiting = settled;
  }

  /** Runs this before anything else. If it throws, what waits for it is refused with its error, and the next one tries again. */
  beginWith(first: () => void): void {
    this.#first = first;
  }

  /**
   * Runs `work` in one IMMEDIATE transaction. If it throws, all of it is rolled back.
   * @param busyMs tries no longer than this
   */
  run<T>(work: () => T, busyMs?: number): Awaitable<T> {
    return this.#inOrder(() => this.#attempt(() => this.#commit(work)), busyMs);
  }

  /**
   * {@link run} without waiting for the disk. A power cut may lose this commit, but none that came after it. For data that is
   * useless after a power cut, such as which runs are running.
   */
  runUnsynced<T>(work: () => T, busyMs?: number): Awaitable<T> {
    const attempt = (): T => {
      this.#isFull ??= this.#db.pragma("synchronous", { simple: true }) === SYNCHRONOUS_FULL;
      // Within a transaction of the user's SQLite doesn't change it, and nothing is committed.
      if (!this.#isFull || this.#db.inTransaction) return this.#commit(work);
      this.#db.pragma("synchronous = NORMAL");
      try {
        return this.#commit(work);
      } finally {
        this.#db.pragma("synchronous = FULL");
      }
    };
    return this.#inOrder(() => this.#attempt(attempt), busyMs);
  }

  /** Runs work that changes the file or moves its log, in its turn and outside of any transaction. */
  upkeep<T>(work: () => T): Awaitable<T> {
    return this.alone(() => {
      this.#file.refuseMoving();
      return work();
    });
  }

  /** Closes the database. Nothing may be waiting. A file that was cut is left as it is. */
  close(): void {
    this.#file.close();
  }

  /** Runs a read after the writes that were handed in before it. All its queries see one state of the file. */
  read<T>(work: () => T): Awaitable<T> {
    return this.#inOrder(() => this.#attempt(() => this.#whole(() => this.#reading(work))));
  }

  /** Runs work in its turn, outside of any transaction. */
  alone<T>(work: () => T): Awaitable<T> {
    return this.#inOrder(() => this.#attempt(work));
  }

  #reading<T>(work: () => T): T {
    const db = this.#db;
    if (db.inTransaction) return work();
    (this.#begin ??= db.prepare("BEGIN")).run();
    try {
      const result = work();
      (this.#commitRead ??= db.prepare("COMMIT")).run();
      return result;
    } finally {
      if (db.inTransaction) db.exec("ROLLBACK");
    }
  }

  #commit<T>(work: () => T): T {
    refuseInside(this.#db);
    this.#file.refuseLost();
    const transaction = (this.#transaction ??= this.#db.transaction((write: () => unknown) => write()));
    const result = this.#whole(() => transaction.immediate(work) as T);
    this.#file.refuseLost(true);
    this.#log?.committed();
    return result;
  }

  #whole<T>(run: () => T): T {
    const isInside = this.#db.inTransaction;
    let isDone = false;
    if (isInside) this.#rolledBack(true);
    try {
      const result = run();
      isDone = true;
      return result;
    } finally {
      if (isInside || !isDone) this.#rolledBack(isInside);
    }
  }

  #inOrder<T>(attempt: () => T, busyMs = Infinity): Awaitable<T> {
    if (this.#waiting === undefined) {
      try {
        return attempt();
      } catch (error) {
        if (!TurnsError.is(error, "STORE_BUSY")) throw error;
        this.#contended = true;
      }
    }
    return this.#enqueue(attempt, Math.min(busyMs, this.#busyTimeoutMs));
  }

  #enqueue<T>(attempt: () => T, busyMs: number): Promise<T> {
    const handedIn = uptime();
    const result = (this.#waiting ?? Promise.resolve()).then(() => this.#retry(attempt, handedIn, busyMs));
    const settled: Promise<unknown> = result
      .catch(() => undefined)
      .then(() => {
        if (this.#waiting !== settled) return;
        this.#waiting = undefined;
        this.#contended = false;
      });
    this.#waiting = settled;
    return result;
  }

  async #retry<T>(attempt: () => T, handedIn: number, busyMs: number): Promise<T> {
    const since = uptime();
    // The owner of a transaction on this handle may be waiting for us: all that wait for its end give up together.
    const waited = (): number => uptime() - (this.#db.open && this.#db.inTransaction ? handedIn : since);
    if (this.#contended) await pause(EAGER_PAUSE_MS);
    for (;;) {
      try {
        return attempt();
      } catch (error) {
        if (!TurnsError.is(error, "STORE_BUSY") || waited() >= busyMs) throw error;
      }
      this.#contended = true;
      await pause(uptime() - since < EAGER_AFTER_MS ? PAUSE_MS : EAGER_PAUSE_MS);
    }
  }

  #attempt<T>(work: () => T): T {
    if (!this.#db.open) throw closed(this.#db.name);
    if (this.#refusal !== undefined) throw this.#refusal.error;
    try {
      this.#first?.();
      this.#first = undefined;
      return againIfUnread(work);
    } catch (error) {
      throw translated(error, this.#db.name);
    }
  }
}

/** Random, so that processes waiting for the same lock don't keep in step. */
function pause(ms: number): Promise<void> {
  return new Promise((resolve) => later(resolve, ms * (0.5 + Math.random())));
}

/** SQLite reports a page as damaged if the disk failed to return it once. Real damage shows the second time too. */
function againIfUnread<T>(work: () => T): T {
  try {
    return work();
  } catch (error) {
    if (!sqliteCode(error).startsWith("SQLITE_CORRUPT")) throw error;
    return work();
  }
}

function closed(file: string): TurnsError {
  return new TurnsError("STORE_CLOSED", {
    problem: `The saver of database ${file} is closed.`,
    remedy:
      "Open a new saver to continue. Before you close one while runs may still be active, call await saver.drain(): it ends them at their node boundaries.",
    data: { file },
  });
}

const WOULD_SAVE = "Nothing was saved: the saver doesn't save inside a transaction that may be rolled back.";

/** For work that SQLite itself doesn't do inside a transaction. */
export const NEEDS_NO_TRANSACTION = "Nothing was changed: this works only outside of a transaction.";

/**
 * A transaction of the user's counts as a lock: it is waited for as long.
 * @throws {TurnsError} STORE_BUSY if one is open on the connection
 */
export function refuseInside({ inTransaction, name: file }: SqliteDatabase, reason = WOULD_SAVE): void {
  if (!inTransaction) return;
  throw new TurnsError("STORE_BUSY", {
    problem: `The connection to database ${file} stayed inside a transaction of your own for longer than busyTimeoutMs.`,
    remedy: `${reason} End yours with COMMIT or ROLLBACK before you wait for a run, or give the saver a connection of its own: TurnSaver.fromPath(path).`,
    data: { file },
  });
}

/** Twice the size that SQLite cuts the log down to. The log gets this long only if SQLite can't restart it from the beginning. */
const LONG_BYTES = 128 * 1024 * 1024;
const LOOK_EVERY = 256;
const TELL_EVERY_MS = 60_000;

/**
 * Warns when the write-ahead log gets too long. SQLite restarts the log only while nobody reads from it. A read transaction that
 * is never closed makes it grow with every save, and only its owner can close it. None of our transactions stays open across an
 * await, so the owner is another program or a backup.
 */
export class LogWatch {
  readonly #db: SqliteDatabase;
  readonly #log: Logger | undefined;
  readonly #long: number;
  #commits = 0;
  #told = -Infinity;

  constructor(db: SqliteDatabase, log: Logger | undefined, long = LONG_BYTES) {
    this.#db = db;
    this.#log = log;
    this.#long = long;
  }

  /** Called after each commit. Costs next to nothing, and never throws. */
  committed(): void {
    this.#commits += 1;
    if (this.#commits % LOOK_EVERY !== 0 || this.#db.memory || uptime() - this.#told < TELL_EVERY_MS) return;
    const bytes = sizeOf(`${this.#db.name}-wal`) ?? 0;
    if (bytes <= this.#long) return;
    this.#told = uptime();
    this.#log?.warn(
      { file: this.#db.name, bytes },
      "the write-ahead log is long and SQLite cannot shorten it: a program has been reading the file in one transaction for a long time; end that transaction, and the log gets shorter by itself",
    );
  }
}

/**
 * Runs a program on an engine that answers at once.
 * @throws what the program throws
 */
function runNow<T>(program: Program<T>, execute: Execute): T {
  let step = program.next();
  while (step.done !== true) {
    let answer: unknown;
    try {
      answer = execute(step.value.text, step.value.values, step.value.returns);
    } catch (error) {
      step = program.throw(error);
      continue;
    }
    step = program.next(answer);
  }
  return step.value;
}
