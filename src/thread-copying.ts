import type { CopyOrder, RunRow, Store } from "./store/store";
import { runsOfThisProcess, thisProcess } from "./turns/process-identity";

/** Then the source is copied in one transaction, whatever its size. */
const TRIES_IN_PIECES = 3;

type NewCopy = Omit<CopyOrder, "run" | "atOnce">;

/**
 * Copies a thread. If rows of the source are deleted while it is copied in pieces, it begins again.
 *
 * @throws {TurnsError} what {@link Store.copyThread} throws
 */
export async function copyThread(store: Store, order: NewCopy): Promise<void> {
  for (let tries = 0; ; tries += 1) {
    if (await isCopied(store, { ...order, run: copyRun(order), atOnce: tries >= TRIES_IN_PIECES })) return;
  }
}

/** @returns whether the store copied it */
async function isCopied(store: Store, order: CopyOrder): Promise<boolean> {
  const { runId } = order.run;
  runsOfThisProcess.add(runId);
  try {
    return await store.copyThread(order);
  } finally {
    runsOfThisProcess.delete(runId);
  }
}

function copyRun({ createId, createdAt }: NewCopy): RunRow {
  return { ...thisProcess(), runId: createId(), threadId: "", startedAt: createdAt, beatAt: 0 };
}
