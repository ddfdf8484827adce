/** Taken at load, so that a user's fake timers do not make a run wait for ever. */
const nextTurn = setImmediate;
const LONGEST_MS = 20;

/**
 * Lets the event loop run now and then. SQLite answers at once, so a graph whose nodes wait for nothing would never come back to it: no
 * timer would fire for hours, no heartbeat of ours, no pruning, no server of the user's.
 */
export class Breath {
  #last = performance.now();

  /** Undefined as long as it is not time yet. */
  taken(): Promise<void> | undefined {
    if (performance.now() - this.#last < LONGEST_MS) return undefined;
    return new Promise((resolve) => {
      nextTurn(() => {
        this.#last = performance.now();
        resolve();
      });
    });
  }
}
