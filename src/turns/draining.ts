import { describe, TurnsError } from "../errors";
import { type Attempt, isCalledBy, type OuterRun } from "./node-task";
import { atEndOfMacrotask } from "../timers";

/** How many macrotasks LangGraph needs to hand in what a node has returned. */
const TURNS_TO_COMMIT = 2;

/** Counts what is in progress in this process, by thread: node bodies, or saves. */
export class OpenWork {
  readonly #threads = new Map<string, Work>();

  /** Counts something until the returned function is called. */
  began(threadId: string): () => void {
    const work = this.#threads.get(threadId) ?? { count: 0, end: undefined, ended: undefined };
    this.#threads.set(threadId, work);
    work.count += 1;
    return () => {
      work.count -= 1;
      if (work.count > 0) return;
      this.#threads.delete(threadId);
      work.ended?.();
    };
  }

  countOf(threadId: string): number {
    return this.#threads.get(threadId)?.count ?? 0;
  }

  /** Resolves when nothing is in progress on the thread any more; undefined if nothing is. */
  endOf(threadId: string): Promise<void> | undefined {
    const work = this.#threads.get(threadId);
    if (work !== undefined) work.end ??= new Promise((resolve) => (work.ended = resolve));
    return work?.end;
  }
}

/** What is in progress on a thread, and its end if somebody has asked for that. */
interface Work {
  count: number;
  end: Promise<void> | undefined;
  ended: (() => void) | undefined;
}

/** A thread and its running nodes: none while a rewind of it probes or undoes effects. */
export interface RunningThread {
  threadId: string;
  nodes: readonly string[];
}

interface Held {
  run: OuterRun;
  refuse: () => void;
}

/** Stops the runs of a saver at their node boundaries. Once it has begun, no run and no node starts, and running nodes finish. */
export class Draining {
  #begun = false;
  /** Saves, rewinds and follow-ups of runs that are in progress, each with the thread of a rewind. */
  readonly #underWay = new Set<{ rewinds: string | undefined }>();
  #toldClosed = false;
  /** What was still running when the time was up. */
  #running: readonly RunningThread[] = [];
  /** Nodes whose start is refused as soon as nothing else of their run is running. */
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

  /**
   * The database stays open until you call the returned function.
   *
   * @param rewinds the thread that a rewind works on: a drain whose time is up names it
   */
  keepOpen(rewinds?: string): () => void {
    const work = { rewinds };
    this.#underWay.add(work);
    return () => void this.#underWay.delete(work);
  }

  /** The drain has reported that it closes while nodes are running, so nobody else needs to. */
  closedEarly(running: readonly RunningThread[]): void {
    this.#toldClosed = true;
    this.#running = running;
  }

  /** @returns whether to log that the saver was closed while runs were active; true once */
  tellClosed(): boolean {
    const isFirst = !this.#toldClosed;
    this.#toldClosed = true;
    return isFirst;
  }

  get isUnderWay(): boolean {
    return this.#underWay.size > 0;
  }

  /** The threads that are being rewound. */
  get rewinding(): string[] {
    return [...this.#underWay].flatMap(({ rewinds }) => rewinds ?? []);
  }

  /**
   * Holds a node that wants to start, and refuses it when all other nodes of its run have finished. If it were refused earlier,
   * LangGraph would abort the nodes running beside it and drop their results.
   *
   * @param run the outermost run
   * @param running the attempts of running nodes, including those held here
   * @throws {TurnsError} STORE_DRAINING, always
   */
  async hold(attempt: Attempt, run: OuterRun, running: () => Iterable<[Attempt, OuterRun]>): Promise<never> {
    return new Promise((_, reject) => {
      this.#held.set(attempt, { run, refuse: () => reject(this.#refusalOf(run, attempt)) });
      this.release(run, running);
    });
  }

  /** One error per run: LangGraph would combine several different ones into one. */
  #refusalOf(run: OuterRun, attempt: Attempt): TurnsError {
    const stillRan = this.#running.find(({ threadId }) => threadId === attempt.threadId)?.nodes ?? [];
    const refusal = this.#refusals.get(run) ?? nodeRefused(attempt, stillRan);
    this.#refusals.set(run, refusal);
    return refusal;
  }

  isHeld(attempt: Attempt): boolean {
    return this.#held.has(attempt);
  }

  /** A node of the run has finished, or is being held. */
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

/** The nodes that contain a node, and the functional tasks that called it. */
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

/** The error for a run that continues after the saver was closed. @param cause STORE_CLOSED */
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

/**
 * LangGraph's default retry policy doesn't retry errors whose message begins with "Cancel".
 *
 * @param stillRan the nodes of the thread that were running when the drain's time was up
 */
function nodeRefused({ name, threadId }: Attempt, stillRan: readonly string[]): TurnsError {
  const saved =
    stillRan.length === 0
      ? "All that ran before is saved."
      : `The drain's time was up while ${stillRan.map((node) => describe(node)).join(", ")} was running: what it returned isn't saved, and it runs again. ` +
        "What finished before is saved.";
  return new TurnsError("STORE_DRAINING", {
    problem: `Cancelled before node ${describe(name)} of thread ${describe(threadId)}: the saver is draining, because its process is about to stop.`,
    remedy: `${saved} Continue in the next process: runner.resume({ threadId }), or graph.invoke(null, config) without a runner.`,
    data: { threadId, node: name, ...(stillRan.length > 0 && { stillRan }) },
  });
}
