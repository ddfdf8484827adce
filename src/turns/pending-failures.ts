import type { RunRegistry } from "./run-registry";

const CHECK_EVERY_MS = 20;

/**
 * Failed saves that nobody has been told of yet.
 *
 * With durability "async" LangGraph looks at a save's promise only when the run ends; a promise that rejects earlier is an unhandled
 * rejection, which ends the Node process. So a failed save stays pending until someone can take the bad news: the next node's start,
 * which then fails with it, or the end of the run, when LangGraph awaits what is left.
 */
export class PendingFailures {
  readonly #runs: RunRegistry;
  readonly #reported = new Map<string, unknown>();
  readonly #waiting = new Map<string, { error: unknown; taken: () => void }[]>();

  constructor(runs: RunRegistry) {
    this.#runs = runs;
  }

  /** Resolves if a node's start took the error, rejects with it once no node is at work that could. */
  hold(threadId: string, error: unknown): Promise<void> {
    const reason = error instanceof Error ? error : new Error(String(error));
    return new Promise((resolve, reject) => {
      const list = this.#waiting.get(threadId) ?? [];
      this.#waiting.set(threadId, list);
      const timer = setInterval(() => {
        if (this.#runs.nodesAtWork(threadId) > 0) return;
        clearInterval(timer);
        this.#remove(threadId, entry);
        reject(reason);
      }, CHECK_EVERY_MS);
      const entry = {
        error,
        taken: () => {
          clearInterval(timer);
          resolve();
        },
      };
      list.push(entry);
    });
  }

  /**
   * The first error of the thread's run, now the caller's to report; the saves that wait resolve with it. It stays until the run ends:
   * a node's retry policy must not run the body on a checkpoint that does not exist.
   */
  take(threadId: string): unknown {
    const list = this.#waiting.get(threadId) ?? [];
    this.#waiting.delete(threadId);
    for (const entry of list) entry.taken();
    const [first] = list;
    if (first !== undefined && !this.#reported.has(threadId)) this.#reported.set(threadId, first.error);
    return this.#reported.get(threadId);
  }

  /** A run of the thread begins or ends: what was reported is over. */
  forget(threadId: string): void {
    this.#reported.delete(threadId);
  }

  #remove(threadId: string, entry: { error: unknown }): void {
    const rest = (this.#waiting.get(threadId) ?? []).filter((candidate) => candidate !== entry);
    if (rest.length === 0) this.#waiting.delete(threadId);
    else this.#waiting.set(threadId, rest);
  }
}
