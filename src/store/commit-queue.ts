import { TurnsError } from "../errors";
import { type CommitName, failpoint, type FailpointDetails, FAILPOINTS } from "../failpoints";
import { CommitInDoubt, StaleFacts } from "./engine";
import type { Program } from "./program";
import { type Session, LeftUnwritten } from "./session";
import { refuseRetiredKey } from "./ops/keys";
import { TookAllBack } from "./ops/turns";
import { SharedReads } from "./shared-reads";
import type { Awaitable } from "./store";
import { atEndOfMacrotask, othersFirst } from "../timers";

/** What all requests of one kind share. */
export interface Operation<A extends unknown[] = unknown[], T = unknown> {
  /** Makes a new program for each attempt. */
  program(session: Session, ...args: A): Program<T>;
  /** Whether parts of it (turns) may fail without failing the request. */
  hasParts?: boolean;
  /** Whether it sees what other programs of its transaction leave for the end of the transaction. */
  isLight?: boolean;
  /** The graph whose state it saves. */
  saves?(...args: A): Place;
  /** Whether it must not be committed if this save, handed in before it, can't be: a Thought of a node that then doesn't run. */
  needs?(saved: Place, ...args: A): boolean;
  name?: CommitName | undefined;
  /** How long it waits at most while the database is locked. Only of what has a transaction of its own. */
  busyMs?: number;
  details?(...args: A): FailpointDetails;
}

interface Place {
  threadId: string;
  ns: string;
}

type Outcome = { value: unknown } | { error: unknown };

class Job {
  /** What the program returned. It counts only once it's committed. */
  value: unknown;
  outcome: Outcome | undefined;
  isAlone = false;
  /** Why its turns are left out, if they are: one of them rolled the whole transaction back. */
  leftOut: { error: unknown } | undefined;
  #resolve: ((value: unknown) => void) | undefined;
  #reject: ((error: unknown) => void) | undefined;

  constructor(
    readonly operation: Operation,
    readonly args: unknown[],
  ) {}

  get hasFailed(): boolean {
    return this.outcome !== undefined && "error" in this.outcome;
  }

  /** Whether its turns may still be left out so that the rest can be committed. */
  get hasParts(): boolean {
    return this.operation.hasParts === true && !this.isAlone;
  }

  /**
   * For tests.
   * @throws the error of the failpoint's handler
   */
  reach(when: "before" | "within" | "after"): void {
    const { operation } = this;
    if (operation.name !== undefined && FAILPOINTS in globalThis)
      failpoint(`${operation.name}.${when}`, () => operation.details?.(...this.args) ?? {});
  }

  end(outcome: Outcome): void {
    this.outcome = outcome;
    if ("error" in outcome) this.#reject?.(outcome.error);
    else this.#resolve?.(outcome.value);
  }

  committed(): void {
    try {
      // A handler may also throw after the commit.
      this.reach("after");
    } catch (error) {
      return this.end({ error });
    }
    this.end({ value: this.value });
  }

  settled(): Promise<unknown> {
    return new Promise((resolve, reject) => {
      this.#resolve = resolve;
      this.#reject = reject;
      if (this.outcome !== undefined) this.end(this.outcome);
    });
  }

  /**
   * The outcome, once it is settled.
   * @throws its failure
   */
  get result(): unknown {
    if (this.outcome === undefined) throw new Error("the request was not committed");
    if ("error" in this.outcome) throw this.outcome.error;
    return this.outcome.value;
  }
}

/** A program failed, not the transaction. Or a test made it fail at a failpoint, where a retry would test nothing. */
class JobFailed extends Error {
  constructor(
    readonly job: Job,
    readonly reason: unknown,
    readonly isAtFailpoint: boolean,
  ) {
    super("a request failed", { cause: reason });
  }
}

/**
 * Commits requests in the order in which they were handed in.
 *
 * All requests of one macrotask form one transaction, committed at the end of the macrotask. At a node's boundary, LangGraph
 * hands in the node's Action, its writes, the next checkpoint and the next Thoughts in one macrotask (design, *One commit per
 * node boundary*). A caller that must read what is saved, or wait for it, commits all of it at once.
 *
 * If one request fails, the others are committed without it. If the transaction as a whole fails, each request is committed by
 * itself, so that one turn that can't be saved costs nobody else's checkpoint (S1.9).
 */
