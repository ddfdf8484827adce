import { TurnsError } from "../errors";
import { type CommitName, failpoint, type FailpointDetails } from "../failpoints";
import { CommitInDoubt, StaleFacts } from "./engine";
import type { Program } from "./program";
import { type Session, LeftUnwritten, type WrittenThread } from "./session";
import { refuseRetiredKey } from "./ops/keys";
import { TookAllBack } from "./ops/turn-changes";
import type { Awaitable } from "./store";
import { areWritten } from "./ops/thread-rows";

/** Taken at load, so that a user's fake timers can't stop a run. */
const atEndOfMacrotask = setImmediate;

/** Something to commit. */
export interface Request<T> {
  /** Made anew for each attempt. */
  program: () => Program<T>;
  /** Whether parts of it (turns) may fail without it. */
  hasParts?: boolean;
  /** Whether it knows what the others of its transaction leave for the end of it. */
  isLight?: boolean;
  /** The graph whose state it saves. */
  saves?: Place;
  /** Whether it isn't to be committed if this, handed in before it, can't be: a Thought of a node that then doesn't run. */
  needs?: (saved: Place) => boolean;
  name?: CommitName | undefined;
  /** For failpoints. */
  details?: () => FailpointDetails;
}

interface Place {
  threadId: string;
  ns: string;
}

interface Job {
  request: Request<unknown>;
  isAlone: boolean;
  /** Why its turns are left out, if they are: one has taken the whole transaction back. */
  leftOut: { error: unknown } | undefined;
  outcome: { value: unknown } | { error: unknown } | undefined;
  settled: (() => void) | undefined;
}

/** One transaction of some jobs. */
interface Attempt {
  jobs: readonly Job[];
  values: ReadonlyMap<Job, unknown>;
  /** The rows of threads that it has written, or would have. */
  written: readonly WrittenThread[];
}

/** A program has failed, and not the transaction; or a test let it fail at a failpoint, where another try would be none. */
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
 * Commits requests in the order in which they were handed in. All that one macrotask of the event loop hands in is one transaction, at its
 * end: at a node's boundary LangGraph hands in the node's Action, its writes, the next checkpoint and the next Thoughts in one (design,
 * *One commit per node boundary*). Whoever has to read what is saved, or must not go on before it is, commits all of it at once.
 *
 * If one request fails, the others are committed without it. If the transaction as a whole fails, it is taken apart: each request is
 * committed by itself, so that one turn that can't be saved costs nobody else's checkpoint (S1.9).
 */
export class CommitQueue {
  readonly #session: Session;
  #jobs: Job[] = [];
  #isScheduled = false;
  /** Resolves when what was begun last is over; undefined if nothing is under way. */
  #last: Promise<unknown> | undefined;

  constructor(session: Session) {
    this.#session = session;
  }

  /** Resolves when the request is committed, at the end of this macrotask or sooner. */
  later<T>(request: Request<T>): Promise<T> {
    const job = this.#add(request);
    if (!this.#isScheduled) {
      this.#isScheduled = true;
      atEndOfMacrotask(() => {
        this.#isScheduled = false;
        void this.commit();
      });
    }
    return new Promise((resolve, reject) => {
      job.settled = () => {
        settle(job, resolve as (value: unknown) => void, reject);
      };
      if (job.outcome !== undefined) job.settled();
    });
  }

  /** Commits the request with all that was handed in before it: at once, unless somebody else has the lock. */
  now<T>(request: Request<T>): Awaitable<T> {
    const job = this.#add(request);
    const committed = this.commit();
    if (job.outcome !== undefined) return valueOf(job) as T;
    return (committed as Promise<void>).then(() => valueOf(job) as T);
  }

  /** {@link now}, after all that was handed in before, in a transaction of its own that doesn't wait for the disk. */
  unsynced<T>(request: Request<T>): Awaitable<T> {
    void this.commit();
    const job = newJob(request);
    const committed = this.#inTurn(() => (job.outcome === undefined ? this.#together([job], true) : undefined));
    if (committed instanceof Promise) return committed.then(() => valueOf(job) as T);
    return valueOf(job) as T;
  }

  /** Reads behind what was handed in before; all that the program reads is one state of the database. */
  read<T>(program: () => Program<T>): Awaitable<T> {
    return this.behind(() => this.#session.engine.read(() => this.#session.transaction(program())));
  }

  /** Does something behind all that was handed in before. */
  behind<T>(work: () => Awaitable<T>): Awaitable<T> {
    void this.commit();
    return this.#inTurn(work);
  }

  /**
   * Commits all that was handed in. It never throws: each request has its own outcome. While an engine has not answered the last commit,
   * this one waits behind it, so that nothing overtakes what has to be tried again, and a read doesn't see what was handed in after it.
   */
  commit(): Awaitable<void> {
    const jobs = this.#jobs;
    if (jobs.length === 0) return undefined;
    this.#jobs = [];
    return this.#inTurn(() => this.#together(jobs));
  }

  /**
   * Begins work when all that was begun before is over: a commit, when the last of its jobs is settled. Each waits only for what was begun
   * before it, so that nothing can wait for itself.
   */
  #inTurn<T>(work: () => Awaitable<T>): Awaitable<T> {
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

  #add(request: Request<unknown>): Job {
    const job = newJob(request);
    if (job.outcome === undefined) this.#jobs.push(job);
    return job;
  }

