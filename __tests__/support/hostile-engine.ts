import {
  CommitInDoubt,
  type Program,
  StaleFacts,
  type StorageEngine,
  type Store,
  type StoreWrapper,
} from "../../src/testing-internal";

/** How often, of a thousand transactions. */
const STALE = 60;
const LOST_BEFORE = 30;
const LOST_AFTER = 30;
const LATEST = 3;

/** What a hostile engine has done to whoever used it. */
export const inflicted = { stale: 0, lostBefore: 0, lostAfter: 0, overtaken: 0 };

/** A store on an engine as a server on the network can be, whose answers on one thread may overtake those on another. */
export function hostile(seed: number): StoreWrapper {
  let opened = 0;
  return {
    engine: (engine) => new HostileEngine(engine, seed + (opened += 1)),
    store: (store) => withLateAnswers(store, randomOf(~(seed + opened))),
  };
}

/**
 * An engine as a server on the network can be: it answers every call later, says that facts are stale when they aren't, and loses the
 * connection before a commit is carried out, or after it. Nothing above the engine may notice.
 */
class HostileEngine implements StorageEngine {
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

  get dialect(): StorageEngine["dialect"] {
    return this.#inner.dialect;
  }

  get buffers(): boolean {
    return this.#inner.buffers;
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

  columnsOf(table: string): Program<string[]> {
    return this.#inner.columnsOf(table);
  }

  hasWritten(): void {
    this.#inner.hasWritten();
  }

  meaningOf(error: unknown): unknown {
    return this.#inner.meaningOf(error);
  }

  codeOf(error: unknown): string {
    return this.#inner.codeOf(error);
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
    await later(this.#random);
  }
}

/**
 * Answers on one thread come in the order of the calls, and those that are ready together come together; those on several threads come in
 * any order. What names no thread is answered behind all that was asked before, and before all that is asked after it.
 */
function withLateAnswers(store: Store, random: () => number): Store {
  const ready = new Map<string, Promise<unknown>>();
  const releases = new Map<string, Promise<void>>();
  const unanswered = new Set<Promise<unknown>>();
  let barrier: Promise<unknown> = Promise.resolve();
  let asked = 0;
  let newest = 0;
  const released = async (thread: string): Promise<void> => {
    const release = releases.get(thread) ?? later(random, 1).finally(() => releases.delete(thread));
    releases.set(thread, release);
    await release;
  };
  const late = (result: Promise<unknown>, thread: string | undefined): Promise<unknown> => {
    const number = (asked += 1);
    const isReady = Promise.allSettled([barrier, result, ...(thread === undefined ? unanswered : [ready.get(thread)])]);
    if (thread !== undefined) ready.set(thread, isReady);
    const isReleased = thread === undefined ? isReady : isReady.then(() => released(thread));
    if (thread === undefined) barrier = isReady;
    const answer = isReleased.then(() => {
      unanswered.delete(isReleased);
      if (number < newest) inflicted.overtaken += 1;
      newest = Math.max(newest, number);
      return result;
    });
    unanswered.add(isReleased);
    return answer;
  };
  return new Proxy(store, {
    get(target, name) {
      const member: unknown = Reflect.get(target, name);
      if (typeof member !== "function") return member;
      return (...args: unknown[]): unknown => {
        const result: unknown = member.apply(target, args);
        return result instanceof Promise ? late(result, threadOf(args)) : result;
      };
    },
  });
}

/** The thread that a call of a store names: in its first argument, or as that. */
function threadOf([first]: unknown[]): string | undefined {
  const { threadId } = Object(first) as { threadId?: unknown };
  return typeof threadId === "string" ? threadId : undefined;
}

async function later(random: () => number, atLeast = 0): Promise<void> {
  for (let turns = atLeast + Math.floor(random() * LATEST); turns > 0; turns -= 1)
    await new Promise((done) => setImmediate(done));
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
