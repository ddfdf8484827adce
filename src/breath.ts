/** Taken at load, so that a user's fake timers do not make a run wait for ever. */
const nextTurn = setImmediate;
const LONGEST_MS = 50;

/**
 * Lets the event loop run now and then. SQLite answers at once, so a graph whose nodes wait for nothing would never come back to it: no
 * timer would fire for hours, no heartbeat of ours, no pruning, no server of the user's. A run that waits for anything never waits here.
 */
export class Breath {
  /** When the event loop was last asked for a sign of life; undefined if it has given it. */
  #asked: number | undefined;
  #superstep = "";
  #taken: Promise<void> | undefined;

  /**
   * Nodes of one superstep are treated alike, so that none overtakes another.
   *
   * @returns undefined if there is nothing to wait for
   */
  before(superstep: string): Promise<void> | undefined {
    if (superstep !== this.#superstep) {
      this.#superstep = superstep;
      this.#taken = this.#isStarved() ? this.#turn() : undefined;
    }
    return this.#taken;
  }

  #isStarved(): boolean {
    if (this.#asked !== undefined) return performance.now() - this.#asked > LONGEST_MS;
    this.#asked = performance.now();
    nextTurn(() => (this.#asked = undefined)).unref();
    return false;
  }

  #turn(): Promise<void> {
    return new Promise((resolve) => nextTurn(resolve));
  }
}
