import { type CheckpointAddress, checkpointKey } from "../run-config";
import type { EarlyOutcome } from "../store/store";

/**
 * The most checkpoints and characters to remember, not counting the newest checkpoint. Outcomes whose checkpoint never arrives
 * are dropped.
 */
const LIMIT = 64;
const CHARACTERS_MAX = 16 << 20;

/**
 * Outcomes of node tasks whose checkpoint hasn't been handed in yet. In a graph that isn't attached, Thoughts are saved with the
 * checkpoint, so the Action has nothing to follow yet.
 *
 * This happens with durability "exit", and when a save takes long: LangGraph hands in a checkpoint only after the previous one is
 * saved, and the nodes don't wait for it.
 */
export class EarlyOutcomes {
  readonly #known = new Map<string, { outcomes: EarlyOutcome[]; characters: number }>();
  #characters = 0;

  add(at: CheckpointAddress, outcome: EarlyOutcome): void {
    const key = checkpointKey(at);
    const known = this.#known.get(key) ?? { outcomes: [], characters: 0 };
    const characters = charactersOf(outcome);
    this.#known.set(key, { outcomes: [...known.outcomes, outcome], characters: known.characters + characters });
    this.#characters += characters;
    for (const oldest of this.#known.keys()) {
      if (oldest === key || (this.#known.size <= LIMIT && this.#characters <= CHARACTERS_MAX)) break;
      this.#forget(oldest);
    }
  }

  /** Removes and returns the outcomes at a checkpoint that is handed in now, oldest first. */
  take(at: CheckpointAddress): EarlyOutcome[] {
    return this.#known.size === 0 ? [] : this.#forget(checkpointKey(at));
  }

  #forget(key: string): EarlyOutcome[] {
    const { outcomes, characters } = this.#known.get(key) ?? { outcomes: [], characters: 0 };
    this.#known.delete(key);
    this.#characters -= characters;
    return outcomes;
  }
}

function charactersOf({ settle: { update } }: EarlyOutcome): number {
  return update === undefined ? 0 : update.parts.reduce((sum, part) => sum + part.text.length, update.text.length);
}
