import type { Sealing } from "../sealing";
import type { Engine } from "./engine";
import type { Bound, Execute, Program, Statement } from "./program";
import { type Rows, THREAD_ROWS, TURN_ROWS, turnValues } from "./rows";
import type { RowOf, Table } from "./tables";
import { Recent, type ThreadFields, type ThreadState } from "./thread-state";

/** How many thread tags are remembered. */
const TAGS_MAX = 1_000;
/** How many runs that are over are remembered. */
const ENDED = 1_000;
/** How many threads' facts are remembered. */
const THREADS = 256;

/** What a session and its readers remember together. */
interface SharedWithReads {
  tags: Map<string, string>;
  numbers: Map<string, number>;
  setBacks: Map<string, number>;
}

/** Of a thread's row: what only grows as long as no commit is lost. */
type Progress = Pick<ThreadFields, "thread" | "seq" | "generation">;

/** A question that a program may ask, with its answer if that is known. */
type Expected = Statement & { answer: { value: unknown } | undefined };

/**
 * What one program left for the end of the transaction couldn't be written. The program that runs at that moment isn't the cause.
 */
export class LeftUnwritten extends Error {
  constructor(override readonly cause: unknown) {
    super("a turn could not be written", { cause });
  }
}

/**
 * What programs work with: the statements of the current transaction, and the facts known from earlier ones. Statement texts are
 * constants: values are always bound.
 */
export class Session {
  readonly engine: Engine;
  /** Known facts, by thread id. */
  readonly threads = new Map<string, ThreadState>();
  /** The thread of each run that is known to hold it. */
  readonly leases = new Map<string, string>();
  /** Runs that have released their lease. It only decides what a late save is told. */
  readonly ended = new Recent<string, true>(ENDED);
  /** Threads that don't exist and have no tombstone, as the start of a run has found, each with the number that it gets. */
  readonly awaited = new Map<string, number>();
  /** Whether it's known that the sealing key isn't retired. */
  isKeyCurrent = false;
  /** Graph runs that are known to have no effects but on saved checkpoints. Only the process of a run records its effects. */
  readonly savedRuns = new Set<string>();
  /** The current program has a transaction of its own, in which its turns may fail without it. */
  inParts = false;
  /** Why the turns of the current program are left out, if they are. */
  leftOut: { error: unknown } | undefined;
  /** Threads that the current transaction has changed. */
  readonly changed = new Set<ThreadState>();
  /** Threads whose row the current transaction has read or guarded, so that nobody else changes them. */
  readonly #guarded = new Set<ThreadState>();
  /** See {@link expecting}. */
  #expected: Expected[] | undefined;
  /** Whether its transactions only read. Then it starts without facts and has one transaction. */
  readonly isReading: boolean;
  readonly #tags: Map<string, string>;
  /** See {@link numberOf}. */
  readonly #numbers: Map<string, number>;
  /** How often each thread was found {@link noticeRead set back}. */
  readonly #setBacks: Map<string, number>;
  /** How far each thread was when it was last known to be committed. */
  readonly #committed = new Recent<string, Progress>(TAGS_MAX);
  /** The same of the last transaction, as long as its commit isn't known to be carried out. */
  readonly #uncommitted = new Map<string, Progress>();
  readonly #execute: Execute | undefined;
  #sealing: Sealing | undefined;

  /** @param isStepped programs stop at each statement, though the engine answers at once */
  constructor(engine: Engine, sealing?: Sealing, isStepped = false, reads?: SharedWithReads) {
    this.engine = engine;
    this.isReading = reads !== undefined;
    this.#tags = reads?.tags ?? new Map<string, string>();
    this.#numbers = reads?.numbers ?? new Map<string, number>();
    this.#setBacks = reads?.setBacks ?? new Map<string, number>();
    this.#execute = isStepped ? undefined : engine.execute;
    this.#sealing = sealing;
  }

