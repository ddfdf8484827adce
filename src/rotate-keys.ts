import type { ResealCounts, Store } from "./store/store";

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
 * Seals everything under the current key, in many short transactions with a pause for others in between, then forgets the other
 * keys. Where another process goes on saving under an old key, what it saved is sealed anew too, until nothing is left.
 */
export async function rotateKeys(store: Store): Promise<RotationReport> {
  const resealed: ResealCounts = { checkpoints: 0, values: 0, writes: 0, turns: 0, effects: 0, archived: 0 };
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