  #together(jobs: readonly Job[], isUnsynced = false): Awaitable<void> {
    const values = new Map<Job, unknown>();
    const written: WrittenThread[] = [];
    const failed = (error: unknown): Awaitable<void> => this.#failed({ jobs, values, written }, error);
    const committed = (): void => {
      for (const job of jobs) end(job, finished(job, values.get(job)));
    };
    let done: Awaitable<unknown>;
    try {
      done = this.#session.engine.write(
        () => this.#session.transaction(this.#all(jobs, values), written),
        isUnsynced ? "unsynced" : "synced",
      );
    } catch (error) {
      return failed(error);
    }
    if (done instanceof Promise) return done.then(committed, failed);
    return committed();
  }

  *#all(jobs: readonly Job[], values: Map<Job, unknown>): Program {
    values.clear();
    if (!this.#session.isKeyCurrent) yield* refuseRetiredKey(this.#session);
    for (const job of jobs) {
      const { request, isAlone, leftOut } = job;
      let isAtFailpoint = false;
      if (request.isLight !== true) yield* this.#session.flush();
      try {
        this.#session.inParts = isAlone;
        this.#session.leftOut = leftOut;
        values.set(job, yield* request.program());
        isAtFailpoint = true;
        reach(request, "within");
      } catch (error) {
        if (error instanceof LeftUnwritten) throw error;
        if (error instanceof TookAllBack) {
          job.leftOut = { error: error.cause };
          throw error;
        }
        if (this.#session.engine.isPassing(error)) throw error;
        throw new JobFailed(job, this.#session.engine.meaningOf(error), isAtFailpoint);
      }
    }
  }

  #failed(attempt: Attempt, error: unknown): Awaitable<void> {
    const { jobs } = attempt;
    this.#session.forget();
    if (error instanceof StaleFacts || error instanceof TookAllBack) return this.#together(jobs);
    if (error instanceof CommitInDoubt) return this.#settle(attempt, error);
    if (error instanceof JobFailed) {
      const { job, reason, isAtFailpoint } = error;
      const isTriedAgain = job.request.hasParts === true && !job.isAlone;
      if (isAtFailpoint || !isTriedAgain) end(job, { error: reason });
      if (isTriedAgain) return this.#apart(jobs);
      const others = jobs.filter((other) => other !== job);
      return others.length === 0 ? undefined : this.#together(others);
    }
    const reason = error instanceof LeftUnwritten ? this.#session.engine.meaningOf(error.cause) : error;
    const isHopeless = TurnsError.is(reason) && reason.code !== "STORE_FAILED";
    const isLast = jobs.length === 1 && jobs.every(({ isAlone, request }) => isAlone || request.hasParts !== true);
    if (!isHopeless && !isLast) return this.#apart(jobs);
    for (const job of jobs) end(job, { error: reason });
    return undefined;
  }

  /** Whether a commit was carried out, the database tells: the rows of its threads are those that it wrote, or not. */
  #settle({ jobs, values, written }: Attempt, { cause }: CommitInDoubt): Awaitable<void> {
    const settled = (isThere: boolean): Awaitable<void> => {
      if (!isThere) return this.#together(jobs);
      for (const job of jobs) end(job, finished(job, values.get(job)));
      return undefined;
    };
    const failed = (): void => {
      for (const job of jobs) end(job, { error: this.#session.engine.meaningOf(cause) });
    };
    try {
      const isThere = this.#session.engine.read(() => areWritten(this.#session, written));
      return isThere instanceof Promise ? isThere.then(settled, failed) : settled(isThere);
    } catch {
      return failed();
    }
  }

  /** Each by itself, in order, but for those that need one that failed. */
  #apart(jobs: readonly Job[]): Awaitable<void> {
    for (const job of jobs) job.isAlone = true;
    return inOrder(jobs, (job) => {
      if (job.outcome !== undefined) return undefined;
      const missing = jobs.find((other) => isMissedBy(job, other))?.outcome;
      return missing === undefined ? this.#together([job]) : end(job, missing);
    });
  }
}

function isMissedBy({ request }: Job, { outcome, request: { saves } }: Job): boolean {
  return outcome !== undefined && "error" in outcome && saves !== undefined && request.needs?.(saves) === true;
}

function inOrder<T>(items: readonly T[], work: (item: T) => Awaitable<void>): Awaitable<void> {
  for (const [at, item] of items.entries()) {
    const done = work(item);
    if (done instanceof Promise) return done.then(() => inOrder(items.slice(at + 1), work));
  }
  return undefined;
}

function newJob(request: Request<unknown>): Job {
  const job: Job = { request, isAlone: false, leftOut: undefined, outcome: undefined, settled: undefined };
  try {
    reach(request, "before");
  } catch (error) {
    end(job, { error });
  }
  return job;
}

/** A handler of a failpoint may throw behind the commit too. */
function finished(job: Job, value: unknown): NonNullable<Job["outcome"]> {
  try {
    reach(job.request, "after");
    return { value };
  } catch (error) {
    return { error };
  }
}

function reach({ name, details }: Request<unknown>, when: "before" | "within" | "after"): void {
  if (name !== undefined) failpoint(`${name}.${when}`, details);
}

function end(job: Job, outcome: NonNullable<Job["outcome"]>): void {
  job.outcome = outcome;
  job.settled?.();
}

function settle(job: Job, resolve: (value: unknown) => void, reject: (error: unknown) => void): void {
  if (job.outcome === undefined) return;
  if ("error" in job.outcome) reject(job.outcome.error);
  else resolve(job.outcome.value);
}

function valueOf({ outcome }: Job): unknown {
  if (outcome === undefined) throw new Error("the request was not committed");
  if ("error" in outcome) throw outcome.error;
  return outcome.value;
}