export class CommitQueue {
  readonly #session: Session;
  #jobs: Job[] = [];
  #isScheduled = false;
  /** Resolves when the last started work is finished; undefined if none is under way. */
  #last: Promise<unknown> | undefined;
  /** The reads that were handed in last, as long as nothing else was handed in behind them and they haven't begun. */
  #reads: SharedReads | undefined;

  constructor(session: Session) {
    this.#session = session;
  }

  /** Resolves when the request is committed, at the end of this macrotask or sooner. */
  later<A extends unknown[], T>(operation: Operation<A, T>, ...args: A): Promise<T> {
    const job = this.#add(operation, args);
    if (!this.#isScheduled) {
      this.#isScheduled = true;
      atEndOfMacrotask(this.#commitScheduled);
    }
    return job.settled() as Promise<T>;
  }

  readonly #commitScheduled = (): void => {
    this.#isScheduled = false;
    void this.commit();
  };

  /** Commits the request with everything handed in before it: at once, unless another process has the lock. */
  now<A extends unknown[], T>(operation: Operation<A, T>, ...args: A): Awaitable<T> {
    const job = this.#add(operation, args);
    const committed = this.commit();
    if (job.outcome !== undefined) return job.result as T;
    return (committed as Promise<void>).then(() => job.result as T);
  }

  /** {@link now} without waiting for the disk. The request has a transaction of its own, after everything handed in before. */
  unsynced<A extends unknown[], T>(operation: Operation<A, T>, ...args: A): Awaitable<T> {
    void this.commit();
    const job = newJob(operation, args);
    const committed = this.#inTurn(() => (job.outcome === undefined ? this.#together([job], "unsynced") : undefined));
    if (committed instanceof Promise) return committed.then(() => job.result as T);
    return job.result as T;
  }

  /**
   * Reads after committing what was handed in before. Everything the program reads is one state of the database. For a database on
   * the network, all reads of one macrotask are one transaction.
   */
  read<T>(program: (session: Session) => Program<T>): Awaitable<T> {
    if (this.#session.engine.sendsTogether !== true) return this.behind(() => this.readCommitted(program));
    void this.commit();
    if (this.#reads === undefined || this.#reads.isFull) this.#reads = this.#gathered();
    return this.#reads.add(program);
  }

  /** Reads that run when it's their turn, at the end of a macrotask. */
  #gathered(): SharedReads {
    const reads = new SharedReads(this.#session);
    void this.#inTurn(async () => {
      await othersFirst();
      if (this.#reads === reads) this.#reads = undefined;
      await reads.run();
    });
    return reads;
  }

  /** {@link read} of what is committed: it waits for nothing that was handed in, and nothing waits for it. */
  readCommitted<T>(program: (session: Session) => Program<T>): Awaitable<T> {
    const { engine } = this.#session;
    return engine.read(() => {
      const session = engine.buffers ? this.#session.reader() : this.#session;
      return session.transaction(program(session));
    });
  }

  /** Does something after everything that was handed in before. */
  behind<T>(work: () => Awaitable<T>): Awaitable<T> {
    void this.commit();
    return this.#inTurn(work);
  }

  /**
   * Commits everything that was handed in. It never throws: each request has its own outcome. While an engine hasn't answered the
   * last commit, this one waits for it. So nothing overtakes a request that must be retried, and a read doesn't see what was
   * handed in after it.
   */
  commit(): Awaitable<void> {
    const jobs = this.#jobs;
    if (jobs.length === 0) return undefined;
    this.#jobs = [];
    return this.#inTurn(() => this.#together(jobs));
  }

  /**
   * Starts work when all work started before is finished; for a commit, when its last job is settled. Each waits only for earlier
   * work, so nothing can wait for itself.
   */
  #inTurn<T>(work: () => Awaitable<T>): Awaitable<T> {
    this.#reads = undefined;
    const result = this.#last === undefined ? work() : this.#last.then(work);
    if (!(result instanceof Promise)) return result;
    const over: Promise<unknown> = result
      .then(undefined, () => undefined)
      .then(() => {
        if (this.#last === over) this.#last = undefined;
      });
    this.#last = over;
    return result;
  }

  #add<A extends unknown[], T>(operation: Operation<A, T>, args: A): Job {
    const job = newJob(operation, args);
    if (job.outcome === undefined) this.#jobs.push(job);
    return job;
  }

