import {
  CommitInDoubt,
  type Program,
  StaleFacts,
  type Statement,
  type StorageEngine,
  type Store,
  type StoreWrapper,
} from "../../src/testing-internal";

/** How often, of a thousand transactions. */
const STALE = 60;
const LOST_BEFORE = 30;
const LOST_AFTER = 30;
const LATEST = 3;

/** What a hostile engine has done to the savers on it, and how often transactions that wrote waited for a statement. */
export const inflicted = { stale: 0, lostBefore: 0, lostAfter: 0, overtaken: 0, guarded: 0, waits: 0 };

/**
 * A store on an engine as a server on the network can be, whose answers on one thread may overtake those on another.
 * @param buffers statements that return nothing are sent with the next one that does, and guards alone tell that others have written
 */
export function hostile(seed: number, buffers = process.env["TURNS_HOSTILE"] === "buffers"): StoreWrapper {
  let opened = 0;
  return {
    engine: (engine) => new HostileEngine(buffers ? new BufferingEngine(engine) : engine, seed + (opened += 1)),
    store: (store) => withLateAnswers(store, randomOf(~(seed + opened))),
  };
}

/** A store on an engine that buffers, without the hostility: to count what transactions wait for. */
export function buffering(): StoreWrapper {
  return { engine: (engine) => new BufferingEngine(engine), store: (store) => store };
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
        throw this.#inDoubt(false);
      }
      const value = await this.#inner.write(program, durability);
      if (fate < STALE + LOST_BEFORE + LOST_AFTER) {
        inflicted.lostAfter += 1;
        throw this.#inDoubt(true);
      }
      return value;
    });
  }

  #inDoubt(isCommitted: boolean): CommitInDoubt {
    return new CommitInDoubt(new Error("the connection was lost"), () => Promise.resolve(isCommitted));
  }

  read<T>(program: () => Program<T>): Promise<T> {
    return this.#inTurn(async () => this.#inner.read(program));
  }

  get provisional(): number | undefined {
    return this.#inner.provisional;
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

  isCancelled(error: unknown): boolean {
    return this.#inner.isCancelled(error);
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

/** These do nothing. A server's fail by themselves; here {@link buffered} asks instead. */
const GUARD_THREAD = "UPDATE langgraph_threads SET seq = seq WHERE FALSE AND thread = ? AND seq = ? AND generation = ?";
const GUARD_EFFECT = "UPDATE langgraph_effects SET seq = seq WHERE FALSE AND id = ? AND checksum = ?";
const GUARD_SETTING = "UPDATE langgraph_settings SET name = name WHERE FALSE AND name = ?";
const LOCK = "UPDATE langgraph_settings SET name = name WHERE FALSE AND name = '' || ?";
const ASKED = new Map([
  [GUARD_THREAD, "SELECT count(*) AS n FROM langgraph_threads WHERE thread = ? AND seq = ? AND generation = ?"],
  [GUARD_EFFECT, "SELECT count(*) AS n FROM langgraph_effects WHERE id = ? AND checksum = ?"],
  [GUARD_SETTING, "SELECT count(*) AS n FROM langgraph_settings WHERE name = ?"],
]);

/**
 * An engine that sends statements as a server's does: those that return nothing wait for the next one that does, or for the commit,
 * and their errors come then. It doesn't notice that others have written, so that only guards do.
 */
class BufferingEngine implements StorageEngine {
  readonly buffers = true;
  readonly dialect: StorageEngine["dialect"];
  readonly #inner: StorageEngine;

  constructor(inner: StorageEngine) {
    this.#inner = inner;
    const guards = { thread: GUARD_THREAD, effect: GUARD_EFFECT, setting: GUARD_SETTING };
    const clock = "SELECT CAST(unixepoch('subsec') * 1000 AS INTEGER) AS now";
    this.dialect = { ...inner.dialect, guards, lockText: LOCK, clock };
  }

  get name(): string {
    return this.#inner.name;
  }

  get open(): boolean {
    return this.#inner.open;
  }

  write<T>(program: () => Program<T>, durability?: "synced" | "unsynced"): T | Promise<T> {
    return this.#inner.write(() => buffered(program(), true), durability);
  }

  read<T>(program: () => Program<T>): T | Promise<T> {
    return this.#inner.read(() => buffered(program()));
  }

  *hasChanged(): Program<boolean> {
    yield* this.#inner.hasChanged();
    return false;
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

  isCancelled(error: unknown): boolean {
    return this.#inner.isCancelled(error);
  }
}

/** The same program, whose statements without an answer wait. After a failed one, none is carried out any more. */
function* buffered<T>(program: Program<T>, writes = false): Program<T> {
  const waiting: Statement[] = [];
  const send = function* (): Program {
    for (const statement of waiting.splice(0)) {
      const asked = ASKED.get(statement.text);
      if (asked === undefined) yield statement;
      else if (((yield { ...statement, text: asked, returns: "one" }) as { n: number }).n === 0) {
        inflicted.guarded += 1;
        throw new StaleFacts();
      }
    }
  };
  let step = program.next();
  while (step.done !== true) {
    const statement = step.value;
    if (statement.returns === "none") {
      waiting.push(statement);
      step = program.next();
      continue;
    }
    if (writes) inflicted.waits += 1;
    let answer: { value: unknown } | { error: unknown };
    try {
      yield* send();
      answer = { value: yield statement };
    } catch (error) {
      waiting.length = 0;
      answer = { error };
    }
    step = "error" in answer ? program.throw(answer.error) : program.next(answer.value);
  }
  yield* send();
  return step.value;
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
