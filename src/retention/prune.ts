import type { PruneCounts, RunRow, Store } from "../store/store";
import { unknownThread } from "../store/unknown-thread";
import { type CheckedPrune, checkedPrune, type PruneReport, type PruneRequest } from "./request";
import { giveBack, removeLeftovers } from "./space";
import { addCounts, NOTHING, pruneThread } from "./thread";

export interface PruneParts {
  store: Store;
  /** Milliseconds since the epoch. */
  now: () => number;
  isAlive: (run: RunRow) => boolean;
}

type Tally = PruneCounts & {
  threads: number;
  deletedThreads: string[];
  failed: { threadId: string; error: unknown }[];
  done: boolean;
};

const THREADS_PER_PAGE = 100;

/**
 * Removes old checkpoints and what belongs to them, sweeps the values that nothing needs any more, and makes the file smaller.
 *
 * Threads that are running are pruned like others: what a run goes on from is the newest checkpoint of its namespace, which stays.
 *
 * @throws {TurnsError} INVALID_OPTION; for a single thread THREAD_NOT_FOUND, REWIND_UNFINISHED and what its pruning throws
 */
export async function prune(parts: PruneParts, request: PruneRequest): Promise<PruneReport> {
  const checked = checkedPrune(request);
  const tally: Tally = { ...NOTHING, threads: 0, deletedThreads: [], failed: [], done: true };
  const { threadId: only } = checked;
  if (only !== undefined && (await parts.store.getThread(only)) === undefined) throw unknownThread(only);
  const before = checked.dryRun ? 0 : await sizeNow(parts.store);
  for await (const threadId of threadsOf(parts.store, checked)) {
    if (checked.signal?.aborted === true) tally.done = false;
    if (!tally.done) break;
    try {
      await pruneOne(parts, checked, threadId, tally);
    } catch (error) {
      // One thread with damaged rows must not keep all others from being pruned.
      if (checked.threadId !== undefined || !parts.store.open) throw error;
      tally.failed.push({ threadId, error });
    }
  }
  if (!checked.dryRun) await removeLeftovers(parts.store, parts.isAlive);
  if (!checked.dryRun) await giveBack(parts.store, { truncate: true, signal: checked.signal });
  const bytesFreed = checked.dryRun ? 0 : Math.max(0, before - (await parts.store.space()).bytes);
  return { ...tally, bytesFreed, dryRun: checked.dryRun };
}

/** With the log in the file, so that its coming and going does not count. */
export async function sizeNow(store: Store): Promise<number> {
  await store.checkpointLog(true);
  return (await store.space()).bytes;
}

async function* threadsOf(store: Store, { threadId }: CheckedPrune): AsyncGenerator<string> {
  if (threadId !== undefined) {
    yield threadId;
    return;
  }
  for (let after: string | undefined; ;) {
    const page = await store.listThreads({ after, limit: THREADS_PER_PAGE });
    for (const row of page) yield row.threadId;
    after = page.at(-1)?.threadId;
    if (page.length < THREADS_PER_PAGE) return;
  }
}

async function pruneOne(parts: PruneParts, request: CheckedPrune, threadId: string, tally: Tally): Promise<void> {
  const { keepLast, maxAgeMs, idleMs, dryRun } = request;
  if (idleMs !== undefined) {
    const whole = await takeIdle(parts, threadId, idleMs, dryRun);
    if (whole !== undefined) {
      addCounts(tally, whole);
      tally.threads += 1;
      tally.deletedThreads.push(threadId);
      return;
    }
  }
  if (keepLast === undefined && maxAgeMs === undefined) return;
  const before = maxAgeMs === undefined ? undefined : parts.now() - maxAgeMs;
  const went = await pruneThread(
    parts.store,
    threadId,
    { kind: "criteria", keepLast, before },
    { ...request, sweep: () => true },
  );
  addCounts(tally, went.counts);
  if (went.counts.checkpoints + went.counts.writes + went.counts.turns + went.counts.chunks > 0) tally.threads += 1;
  tally.done = went.done;
}

async function takeIdle({ store, now, isAlive }: PruneParts, threadId: string, idleMs: number, dryRun: boolean) {
  const before = now() - idleMs;
  const idle = await store.idleThread(threadId, before, isAlive);
  return dryRun || idle === undefined ? idle : store.deleteIdleThread(threadId, before, isAlive, now());
}
