import { TurnsError, type TurnsErrorCode } from "../errors";
import type { Awaitable, PruneCounts, PrunePlan, PruneWish, Store } from "../store/store";
import { othersFirst } from "../timers";

interface Pace {
  dryRun: boolean;
  /** Checkpoints deleted in one transaction. */
  batchSize: number;
  signal?: AbortSignal | undefined;
  /** Whether to look for values that nothing needs any more; asked when all checkpoints are deleted. */
  sweep: () => Awaitable<boolean>;
}

interface WentFromThread {
  counts: PruneCounts;
  /** How many checkpoints had to be examined. */
  examined: number;
  spared: PrunePlan["spared"];
  done: boolean;
}

export const NOTHING: PruneCounts = { checkpoints: 0, writes: 0, turns: 0, chunks: 0 };

/**
 * An error of a batch says that nothing of it was saved. What other batches deleted stays deleted, so that has to be told with it.
 *
 * @returns the error as it is if nothing was deleted before
 */
export function stoppedBy(error: unknown, deleted: PruneCounts): unknown {
  if (!TurnsError.is(error) || !hasAny(deleted)) return error;
  const { checkpoints, writes, turns, chunks } = deleted;
  return new TurnsError<TurnsErrorCode>(error.code, {
    problem: `Pruning stopped part-way. What it deleted stays deleted (checkpoints: ${checkpoints}, writes: ${writes}, turns: ${turns}, stored values: ${chunks}), and everything else is intact. The step that failed: ${error.message}`,
    remedy: "The same call continues.",
    data: { ...error.data, deleted: { ...deleted } },
    cause: error,
  });
}

export function hasAny({ checkpoints, writes, turns, chunks }: PruneCounts): boolean {
  return checkpoints + writes + turns + chunks > 0;
}

/** Chunks are small compared to checkpoints with their writes and turns. */
const ROWS_PER_CHECKPOINT = 10;

export function addCounts(total: PruneCounts, more: PruneCounts): void {
  for (const name of ["checkpoints", "writes", "turns", "chunks"] as const) total[name] += more[name];
}

/**
 * Deletes the unwanted checkpoints of one thread, batch by batch. If it is killed or aborted anywhere, the thread is intact, and
 * a second call finishes.
 *
 * @param counts what finished batches deleted is added here, also if a later one fails
 * @throws {TurnsError} what the store throws; finished batches stay done
 */
export async function pruneThread(
  store: Store,
  threadId: string,
  wish: PruneWish,
  pace: Pace,
  counts: PruneCounts = { ...NOTHING },
): Promise<WentFromThread> {
  const plan = await store.prunePlan(threadId, wish);
  const went: WentFromThread = { counts, examined: plan?.examined ?? 0, spared: plan?.spared ?? [], done: true };
  if (plan === undefined) return went;
  if (pace.dryRun) {
    const chunks = (await store.sweepPlan(threadId, plan))?.chunks.length ?? 0;
    count(counts, plan);
    counts.chunks = chunks;
    return went;
  }
  let rest = plan;
  while (rest.units.length > 0 || rest.archives.length > 0) {
    if (pace.signal?.aborted === true) return { ...went, done: false };
    const batch = await store.pruneBatch(rest, wish, pace.batchSize);
    addCounts(counts, batch.removed);
    rest = batch.rest;
    await othersFirst();
  }
  if (!(await pace.sweep())) return went;
  return { ...went, done: await sweepThread(store, threadId, pace, counts) };
}

function count(counts: PruneCounts, plan: PrunePlan): void {
  for (const { isCheckpoint, writes, turns } of plan.units) {
    addCounts(counts, { checkpoints: Number(isCheckpoint), writes: writes.length, turns: turns.length, chunks: 0 });
  }
}

async function sweepThread(store: Store, threadId: string, pace: Pace, counts: PruneCounts): Promise<boolean> {
  let rest = await store.sweepPlan(threadId, undefined);
  while (rest !== undefined && rest.chunks.length + rest.lists.length + rest.unswept > 0) {
    if (pace.signal?.aborted === true) return false;
    const batch = await store.sweepBatch(rest, pace.batchSize * ROWS_PER_CHECKPOINT);
    counts.chunks += batch.chunks;
    rest = batch.rest;
    await othersFirst();
  }
  return true;
}
