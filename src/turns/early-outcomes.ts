import type { EarlyOutcome } from "../store/store";

interface Place {
  threadId: string;
  ns: string;
  checkpointId: string;
}

/** Of so many checkpoints; those that never come are forgotten. */
const LIMIT = 64;

/**
 * How node tasks ended whose checkpoint hasn't been handed in yet. A graph that isn't attached has its Thoughts saved with the checkpoint,
 * so there is nothing yet that the Action could follow. It happens with durability "exit", and when a save takes long: LangGraph hands in a
 * checkpoint only when the one before is saved, and the nodes don't wait for it.
 */
export class EarlyOutcomes {
  readonly #known = new Map<string, EarlyOutcome[]>();

  add(at: Place, outcome: EarlyOutcome): void {
    this.#known.set(keyOf(at), [...(this.#known.get(keyOf(at)) ?? []), outcome]);
    const [oldest] = this.#known.keys();
    if (this.#known.size > LIMIT && oldest !== undefined) this.#known.delete(oldest);
  }

  /** Those at a checkpoint that is handed in now, oldest first. */
  take(at: Place): EarlyOutcome[] {
    if (this.#known.size === 0) return [];
    const known = this.#known.get(keyOf(at)) ?? [];
    this.#known.delete(keyOf(at));
    return known;
  }
}

function keyOf({ threadId, ns, checkpointId }: Place): string {
  return JSON.stringify([threadId, ns, checkpointId]);
}
