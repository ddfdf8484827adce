import { internalsOf } from "../internals";
import { removeLeftovers } from "../retention/space";
import type { TurnSaver } from "../saver";
import type { ResealCounts, Store } from "../store/store";
import { isAlive } from "../turns/process-identity";

/** What {@link rotateKeys} did. */
export interface RotationReport {
  /** The key under which everything is sealed now. */
  keyId: string;
  /** How many rows were sealed anew, by kind; those that were already are not counted. */
  resealed: ResealCounts;
  /** How many keys the database does not need any more. */
  retired: number;
}

/**
 * Seals all that is stored under the current key of the saver's option `encryption`, a little at a time beside whatever else goes on. When
 * it resolves, the database does not need its other keys any more. Interrupted, it goes on where it was when it is called again.
 *
 * @returns how many rows were sealed anew, by kind
 * @throws {TurnsError} NOT_ENCRYPTED, CHECKPOINT_CORRUPTED for a row that does not open, UNKNOWN_KEY if another process has retired
 *   the key that is current here; no key has been given up then
 */
export async function rotateKeys(saver: TurnSaver): Promise<RotationReport> {
  const { store } = internalsOf(saver);
  // What nobody can reach would keep the old keys in use.
  await removeLeftovers(store, isAlive);
  const resealed: ResealCounts = { checkpoints: 0, values: 0, writes: 0, turns: 0, effects: 0, archived: 0 };
  // Where another process goes on saving under an old key, what it saved is sealed anew too, until nothing is left.
  for (;;) {
    let next: Awaited<ReturnType<Store["reseal"]>>["next"];
    do {
      const batch = await store.reseal(next);
      for (const [name, count] of Object.entries(batch.resealed)) resealed[name as keyof ResealCounts] += count;
      next = batch.next;
      await new Promise((resolve) => setImmediate(resolve));
    } while (next !== undefined);
    const { keyId, retired } = await store.retireKeys();
    if (retired !== undefined) return { keyId, resealed, retired };
  }
}
