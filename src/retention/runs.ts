import { z } from "zod";
import { ID_RULE, isId } from "../ids";
import { checkedOptions } from "../options";
import { refuseWhileRunning } from "../rewind/plan";
import type { PruneCounts } from "../store/store";
import { unfinishedRewind } from "../store/unfinished-rewind";
import { type PruneParts, sizeNow } from "./prune";
import { giveBack } from "./space";
import { addCounts, NOTHING, pruneThread } from "./thread";

export interface RunDeletionReport extends PruneCounts {
  threads: number;
  /** Checkpoints of these runs that stay, because a delta channel of a remaining checkpoint is put together from them. */
  kept: readonly { threadId: string; checkpointNs: string; checkpointId: string }[];
  bytesFreed: number;
}

const BATCH = 500;
const schema = z.strictObject({ runIds: z.array(z.custom<string>(isId, ID_RULE)) });

/**
 * Deletes the checkpoints of some runs in all threads, with their writes and turns.
 *
 * @throws {TurnsError} INVALID_OPTION; THREAD_RUNNING, REWIND_UNFINISHED before anything has been deleted
 */
export async function deleteForRuns(parts: PruneParts, ids: readonly string[]): Promise<RunDeletionReport> {
  const { runIds } = checkedOptions(schema, { runIds: ids });
  const { store, isAlive } = parts;
  const threads = await store.threadsOfRuns(runIds);
  for (const threadId of threads) {
    refuseWhileRunning(threadId, (await store.listRuns(threadId)).filter(isAlive));
    const rewind = await store.unfinishedRewind(threadId);
    if (rewind !== undefined) throw unfinishedRewind(rewind, `deleting runs of thread ${JSON.stringify(threadId)}`);
  }
  const before = await sizeNow(store);
  const total = { ...NOTHING };
  const kept: { threadId: string; checkpointNs: string; checkpointId: string }[] = [];
  for (const threadId of threads) {
    const pace = { dryRun: false, batchSize: BATCH, sweep: () => true };
    const { counts, spared } = await pruneThread(store, threadId, { kind: "runs", runIds }, pace);
    addCounts(total, counts);
    for (const { ns, checkpointId } of spared) kept.push({ threadId, checkpointNs: ns, checkpointId });
  }
  await giveBack(store, { truncate: true });
  return { ...total, threads: threads.length, kept, bytesFreed: Math.max(0, before - (await store.space()).bytes) };
}
