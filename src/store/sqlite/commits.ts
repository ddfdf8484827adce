import type { Awaitable } from "../store";
import { TurnsError } from "../../errors";
import { CutWatch } from "./cut-watch";
import type { SqliteDatabase, SqliteStatement, SqliteTransaction } from "./driver";
import { sqliteCode, translated } from "./failures";
import type { LogWatch } from "./log-watch";
import { OpenedFile, pathOf } from "./opened-file";
import { uptime } from "../../uptime";

/** Taken at load, so that a user's fake timers can't stop a run. */
const later = setTimeout;
/** Between two attempts to get the lock, on average; who has waited for long looks more often, so that nobody is passed over for ever. */
const PAUSE_MS = 12;
const EAGER_PAUSE_MS = 3;
const EAGER_AFTER_MS = 250;
/** What SQLite calls it in numbers. */
const SYNCHRONOUS_FULL = 2;

/**
 * Runs transactions strictly in the order in which they were handed in.
 *
 * While nobody else holds the file's lock each commits before {@link run} returns; callers rely on that. When the lock is taken, the
 * transaction waits its turn asynchronously (SQLite itself would freeze the event loop), and everything handed in meanwhile queues
 * behind it: a Thought never overtakes its checkpoint. As long as that goes on there is a pause behind each commit, in which others get the
 * lock: a process with much to save would hold it without a gap, and the file has no queue.
 */
export class Commits {
  readonly #db: SqliteDatabase;
  /** Made once, and when it is needed: a driver prepares several statements for each. */
  #immediate: SqliteTransaction<[work: () => unknown]> | undefined;
  #begin: SqliteStatement | undefined;
  #commitRead: SqliteStatement | undefined;
  readonly #busyTimeoutMs: number;
  readonly #file: OpenedFile;
  readonly #cuts: CutWatch;
  readonly #log: LogWatch | undefined;
  #isFull: boolean | undefined;
  readonly #rolledBack: () => void;
  #waiting: Promise<unknown> | undefined;
  /** Since the queue was last empty somebody else had the lock. */
  #contended = false;
  #refusal: { error: unknown } | undefined;

  /** @param rolledBack what transactions did may be gone: called when one fails, its COMMIT included, or lies inside one of the user's */
  constructor(db: SqliteDatabase, busyTimeoutMs: number, rolledBack: () => void, log?: LogWatch) {
    this.#db = db;
    this.#rolledBack = rolledBack;
    this.#log = log;
    const path = pathOf(db);
    this.#file = new OpenedFile(db, path);
    this.#cuts = new CutWatch(db, path);
    this.#busyTimeoutMs = busyTimeoutMs;
  }

  /** Lets nothing run before the promise resolves. If it rejects, its error is what all is refused with. Call it before anything else. */
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

  /** Runs `work` in one IMMEDIATE transaction; what it throws rolls all of it back. */
  run<T>(work: () => T): Awaitable<T> {
    return this.#inOrder(() => this.#attempt(() => this.#commit(work)));
  }

  /**
   * As {@link run}, without waiting for the disk. A power cut may take the commit back, but none that came after it. For what is of no use
   * after a power cut: which runs are going on.
   */
  runUnsynced<T>(work: () => T): Awaitable<T> {
    this.#isFull ??= this.#db.pragma("synchronous", { simple: true }) === SYNCHRONOUS_FULL;
    if (!this.#isFull) return this.run(work);
    return this.#inOrder(() =>
      this.#attempt(() => {
        this.#db.pragma("synchronous = NORMAL");
        try {
          return this.#commit(work);
        } finally {
          this.#db.pragma("synchronous = FULL");
        }
      }),
    );
  }

  /** Runs work that changes the file or moves its log and that no transaction may be around, in its turn. */
  upkeep<T>(work: () => T): Awaitable<T> {
    return this.alone(() => {
      this.#file.refuseAnother();
      this.#cuts.refuseCut();
      return work();
    });
  }

  /** Closes the database; nothing may be waiting. A file that was cut is left as it is. */
  close(): void {
    this.#cuts.close();
  }

  /** Runs a read behind the writes that were handed in before it; all its queries see one state of the file. */
  read<T>(work: () => T): Awaitable<T> {
    return this.#inOrder(() => this.#attempt(() => this.#whole(() => this.#reading(work))));
  }

  /** Runs work that no transaction may be around, in its turn. */
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
    this.#refuseLost();
    this.#immediate ??= this.#db.transaction((write: () => unknown) => write());
    const { immediate } = this.#immediate;
    const result = this.#whole(() => immediate(work) as T);
    this.#refuseLost(true);
    this.#log?.committed();
    return result;
  }

  #whole<T>(run: () => T): T {
    const isInside = this.#db.inTransaction;
    let isDone = false;
    try {
      const result = run();
      isDone = true;
      return result;
    } finally {
      if (isInside || !isDone) this.#rolledBack();
    }
  }

  /** What is written into a file that is gone, or behind a hole in its log, is lost. @param committed whether it has been */
  #refuseLost(committed = false): void {
    this.#cuts.refuseCut(committed, this.#file.refuseAnother());
  }

  #inOrder<T>(attempt: () => T): Awaitable<T> {
    if (this.#waiting === undefined) {
      try {
        return attempt();
      } catch (error) {
        if (!TurnsError.is(error, "STORE_BUSY")) throw error;
        this.#contended = true;
      }
    }
    return this.#enqueue(attempt);
  }

  #enqueue<T>(attempt: () => T): Promise<T> {
    const result = (this.#waiting ?? Promise.resolve()).then(() => this.#retry(attempt));
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

  async #retry<T>(attempt: () => T): Promise<T> {
    const since = uptime();
    if (this.#contended) await pause(EAGER_PAUSE_MS);
    for (;;) {
      try {
        return attempt();
      } catch (error) {
        if (!TurnsError.is(error, "STORE_BUSY") || uptime() - since >= this.#busyTimeoutMs) throw error;
      }
      this.#contended = true;
      await pause(uptime() - since < EAGER_AFTER_MS ? PAUSE_MS : EAGER_PAUSE_MS);
    }
  }

  #attempt<T>(work: () => T): T {
    if (!this.#db.open) throw closed(this.#db.name);
    if (this.#refusal !== undefined) throw this.#refusal.error;
    try {
      return againIfUnread(work);
    } catch (error) {
      throw translated(error, this.#db.name);
    }
  }
}

/** Processes that wait for the same lock must not keep step. */
function pause(ms: number): Promise<void> {
  return new Promise((resolve) => later(resolve, ms * (0.5 + Math.random())));
}

/** SQLite calls a page damaged that the disk once did not give. One that is damaged is so the second time too. */
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
    what: `database ${file}`,
    expected: "an open saver",
    found: "a closed one",
    remedy: "Call close() only after the last run on it has ended; open a new saver to go on.",
    data: { file },
  });
}
