import type { Awaitable } from "../store";
import { TurnsError } from "../../errors";
import type { SqliteDatabase } from "./driver";
import { translated } from "./failures";

const FIRST_PAUSE_MS = 2;
const LONGEST_PAUSE_MS = 50;

/**
 * Runs transactions strictly in the order in which they were handed in.
 *
 * While nobody else holds the file's lock each commits before {@link run} returns; callers rely on that. When the lock is taken, the
 * transaction waits its turn asynchronously (SQLite itself would freeze the event loop), and everything handed in meanwhile queues
 * behind it: a Thought never overtakes its checkpoint.
 */
export class Commits {
  readonly #db: SqliteDatabase;
  readonly #busyTimeoutMs: number;
  #waiting: Promise<unknown> | undefined;
  #held = false;
  #refusal: { error: unknown } | undefined;

  constructor(db: SqliteDatabase, busyTimeoutMs: number) {
    this.#db = db;
    this.#busyTimeoutMs = busyTimeoutMs;
  }

  /** Whether everything waits for what {@link holdUntil} was given. */
  get held(): boolean {
    return this.#held;
  }

  /** Lets nothing run before the promise resolves. If it rejects, its error is what all is refused with. Call it before anything else. */
  holdUntil(opening: Promise<unknown>): void {
    this.#held = true;
    const settled: Promise<unknown> = opening
      .catch((error: unknown) => {
        this.#refusal = { error };
      })
      .then(() => {
        this.#held = false;
        if (this.#waiting === settled) this.#waiting = undefined;
      });
    this.#waiting = settled;
  }

  /** Runs `work` in one IMMEDIATE transaction; what it throws rolls all of it back. */
  run<T>(work: () => T): Awaitable<T> {
    return this.#inOrder(() => this.#attempt(() => this.#db.transaction(work).immediate() as T));
  }

  /** Runs a read behind the writes that were handed in before it; all its queries see one state of the file. */
  read<T>(work: () => T): Awaitable<T> {
    return this.#inOrder(() => this.#attempt(() => this.#db.transaction(work)() as T));
  }

  /** Runs work that no transaction may be around, in its turn. */
  alone<T>(work: () => T): Awaitable<T> {
    return this.#inOrder(() => this.#attempt(work));
  }

  #inOrder<T>(attempt: () => T): Awaitable<T> {
    if (this.#waiting === undefined) {
      try {
        return attempt();
      } catch (error) {
        if (!TurnsError.is(error, "STORE_BUSY")) throw error;
      }
    }
    return this.#enqueue(attempt);
  }

  #enqueue<T>(attempt: () => T): Promise<T> {
    const result = (this.#waiting ?? Promise.resolve()).then(() => this.#retry(attempt));
    const settled: Promise<unknown> = result
      .catch(() => undefined)
      .then(() => {
        if (this.#waiting === settled) this.#waiting = undefined;
      });
    this.#waiting = settled;
    return result;
  }

  async #retry<T>(attempt: () => T): Promise<T> {
    const deadline = Date.now() + this.#busyTimeoutMs;
    for (let pause = FIRST_PAUSE_MS; ; pause = Math.min(pause * 2, LONGEST_PAUSE_MS)) {
      try {
        return attempt();
      } catch (error) {
        if (!TurnsError.is(error, "STORE_BUSY") || Date.now() >= deadline) throw error;
      }
      await new Promise((resolve) => setTimeout(resolve, pause * (0.5 + Math.random())));
    }
  }

  #attempt<T>(work: () => T): T {
    if (!this.#db.open) throw closed(this.#db.name);
    if (this.#refusal !== undefined) throw this.#refusal.error;
    try {
      return work();
    } catch (error) {
      throw translated(error, this.#db.name);
    }
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