  /** For one transaction that reads: where reads don't wait for writes, they share no facts with them. */
  reader(): Session {
    const shared = { tags: this.#tags, numbers: this.#numbers, setBacks: this.#setBacks };
    return new Session(this.engine, this.#sealing, this.#execute === undefined, shared);
  }

  /** Translates between texts and stored bytes. */
  get sealing(): Sealing {
    if (this.#sealing === undefined) throw new Error("the keys of this database are not there yet");
    return this.#sealing;
  }

  /** Whether the keys of the database have arrived. */
  get isUnlocked(): boolean {
    return this.#sealing !== undefined;
  }

  unlock(sealing: Sealing): void {
    this.#sealing = sealing;
  }

  /** Changes rows. On an engine that buffers, a later statement that is waited for throws the error of this one. */
  *run(text: string, ...values: Bound[]): Program {
    this.#expected = undefined;
    if (this.#execute !== undefined) this.#execute(text, values, "none");
    else yield { text, values, returns: "none" };
  }

  /** {@link run} that waits. @returns how many rows were changed */
  *changes(text: string, ...values: Bound[]): Program<number> {
    this.#expected = undefined;
    if (this.#execute !== undefined) return this.#execute(text, values, "count") as number;
    return (yield { text, values, returns: "count" }) as number;
  }

  *get<T>(text: string, ...values: Bound[]): Program<T | undefined> {
    if (this.#expected !== undefined) return (yield* this.#answered({ text, values, returns: "one" })) as T | undefined;
    if (this.#execute !== undefined) return this.#execute(text, values, "one") as T | undefined;
    return (yield { text, values, returns: "one" }) as T | undefined;
  }

  /** A SELECT of one table; if the transaction writes, nobody else changes these rows until its end. */
  locking(select: string): string {
    return this.isReading ? select : select + this.engine.dialect.forUpdate;
  }

  /** {@link locking} for rows that others only mustn't delete. */
  sharing(select: string): string {
    return this.isReading ? select : select + this.engine.dialect.forShare;
  }

  /** Lets no other transaction lock the same text until the end of this one: before looking for what may not exist yet. */
  *lock(text: string): Program {
    const { lockText } = this.engine.dialect;
    if (lockText !== undefined && !this.isReading) yield* this.run(lockText, text);
  }

  /** The sealing key, if there is one, must not have been retired. @throws {StaleFacts} now or later */
  *guardKey(): Program {
    const { guards } = this.engine.dialect;
    if (guards !== undefined && this.sealing.keyId !== undefined) yield* this.run(guards.setting, `key:${this.sealing.keyId}`);
  }

  /**
   * Remembers a thread whose row the current transaction has written for the first time. What is known of leases from before then may
   * have changed: no row of the thread told.
   */
  made(key: ThreadState): void {
    if (this.engine.dialect.guards !== undefined) this.forgetLeases(key.threadId);
    this.remember(key);
  }

  /** Remembers a thread that the current transaction has read or made. */
  remember(key: ThreadState): void {
    this.threads.set(key.threadId, key);
    this.#guarded.add(key);
    if (this.#numbers.size >= TAGS_MAX) this.#numbers.clear();
    this.#numbers.set(key.threadId, key.thread);
  }

  /** The number that a thread had when it was last read. It may have another one by now, or none. */
  numberOf(threadId: string): number | undefined {
    return this.#numbers.get(threadId);
  }

  /**
   * Compares a thread's row, just read and not remembered yet, with what is known to be committed. If the row is missing or behind that, the
   * server has lost commits: it stopped without having them on disk, or another one that didn't have them took over. Then what is remembered of
   * the thread may not be there any more, and runs that began before must not continue: {@link generationOf} and {@link historyOf} change.
   */
  noticeRead(threadId: string, row: Progress | undefined): void {
    if (this.isReading || this.engine.dialect.guards === undefined) return;
    const known = this.#committed.get(threadId);
    if (row !== undefined) this.#uncommitted.set(threadId, progressOf(row));
    if (known === undefined || (row?.thread === known.thread && row.seq >= known.seq && row.generation >= known.generation))
      return;
    this.#setBacks.set(threadId, (this.#setBacks.get(threadId) ?? 0) + 1);
    if (row === undefined) this.#committed.delete(threadId);
    else this.#committed.set(threadId, progressOf(row));
    this.threads.delete(threadId);
  }

  /** For a {@link ThreadState}: changes when rows of the thread may have gone without its row saying so. */
  generationOf(threadId: string): number {
    return (this.engine.provisional ?? 0) + (this.#setBacks.get(threadId) ?? 0);
  }

  /** Greater after each rewind of a thread, and after each time that it was set back. @param epoch of its row; 0 for none */
  historyOf(threadId: string, epoch: number): number {
    return epoch + (this.#setBacks.get(threadId) ?? 0);
  }

  /** Forgets a thread that the current transaction deletes. */
  deleted(threadId: string): void {
    this.threads.delete(threadId);
    this.#committed.delete(threadId);
    this.#uncommitted.delete(threadId);
  }

  /** Whether commits of the thread were lost. */
  wasSetBack(threadId: string): boolean {
    return this.#setBacks.has(threadId);
  }

  /** {@link remember} for a thread that was read. What is known of its leases holds only if it hasn't changed since. */
  rememberRead(key: ThreadState): void {
    const known = this.threads.get(key.threadId)?.row;
    const { thread, seq, generation } = key.row;
    const isSame = known?.thread === thread && known.seq === seq && known.generation === generation;
    if (!isSame && this.engine.dialect.guards !== undefined) this.forgetLeases(key.threadId);
    this.remember(key);
  }

  forgetLeases(threadId: string): void {
    for (const [runId, of] of this.leases) if (of === threadId) this.leases.delete(runId);
  }

  /**
   * A remembered thread. If others may have changed it, the transaction fails, now or later.
   * @throws {StaleFacts}
   */
  *known(threadId: string): Program<ThreadState | undefined> {
    const key = this.threads.get(threadId);
    const { guards } = this.engine.dialect;
    if (key === undefined || guards === undefined || this.#guarded.has(key)) return key;
    this.#guarded.add(key);
    const { thread, seq, generation } = key.row;
    yield { text: guards.thread, values: [thread, seq, generation], returns: "none", guards: thread };
    return key;
  }

  /** Reads whole results: an open cursor would block writes on this connection and hold back WAL checkpoints. */
  *all<T>(text: string, ...values: Bound[]): Program<T[]> {
    if (this.#expected !== undefined) return (yield* this.#answered({ text, values, returns: "all" })) as T[];
    if (this.#execute !== undefined) return this.#execute(text, values, "all") as T[];
    return (yield { text, values, returns: "all" }) as T[];
  }

  /** {@link all}, each row as an array: for results of thousands of rows. */
  *rows<T extends unknown[]>(text: string, ...values: Bound[]): Program<T[]> {
    if (this.#expected !== undefined) return (yield* this.#answered({ text, values, returns: "arrays" })) as T[];
    if (this.#execute !== undefined) return this.#execute(text, values, "arrays") as T[];
    return (yield { text, values, returns: "arrays" }) as T[];
  }

  /**
   * Statements that need nothing of each other's answers: a database on the network is asked all of them at once.
   *
   * @param isLast the program yields nothing any more, and nothing else is in its transaction
   * @returns the answer to each
   */
  *together(asked: readonly Statement[], isLast = false): Program<unknown[]> {
    const [first, ...others] = asked;
    if (first === undefined) return [];
    if (this.engine.sendsTogether === true) return (yield { ...first, others, isLast }) as unknown[];
    const answers: unknown[] = [];
    for (const statement of asked)
      answers.push(
        this.#execute === undefined ? yield statement : this.#execute(statement.text, statement.values, statement.returns),
      );
    return answers;
  }

  /** {@link together} for statements that change rows, in their order. @returns how many rows each has changed */
  *changesTogether(changes: readonly Statement[]): Program<number[]> {
    this.#expected = undefined;
    return (yield* this.together(changes)) as number[];
  }

  /**
   * Runs a program that asks these questions in any order, repeatedly or not at all. Each is asked once, and a database on the
   * network is asked all of them at once. The answers hold until the program changes something. Within the program, more questions can be
   * expected. Programs that run side by side share their session's answers, so none of them may expect its own.
   */
  *expecting<T>(questions: readonly Statement[], program: Program<T>): Program<T> {
    const outer = this.#expected;
    const fresh: Expected[] = [];
    for (const one of questions)
      if (![...(outer ?? []), ...fresh].some((other) => isSame(one, other))) fresh.push({ ...one, answer: undefined });
    if (this.engine.sendsTogether === true) {
      const answers = yield* this.together(fresh);
      for (const [at, one] of fresh.entries()) one.answer = { value: answers[at] };
    }
    const expected = [...(outer ?? []), ...fresh];
    try {
      this.#expected = expected;
      return yield* program;
    } finally {
      if (this.#expected === expected) this.#expected = outer;
    }
  }

  *#answered(asked: Statement): Program<unknown> {
    const expected = this.#expected?.find((one) => isSame(one, asked));
    if (expected?.answer !== undefined) return expected.answer.value;
    const { text, values, returns } = asked;
    const value = this.#execute === undefined ? yield asked : this.#execute(text, values, returns);
    if (expected !== undefined) expected.answer = { value };
    return value;
  }

  /** Programs that need nothing of each other. Their statements are sent {@link together} as far as possible. */
  *sideBySide<T extends readonly unknown[]>(programs: { readonly [K in keyof T]: Program<T[K]> }): Program<T> {
    return (yield* this.#sideBySide(programs)) as unknown as T;
  }

  *#sideBySide(programs: readonly Program<unknown>[]): Program<unknown[]> {
    const results: unknown[] = [];
    if (this.engine.sendsTogether !== true) {
      for (const program of programs) results.push(yield* program);
      return results;
    }
    let steps = programs.map((program, at) => ({ program, at, step: program.next() }));
    for (;;) {
      for (const one of steps) {
        while (one.step.done !== true && one.step.value.returns === "none") {
          yield one.step.value;
          one.step = one.program.next();
        }
        if (one.step.done === true) results[one.at] = one.step.value;
      }
      steps = steps.filter(({ step }) => step.done !== true);
      if (steps.length === 0) return results;
      const asked = steps.map(({ step }) => step.value as Statement);
      const answers = yield* this.together(asked.flatMap((statement) => [statement, ...(statement.others ?? [])]));
      for (const [at, one] of steps.entries()) {
        const own = answers.splice(0, 1 + (asked[at]?.others?.length ?? 0));
        one.step = one.program.next(asked[at]?.others === undefined ? own[0] : own);
      }
    }
  }

  /** Inserts a new row of a thread, and counts it in the thread's own row. */
  *insert<T extends Table>(key: ThreadState, rows: Rows<T>, row: RowOf<T>): Program {
    const { counted }: Table = rows.table;
    if (counted !== undefined) key.count(counted);
    yield* this.run(rows.insert, ...rows.values(this.sealing, key, row));
  }

  /** A thread's tag, computed once. */
  remembered(threadId: string, compute: () => string): string {
    let tag = this.#tags.get(threadId);
    if (tag === undefined) {
      tag = compute();
      if (this.#tags.size >= TAGS_MAX) this.#tags.clear();
      this.#tags.set(threadId, tag);
    }
    return tag;
  }

  /**
   * Runs the work of a transaction, then writes the rows of the threads that it has changed. Facts about threads stay valid as
   * long as nobody else has written to the database.
   */
  *transaction<T>(work: Program<T>): Program<T> {
    // Had the last commit failed, this would have been forgotten.
    for (const [threadId, progress] of this.#uncommitted) this.#committed.set(threadId, progress);
    this.#uncommitted.clear();
    if (!this.isReading && (yield* this.engine.hasChanged())) this.forget();
    let isDone = false;
    try {
      const result = yield* work;
      yield* this.flush();
      for (const key of this.changed) yield* this.#writeThread(key);
      if (!this.isReading) this.engine.hasWritten();
      isDone = true;
      return result;
    } finally {
      this.changed.clear();
      this.#guarded.clear();
      if (!isDone) this.forget();
      else if (this.threads.size > THREADS) this.threads.clear();
      if (this.awaited.size > THREADS) this.awaited.clear();
      if (this.savedRuns.size > THREADS) this.savedRuns.clear();
    }
  }

  /** Writes what programs have left for the end of the transaction, for a program that reads it from the database. */
  *flush(): Program {
    for (const key of this.changed) yield* this.flushTurns(key);
  }

  /** {@link flush} of one thread. @throws {LeftUnwritten} */
  *flushTurns(key: ThreadState): Program {
    try {
      for (const turn of key.takeTurns()) yield* this.run(TURN_ROWS.insert, ...turnValues(this, key.thread, turn));
    } catch (error) {
      throw new LeftUnwritten(error);
    }
  }

  *#writeThread(key: ThreadState): Program {
    key.written();
    const { row } = key;
    if (this.engine.dialect.guards !== undefined) this.#uncommitted.set(key.threadId, progressOf(row));
    yield* this.run(THREAD_ROWS.update, ...THREAD_ROWS.changed(this.sealing, row, row));
  }

  /**
   * Remembers the current facts, apart from those that can be read again.
   * @returns a function that restores them after a part was rolled back
   */
  savepoint(): () => void {
    const rows = new Map([...this.threads.values()].map((key) => [key, { ...key.row }]));
    return () => {
      for (const [threadId, key] of this.threads) {
        const row = rows.get(key);
        if (row !== undefined) key.restore(row);
        else if (this.changed.delete(key)) this.threads.delete(threadId);
      }
    };
  }

  forget(): void {
    this.threads.clear();
    this.leases.clear();
    this.awaited.clear();
    this.isKeyCurrent = false;
    this.savedRuns.clear();
    this.#uncommitted.clear();
  }
}

function progressOf({ thread, seq, generation }: Progress): Progress {
  return { thread, seq, generation };
}

function isSame(one: Statement, other: Statement): boolean {
  return one.text === other.text && one.returns === other.returns && one.values.every((value, at) => value === other.values[at]);
}
