import { isWithin } from "../store/namespaces";
import type { Lease, SawDeletion } from "../store/store";
import { OpenWork } from "./draining";
import type { RunRegistry } from "./run-registry";
import { uptime } from "../system";
import { every, noMore } from "../timers";

const CHECK_EVERY_MS = 20;
/** How long a graph without running nodes counts as active. LangGraph needs less than this between steps. */
const QUIET_MS = 500;

/** What tells a run from earlier and later ones. */
interface RunMarks {
  sawDeletion: SawDeletion;
  lease: Lease | undefined;
}

/**
 * `sawDeletion` and `lease` belong to the run that failed. A late run of a deleted thread, or of one that was taken over, must
 * not stop the new owner's runs.
 */
interface Failure extends RunMarks {
  ns: string;
  error: unknown;
  taken: () => void;
  /** The graph runs that were active. Later ones aren't affected. */
  runs: readonly string[];
}

/**
 * Failed saves that haven't been reported yet.
 *
 * With durability "async", LangGraph looks at a save's promise only when its graph finishes. A promise that rejects earlier is an
 * unhandled rejection, which terminates the Node process. So a failed save stays pending until somebody can handle it: the start
 * of the next node of the same graph (or of one inside it), which then fails with it, or the end of the graph, when LangGraph
 * awaits what is left. Only the graph's own nodes count: the node that contains it is running and waits for it.
 */
export class PendingFailures {
  /** Saves that were handed in, until they are committed or their failure is held here. */
  readonly saves = new OpenWork();
  readonly #runs: RunRegistry;
  readonly #reported = new Map<string, Pick<Failure, "ns" | "error" | keyof RunMarks>[]>();
  readonly #waiting = new Map<string, Failure[]>();

  constructor(runs: RunRegistry) {
    this.#runs = runs;
  }

  /** Resolves if a node's start reported the error. Rejects with it once the graph of that namespace has finished. */
  hold(threadId: string, ns: string, error: unknown, { sawDeletion, lease }: RunMarks): Promise<void> {
    const reason = error instanceof Error ? error : new Error(String(error));
    return new Promise((resolve, reject) => {
      let quietSince = uptime();
      const timer = every(() => {
        if (this.#runs.isAtWork(threadId, ns)) quietSince = uptime();
        if (uptime() - quietSince < QUIET_MS) return;
        noMore(timer);
        this.#keep(threadId, (failure) => failure !== entry);
        reject(reason);
      }, CHECK_EVERY_MS);
      const entry: Failure = {
        ns,
        error: reason,
        sawDeletion,
        lease,
        runs: this.#runs.graphRunsOf(threadId),
        taken: () => {
          noMore(timer);
          resolve();
        },
      };
      this.#waiting.set(threadId, [...(this.#waiting.get(threadId) ?? []), entry]);
    });
  }

  /**
   * The first error that concerns a node of this namespace. The caller now reports it, and the waiting saves resolve. The error
   * is kept until the run finishes: a node's retry policy must not run the body on a checkpoint that doesn't exist.
   */
  take(threadId: string, ns: string, run: RunMarks): unknown {
    this.#dismissEnded(threadId);
    const concerns = (failure: Pick<Failure, "ns" | keyof RunMarks>): boolean =>
      isWithin(ns, failure.ns) &&
      mayBeEqual(failure.sawDeletion, run.sawDeletion) &&
      mayBeEqual(failure.lease?.runId, run.lease?.runId);
    const failures = (this.#waiting.get(threadId) ?? []).filter(concerns);
    this.#keep(threadId, (failure) => !concerns(failure));
    for (const failure of failures) failure.taken();
    if (failures.length > 0) this.#reported.set(threadId, [...(this.#reported.get(threadId) ?? []), ...failures]);
    return this.#reported.get(threadId)?.find(concerns)?.error;
  }

  /** A run of the thread starts or finishes, so reported errors are obsolete. */
  forget(threadId: string): void {
    this.#reported.delete(threadId);
  }

  /** Drops what a finished run has left: that run failed already. */
  #dismissEnded(threadId: string): void {
    const active = this.#runs.graphRunsOf(threadId);
    const isOver = ({ runs }: Failure): boolean => runs.length > 0 && !runs.some((run) => active.includes(run));
    for (const failure of (this.#waiting.get(threadId) ?? []).filter(isOver)) failure.taken();
    this.#keep(threadId, (failure) => !isOver(failure));
  }

  #keep(threadId: string, wanted: (failure: Failure) => boolean): void {
    const rest = (this.#waiting.get(threadId) ?? []).filter(wanted);
    if (rest.length === 0) this.#waiting.delete(threadId);
    else this.#waiting.set(threadId, rest);
  }
}

function mayBeEqual<T>(left: T | undefined, right: T | undefined): boolean {
  return left === undefined || right === undefined || left === right;
}
