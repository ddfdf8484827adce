import { CommitInDoubt, type Program, StaleFacts, type StorageEngine } from "../../src/testing-internal";

/** How often, of a thousand transactions. */
const STALE = 60;
const LOST_BEFORE = 30;
const LOST_AFTER = 30;
const LATEST = 3;

/** What a hostile engine has done to whoever used it. */
export const inflicted = { stale: 0, lostBefore: 0, lostAfter: 0 };

/**
 * An engine as a server on the network can be: it answers every call later, says that facts are stale when they aren't, and loses the
 * connection before a commit is carried out, or after it. Nothing above the engine may notice.
 */
export class HostileEngine implements StorageEngine {
  readonly #inner: StorageEngine;
  readonly #random: () => number;
  #last: Promise<unknown> = Promise.resolve();

  constructor(inner: StorageEngine, seed: number) {
    this.#inner = inner;
    this.#random = randomOf(seed);
  }

  get name(): string {
    return this.#inner.name;
  }

  get open(): boolean {
    return this.#inner.open;
  }

  write<T>(program: () => Program<T>, durability?: "synced" | "unsynced"): Promise<T> {
    return this.#inTurn(async () => {
      const fate = this.#random() * 1_000;
      if (fate < STALE) {
        inflicted.stale += 1;
        throw new StaleFacts();
      }
      if (fate < STALE + LOST_BEFORE) {
        inflicted.lostBefore += 1;
        throw new CommitInDoubt(new Error("the connection was lost"));
      }
      const value = await this.#inner.write(program, durability);
      if (fate < STALE + LOST_BEFORE + LOST_AFTER) {
        inflicted.lostAfter += 1;
        throw new CommitInDoubt(new Error("the connection was lost"));
      }
      return value;
    });
  }

  read<T>(program: () => Program<T>): Promise<T> {
    return this.#inTurn(async () => this.#inner.read(program));
  }

  hasChanged(): Program<boolean> {
    return this.#inner.hasChanged();
  }

  hasWritten(): void {
    this.#inner.hasWritten();
  }

  meaningOf(error: unknown): unknown {
    return this.#inner.meaningOf(error);
  }

  isPassing(error: unknown): boolean {
    return this.#inner.isPassing(error);
  }

  #inTurn<T>(work: () => Promise<T>): Promise<T> {
    const answer = this.#last.then(() => this.#later()).then(work);
    this.#last = answer.catch(() => undefined).then(() => this.#later());
    return this.#last.then(() => answer);
  }

  async #later(): Promise<void> {
    for (let turns = Math.floor(this.#random() * LATEST); turns > 0; turns -= 1) await new Promise((done) => setImmediate(done));
  }
}

/** Mulberry32: the same numbers for the same seed. */
function randomOf(seed: number): () => number {
  let state = seed >>> 0;
  return () => {
    state = (state + 0x6d2b79f5) >>> 0;
    let mixed = Math.imul(state ^ (state >>> 15), 1 | state);
    mixed = (mixed + Math.imul(mixed ^ (mixed >>> 7), 61 | mixed)) ^ mixed;
    return ((mixed ^ (mixed >>> 14)) >>> 0) / 4_294_967_296;
  };
}