  #together(jobs: readonly Job[], durability?: "unsynced"): Awaitable<void> {
    let done: Awaitable<unknown>;
    let isAgain = false;
    const program = (): Program => {
      // What an attempt that failed at its commit has left in memory isn't in the database.
      if (isAgain) this.#session.forget();
      isAgain = true;
      return this.#session.transaction(this.#all(jobs));
    };
    try {
      done = this.#session.engine.write(program, durability, jobs.length === 1 ? jobs[0]?.operation.busyMs : undefined);
    } catch (error) {
      return this.#failed(jobs, error);
    }
    if (done instanceof Promise) {
      return done.then(
        () => committed(jobs),
        (error: unknown) => this.#failed(jobs, error),
      );
    }
    return committed(jobs);
  }

  *#all(jobs: readonly Job[]): Program {
    const session = this.#session;
    if (!session.isKeyCurrent || session.engine.dialect.guards !== undefined) yield* refuseRetiredKey(session);
    for (const job of jobs) {
      let isAtFailpoint = false;
      if (job.operation.isLight !== true) yield* session.flush();
      try {
        session.inParts = job.isAlone;
        session.leftOut = job.leftOut;
        job.value = yield* job.operation.program(session, ...job.args);
        isAtFailpoint = true;
        job.reach("within");
      } catch (error) {
        if (error instanceof LeftUnwritten) throw error;
        if (error instanceof TookAllBack) {
          job.leftOut = { error: error.cause };
          throw error;
        }
        if (error instanceof StaleFacts || session.engine.isPassing(error)) throw error;
        // A buffered statement of any job may have failed. Each is tried by itself.
        if (session.engine.buffers && jobs.length > 1 && session.engine.codeOf(error) !== "") throw error;
        throw new JobFailed(job, session.engine.meaningOf(error), isAtFailpoint);
      }
    }
  }

  #failed(jobs: readonly Job[], error: unknown): Awaitable<void> {
    this.#session.forget();
    if (error instanceof StaleFacts || error instanceof TookAllBack) return this.#together(jobs);
    if (error instanceof CommitInDoubt) return this.#settle(jobs, error);
    if (error instanceof JobFailed) {
      const { job, reason, isAtFailpoint } = error;
      const isTriedAgain = job.hasParts;
      if (isAtFailpoint || !isTriedAgain) job.end({ error: reason });
      if (isTriedAgain) return this.#apart(jobs);
      const others = jobs.filter((other) => other !== job);
      return others.length === 0 ? undefined : this.#together(others);
    }
    const reason = error instanceof LeftUnwritten ? this.#session.engine.meaningOf(error.cause) : error;
    const isHopeless = TurnsError.is(reason) && reason.code !== "STORE_FAILED";
    const isLast = jobs.length === 1 && !jobs.some(({ hasParts }) => hasParts);
    if (!isHopeless && !isLast) return this.#apart(jobs);
    for (const job of jobs) job.end({ error: reason });
    return undefined;
  }

  /** Asks the database whether a commit was carried out. */
  #settle(jobs: readonly Job[], { cause, isCommitted }: CommitInDoubt): Promise<void> {
    const settled = (isThere: boolean): Awaitable<void> => (isThere ? committed(jobs) : this.#together(jobs));
    const failed = (error?: unknown): void => {
      for (const job of jobs) job.end({ error: TurnsError.is(error) ? error : this.#session.engine.meaningOf(cause) });
    };
    return isCommitted().then(settled, failed);
  }

  /** Commits each by itself, in order. Requests that need a failed one are left out. */
  #apart(jobs: readonly Job[]): Awaitable<void> {
    for (const job of jobs) job.isAlone = true;
    return inOrder(jobs, (job) => {
      if (job.outcome !== undefined) return undefined;
      const missing = jobs.find((other) => isMissedBy(job, other))?.outcome;
      return missing === undefined ? this.#together([job]) : job.end(missing);
    });
  }
}

function newJob<A extends unknown[], T>(operation: Operation<A, T>, args: A): Job {
  const job = new Job(operation, args);
  try {
    job.reach("before");
  } catch (error) {
    job.end({ error });
  }
  return job;
}

function committed(jobs: readonly Job[]): void {
  for (const job of jobs) job.committed();
}

function isMissedBy({ operation, args }: Job, other: Job): boolean {
  const saved = other.hasFailed ? other.operation.saves?.(...other.args) : undefined;
  return saved !== undefined && operation.needs?.(saved, ...args) === true;
}

function inOrder<T>(items: readonly T[], work: (item: T) => Awaitable<void>): Awaitable<void> {
  for (const [at, item] of items.entries()) {
    const done = work(item);
    if (done instanceof Promise) return done.then(() => inOrder(items.slice(at + 1), work));
  }
  return undefined;
}
