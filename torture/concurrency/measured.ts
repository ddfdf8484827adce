import { openSync, readSync } from "node:fs";
import { performance } from "node:perf_hooks";
import type Database from "better-sqlite3";

/** Milliseconds, each once. */
export interface Figures {
  /** How long the event loop slept in SQLite for the write lock, one attempt of a transaction. */
  locked: number[];
  /** The same for whole reads. */
  reading: number[];
  /** How long COMMIT took, with its fsync and, now and then, moving the write-ahead log into the file. */
  committing: number[];
  /** From the first attempt of a transaction to its commit, with all the waiting in between, which blocks nobody. */
  waiting: number[];
  /** Opening a saver on the file while all others run. */
  opening: number[];
}

export const noFigures = (): Figures => ({ locked: [], reading: [], committing: [], waiting: [], opening: [] });

/** The kernel's counts for the main thread: nanoseconds running, nanoseconds waiting for a processor. */
const SCHEDULE = openSync("/proc/self/schedstat", "r");
const buffer = Buffer.alloc(128);

function offTheProcessor(): number {
  const [atWork = 0, inWait = 0] = buffer
    .toString("latin1", 0, readSync(SCHEDULE, buffer, 0, 128, 0))
    .split(" ")
    .map(Number);
  return (atWork + inWait) / 1e6;
}

/**
 * How long a piece of synchronous work slept: its time minus its computing time, and minus its waiting for a processor that other
 * processes used.
 */
export class Nap {
  readonly #begun = performance.now();
  readonly #busy = offTheProcessor();

  get slept(): number {
    return Math.max(0, performance.now() - this.#begun - (offTheProcessor() - this.#busy));
  }
}

/** The same database, with a record of how long its transactions wait and sleep. */
export function measured(db: Database.Database, figures: Figures): Database.Database {
  type Work = (...args: unknown[]) => unknown;
  /** When the work was first tried. A transaction may be created once and get the work as its argument. */
  const since = new WeakMap<object, number>();
  const transaction = (run: Work): unknown => {
    const immediate = (...args: unknown[]): unknown => {
      const work = typeof args[0] === "function" ? args[0] : run;
      if (!since.has(work)) since.set(work, performance.now());
      const nap = new Nap();
      let committing: number | undefined;
      try {
        const result = db
          .transaction(() => {
            figures.locked.push(nap.slept);
            const done = run(...args);
            committing = performance.now();
            return done;
          })
          .immediate();
        return result;
      } finally {
        const now = performance.now();
        if (committing === undefined) figures.locked.push(nap.slept);
        else {
          figures.committing.push(now - committing);
          figures.waiting.push(now - (since.get(work) ?? now));
        }
      }
    };
    const deferred = (...args: unknown[]): unknown => {
      const nap = new Nap();
      try {
        return db.transaction(run)(...args);
      } finally {
        figures.reading.push(nap.slept);
      }
    };
    return Object.assign(deferred, { immediate });
  };
  return new Proxy(db, {
    get(target, name) {
      if (name === "transaction") return transaction;
      const value: unknown = Reflect.get(target, name, target);
      return typeof value === "function" ? (value as (...given: unknown[]) => unknown).bind(target) : value;
    },
  });
}

export interface Spread {
  count: number;
  p50: number;
  p99: number;
  max: number;
}

export function spread(values: readonly number[]): Spread {
  const sorted = [...values].sort((a, b) => a - b);
  const at = (share: number): number => sorted[Math.min(sorted.length - 1, Math.floor(share * sorted.length))] ?? 0;
  return { count: sorted.length, p50: at(0.5), p99: at(0.99), max: sorted.at(-1) ?? 0 };
}
