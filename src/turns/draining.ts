import { describe, TurnsError } from "../errors";
import { type Attempt, isCalledBy, type OuterRun } from "./node-task";

/** Taken at load, so that a user's fake timers can't stop a run. */
const atEndOfMacrotask = setImmediate;
/** In so many macrotasks LangGraph hands in what a node has returned. */
const TURNS_TO_COMMIT = 2;

interface Held {
  run: OuterRun;
  refuse: () => void;
}

/**
 * Ends the runs of a saver at their node boundaries: once it has begun, no run and no node starts any more, and what is running goes on to
 * its end.
 */
export class Draining {
  #begun = false;
  /** Saves, and what follows a run, that are under way. */
  #underWay = 0;
  #toldClosed = false;
  /** Nodes whose start is refused as soon as nothing else of their run works. */
  readonly #held = new Map<Attempt, Held>();
  readonly #refusals = new WeakMap<OuterRun, TurnsError>();

  get begun(): boolean {
    return this.#begun;
  }

  begin(): void {
    this.#begun = true;
  }

  /** @throws {TurnsError} STORE_DRAINING */
  refuseRun(threadId: string): void {
    if (this.#begun) throw runRefused(threadId);
  }

  /** The database stays open until what this returns is called. */
  keepOpen(): () => void {
    this.#underWay += 1;
    let isOver = false;
    return () => {
      if (!isOver) this.#underWay -= 1;
      isOver = true;
    };
  }

  /** The drain has told that it closes while nodes are running, so nobody else needs to. */
  closedEarly(): void {
    this.#toldClosed = true;
  }

  /** @returns whether to log that the saver was closed while runs were going on: once */
  tellClosed(): boolean {
    const isFirst = !this.#toldClosed;
    this.#toldClosed = true;
    return isFirst;
  }

  get isUnderWay(): boolean {
    return this.#underWay > 0;
  }

  /**
   * A node wants to start. It is refused when all others of its run have ended: LangGraph aborts what runs beside a node that failed, and
   * would drop what it returns.
   *
   * @param run the outermost run
   * @param running the attempts of nodes that are at work, those that wait here among them
   * @throws {TurnsError} STORE_DRAINING, always
   */
  async hold(attempt: Attempt, run: OuterRun, running: () => Iterable<[Attempt, OuterRun]>): Promise<never> {
    return new Promise((_, reject) => {
      this.#held.set(attempt, { run, refuse: () => reject(this.#refusalOf(run, attempt)) });
      this.release(run, running);
    });
  }

  /** One for each run: LangGraph makes one error of several that are not the same. */
  #refusalOf(run: OuterRun, attempt: Attempt): TurnsError {
    const refusal = this.#refusals.get(run) ?? nodeRefused(attempt);
    this.#refusals.set(run, refusal);
    return refusal;
  }

  isHeld(attempt: Attempt): boolean {
    return this.#held.has(attempt);
  }

  /** A node of the run has ended, or waits. */
  release(run: OuterRun, running: () => Iterable<[Attempt, OuterRun]>): void {
    if (this.#held.size > 0) afterCommit(TURNS_TO_COMMIT, () => this.#releaseNow(run, running));
  }

  #releaseNow(run: OuterRun, running: () => Iterable<[Attempt, OuterRun]>): void {
    const held = [...this.#held].filter(([, one]) => one.run === run);
    const attempts = [...running()].filter(([, of]) => of === run).map(([attempt]) => attempt);
    const waiting = new Set(held.flatMap(([attempt]) => [attempt, ...around(attempt, attempts)]));
    if (attempts.some((attempt) => !waiting.has(attempt))) return;
    for (const [attempt, { refuse }] of held) {
      this.#held.delete(attempt);
      refuse();
    }
  }
}

/** The nodes that a node runs inside of, and functional tasks that called it. */
export function around(attempt: Attempt, running: readonly Attempt[]): Attempt[] {
  const found: Attempt[] = [];
  const callerOf = (of: Attempt): Attempt | undefined =>
    running.find((one) => one.graph === of.graph && isCalledBy(of, one)) ?? of.within;
  for (let at = callerOf(attempt); at !== undefined && !found.includes(at); at = callerOf(at)) found.push(at);
  return found;
}

function afterCommit(turns: number, work: () => void): void {
  if (turns === 0) work();
  else atEndOfMacrotask(() => afterCommit(turns - 1, work));
}

/** What a run is told that goes on behind the saver's end. @param cause STORE_CLOSED */
export function closedMeanwhile(threadId: string, cause: TurnsError): TurnsError {
  return new TurnsError("STORE_CLOSED", {
    problem: `The saver was closed while this run of thread ${describe(threadId)} was active, so what its running nodes return isn't saved.`,
    remedy:
      "Call await saver.drain() first: it ends runs at their node boundaries and then closes. To continue, open a new saver and resume the thread.",
    data: { ...cause.data, threadId },
    cause,
  });
}

function runRefused(threadId: string): TurnsError {
  return new TurnsError("STORE_DRAINING", {
    problem: `No run of thread ${describe(threadId)} can start here: the saver is draining, because its process is about to stop.`,
    remedy: "Nothing was changed. Run the thread in another process, or in this service's next one.",
    data: { threadId },
  });
}

/** LangGraph's default retry policy tries nothing again whose message begins with "Cancel". */
function nodeRefused({ name, threadId }: Attempt): TurnsError {
  return new TurnsError("STORE_DRAINING", {
    problem: `Cancelled before node ${describe(name)} of thread ${describe(threadId)}: the saver is draining, because its process is about to stop.`,
    remedy:
      "All that ran before is saved. Continue in the next process: runner.resume({ threadId }), or graph.invoke(null, config) without a runner.",
    data: { threadId, node: name },
  });
}
