import { z } from "zod";
import { internalsOf } from "../internals";
import { checkedOptions, functionSchema, signalSchema } from "../options";
import { removeLeftovers } from "../retention/space";
import type { TurnSaver } from "../saver";
import type { ResealCounts, Store } from "../store/store";
import { isAlive } from "../turns/process-identity";
import { othersFirst } from "../timers";

/** The result of {@link rotateKeys}. */
export interface RotationReport {
  /** The key under which everything is sealed now. */
  keyId: string;
  /** How many rows were sealed again, by kind. Rows that already had the current key don't count. */
  resealed: ResealCounts;
  /** How many keys the database no longer needs. */
  retired: number;
  /** False if the signal stopped the call. The database needs all its keys then. */
  done: boolean;
}

export interface RotationOptions {
  /** Called after each batch, with how many rows were sealed again so far. An error that it throws stops the call. */
  onProgress?: (progress: { resealed: number }) => void;
  /** Stops the call after the current batch. Call it again to continue. */
  signal?: AbortSignal;
}

const schema = () =>
  z.strictObject({
    onProgress: functionSchema<(progress: { resealed: number }) => void>().optional(),
    signal: signalSchema.optional(),
  });

/**
 * Seals everything that is stored under the current key of the saver's option `encryption`. It works in short transactions, so
 * other work continues. When it resolves, the database no longer needs its other keys. You can call it again after an
 * interruption: it skips what is done.
 *
 * @returns how many rows were sealed again, by kind
 * @throws {TurnsError} INVALID_OPTION, NOT_ENCRYPTED, CHECKPOINT_CORRUPTED for a row that does not open, UNKNOWN_KEY if another process has
 *   retired the key that is current here; no key has been given up then
 */
export async function rotateKeys(saver: TurnSaver, options: RotationOptions = {}): Promise<RotationReport> {
  const { onProgress, signal } = checkedOptions(schema, options);
  const { store } = internalsOf(saver);
  // Unreachable rows would keep the old keys in use.
  await removeLeftovers(store, isAlive);
  const none = { checkpoints: 0, values: 0, writes: 0, turns: 0, effects: 0 };
  const resealed: ResealCounts = { ...none, recoveries: 0, archived: 0 };
  // Another process may still save under an old key. Its rows are sealed again too, until none is left.
  for (;;) {
    let next: Awaited<ReturnType<Store["reseal"]>>["next"];
    do {
      const batch = await store.reseal(next);
      for (const [name, count] of Object.entries(batch.resealed)) resealed[name as keyof ResealCounts] += count;
      next = batch.next;
      onProgress?.({ resealed: Object.values<number>({ ...resealed }).reduce((sum, count) => sum + count, 0) });
      if (signal?.aborted === true) return { keyId: batch.keyId, resealed, retired: 0, done: false };
      await othersFirst();
    } while (next !== undefined);
    const { keyId, retired } = await store.retireKeys();
    if (retired !== undefined) return { keyId, resealed, retired, done: true };
  }
}
