import type { CopyOrder, Store } from "./store/store";
import { runsOfThisProcess, thisProcess } from "./turns/process-identity";

/** After this many tries, the source is copied in one transaction, no matter how large it is. */
const TRIES_IN_PIECES = 3;

/**
 * Copies a thread. If rows of the source are deleted while it is copied in pieces, the copy starts again.
 *
 * @throws {TurnsError} what {@link Store.copyThread} throws
 */
export async function copyThread(store: Store, order: Omit<CopyOrder, "run" | "atOnce">): Promise<void> {
  const { createId, createdAt: startedAt } = order;
  for (let tries = 0; ; tries += 1) {
    const run = { ...thisProcess(), runId: createId(), threadId: "", startedAt, beatAt: 0 };
    runsOfThisProcess.add(run.runId);
    try {
      if (await store.copyThread({ ...order, run, atOnce: tries >= TRIES_IN_PIECES })) return;
    } finally {
      runsOfThisProcess.delete(run.runId);
    }
  }
}
