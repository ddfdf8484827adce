import type { Logger } from "../../logger";
import type { SqliteDatabase } from "./driver";
import { sizeOf } from "./opened-file";
import { uptime } from "../../uptime";

/** Twice of what SQLite cuts the log down to: so long it gets only if it cannot begin anew. */
const LONG_BYTES = 128 * 1024 * 1024;
const LOOK_EVERY = 256;
const TELL_EVERY_MS = 60_000;

/**
 * Tells when the write-ahead log gets too long. It begins anew only in a moment in which nobody reads from it: a transaction that reads
 * and is never ended (none of ours is open across an await; another program's, a backup's) makes it grow with everything that is
 * saved, and nobody but that program can end it.
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

  /** A transaction was committed. Costs next to nothing, and never throws. */
  committed(): void {
    this.#commits += 1;
    if (this.#commits % LOOK_EVERY !== 0 || this.#db.memory || uptime() - this.#told < TELL_EVERY_MS) return;
    const bytes = sizeOf(`${this.#db.name}-wal`) ?? 0;
    if (bytes <= this.#long) return;
    this.#told = uptime();
    this.#log?.warn(
      { file: this.#db.name, bytes },
      "the write-ahead log is long and cannot begin anew: some program has been reading the file in one transaction for long; end it, and the log gets shorter by itself",
    );
  }
}
