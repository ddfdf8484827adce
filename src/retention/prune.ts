import { z } from "zod";
import { TurnsError } from "../errors";
import { checkedOptions, idSchema, signalSchema } from "../options";
import { refuseWhileRunning } from "../rewind/plan";
import { sideBySide } from "../side-by-side";
import type { PruneCounts, RunRow, Store } from "../store/store";
import { unfinishedRewind, unknownThread } from "../store/refusals";
import { addCounts, hasAny, NOTHING, pruneThread, stoppedBy } from "./prune-thread";
import { giveBack, removeLeftovers } from "./space";

/**
 * What to prune. At least one of `keepTasks`, `keepLast`, `maxAgeMs` and `idleMs` is needed. What `keepTasks` or `keepLast` keeps
 * stays, unless it is older than `maxAgeMs`.
 */
export interface PruneRequest {
  /** Default: all threads. */
  threadId?: string;
  /** How many of a thread's newest tasks to keep whole, so that you can rewind each of them. At least 1. */
  keepTasks?: number;
  /** How many of the newest checkpoints of a thread's root namespace to keep. At least 1. A run saves one per step. */
  keepLast?: number;
  /** Checkpoints saved longer ago than this are deleted, except for the newest; milliseconds. */
  maxAgeMs?: number;
  /** Threads without a save for this long are deleted whole, unless they run or have an effect in doubt; milliseconds. */
  idleMs?: number;
  /** Only counts what would be deleted. */
  dryRun?: boolean;
  /** How many checkpoints one transaction deletes. The event loop runs between two transactions. Default 500. */
  batchSize?: number;
  /** Stops the work between two batches. What was deleted stays deleted, and another call continues. */
  signal?: AbortSignal;
}

/** What a prune deleted or, for a dry run, would delete. */
export interface PruneReport extends PruneCounts {
  /** How many threads something was deleted from, including those deleted whole. */
  threads: number;
  deletedThreads: readonly string[];
  /** Idle threads that weren't deleted, because an effect is in doubt. */
  inDoubt: readonly string[];
  /** Threads that couldn't be pruned, if you asked for all threads. */
  failed: readonly { threadId: string; error: unknown }[];
  /** How much smaller the database is on disk, its write-ahead log not counted. */
  bytesFreed: number;
  dryRun: boolean;
  /** Whether all of it was done; false if the signal stopped it. */
  done: boolean;
}

/**
 * What the event `pruned` reports, no matter what caused it. `threads` counts the threads that were examined. For `saver.prune`,
 * it counts those that something was deleted from, including those deleted whole.
 */
export interface PrunedEvent extends Omit<PruneReport, "bytesFreed" | "dryRun"> {
  by: "prune" | "deleteForRuns" | "retention";
  /** Missing for the option `retention`: its free pages are returned later. */
  bytesFreed?: number;
}

type CheckedPrune = PruneRequest & { dryRun: boolean; batchSize: number };

const milliseconds = () => z.number().int().min(0);
const pruneSchema = () =>
  z.strictObject({
    threadId: idSchema.optional(),
    keepTasks: z.number().int().min(1).optional(),
    keepLast: z.number().int().min(1).optional(),
    maxAgeMs: milliseconds().optional(),
    idleMs: milliseconds().optional(),
    dryRun: z.boolean().default(false),
    batchSize: z.number().int().min(1).max(100_000).default(500),
    signal: signalSchema.optional(),
  });

/** @throws {TurnsError} INVALID_OPTION naming what is wrong */
function checkedPrune(request: PruneRequest): CheckedPrune {
  const checked = checkedOptions(pruneSchema, request);
  const { keepTasks, keepLast, maxAgeMs, idleMs } = checked;
  if ([keepTasks, keepLast, maxAgeMs, idleMs].some((wish) => wish !== undefined)) return checked;
  throw new TurnsError("INVALID_OPTION", {
    problem: "The prune request says nothing of what may go.",
    remedy: "Pass at least one of keepTasks, keepLast, maxAgeMs and idleMs. Nothing was deleted.",
  });
}

export interface PruneParts {
  store: Store;
  /** Milliseconds since the epoch. */
  now: () => number;
  isAlive: (run: RunRow) => boolean;
}

type Tally = PruneCounts & {
  threads: number;
  deletedThreads: string[];
  inDoubt: string[];
  failed: { threadId: string; error: unknown }[];
  done: boolean;
};

const THREADS_PER_PAGE = 100;

/**
 * Deletes old checkpoints and what belongs to them, sweeps the values that nothing needs any more, and makes the file smaller.
 *
 * Running threads are pruned like others: a run continues from the newest checkpoint of its namespace, which stays.
 *
 * @throws {TurnsError} INVALID_OPTION; for a single thread THREAD_NOT_FOUND, REWIND_UNFINISHED and what its pruning throws
 */
export async function prune(parts: PruneParts, request: PruneRequest): Promise<PruneReport> {
  const checked = checkedPrune(request);
  const tally: Tally = { ...NOTHING, threads: 0, deletedThreads: [], inDoubt: [], failed: [], done: true };
  const { threadId: only } = checked;
  const [found, before] = await sideBySide(
    () => (only === undefined ? undefined : parts.store.getThread(only)),
    () => (checked.dryRun ? 0 : sizeNow(parts.store)),
  );
  if (only !== undefined && found === undefined) throw unknownThread(only);
  for await (const threadId of threadsOf(parts.store, checked)) {
    if (checked.signal?.aborted === true) tally.done = false;
    if (!tally.done) break;
    const counts = { ...NOTHING };
    try {
      await pruneOne(parts, checked, threadId, counts, tally);
    } catch (error) {
      // One thread with damaged rows must not keep the others from being pruned.
      if (checked.threadId !== undefined || !parts.store.isOpen()) throw checked.dryRun ? error : stoppedBy(error, tally);
      tally.failed.push({ threadId, error: checked.dryRun ? error : stoppedBy(error, counts) });
    }
  }
  if (checked.dryRun) return { ...tally, bytesFreed: 0, dryRun: true };
  try {
    await removeLeftovers(parts.store, parts.isAlive);
    await giveBack(parts.store, { truncate: true, signal: checked.signal });
    return { ...tally, bytesFreed: Math.max(0, before - (await parts.store.space()).bytes), dryRun: false };
  } catch (error) {
    throw stoppedBy(error, tally);
  }
}

/** Without the write-ahead log, so that its growing and shrinking doesn't count. */
async function sizeNow(store: Store): Promise<number> {
  return (await store.space()).pagesBytes;
}

async function* threadsOf(store: Store, { threadId }: CheckedPrune): AsyncGenerator<string> {
  if (threadId !== undefined) return void (yield threadId);
  for (let after: string | undefined; ;) {
    const page = await store.listThreads({ after, limit: THREADS_PER_PAGE });
    for (const row of page) yield row.threadId;
    after = page.at(-1)?.threadId;
    if (page.length < THREADS_PER_PAGE) return;
  }
}

/** @param counts what went from this thread, also if a later batch fails; it's in the tally, too */
async function pruneOne(
  parts: PruneParts,
  request: CheckedPrune,
  threadId: string,
  counts: PruneCounts,
  tally: Tally,
): Promise<void> {
  const { keepTasks, keepLast, maxAgeMs, idleMs, dryRun } = request;
  if (idleMs !== undefined) {
    const whole = await takeIdle(parts, threadId, idleMs, dryRun);
    if (whole === "in-doubt") tally.inDoubt.push(threadId);
    else if (whole !== undefined) {
      addCounts(tally, whole);
      tally.threads += 1;
      tally.deletedThreads.push(threadId);
      return;
    }
  }
  if (keepTasks === undefined && keepLast === undefined && maxAgeMs === undefined) return;
  const before = maxAgeMs === undefined ? undefined : parts.now() - maxAgeMs;
  const wish = { kind: "criteria", keepTasks, keepLast, before } as const;
  try {
    tally.done = (await pruneThread(parts.store, threadId, wish, { ...request, sweep: () => true }, counts)).done;
  } finally {
    addCounts(tally, counts);
    if (hasAny(counts)) tally.threads += 1;
  }
}

async function takeIdle({ store, now, isAlive }: PruneParts, threadId: string, idleMs: number, dryRun: boolean) {
  const before = now() - idleMs;
  const idle = await store.idleThread(threadId, before, isAlive);
  return dryRun || typeof idle !== "object" ? idle : store.deleteIdleThread(threadId, before, isAlive, now());
}

export interface RunDeletionReport extends PruneCounts {
  threads: number;
  /** Checkpoints of these runs that stay, because a delta channel of another checkpoint is assembled from them. */
  kept: readonly { threadId: string; checkpointNs: string; checkpointId: string }[];
  bytesFreed: number;
}

const BATCH = 500;
const runsSchema = () => z.strictObject({ runIds: z.array(idSchema) });

/**
 * Deletes the checkpoints of some runs in all threads, with their writes and turns.
 *
 * @throws {TurnsError} INVALID_OPTION; THREAD_RUNNING or REWIND_UNFINISHED, before anything has been deleted
 */
export async function deleteForRuns(parts: PruneParts, ids: readonly string[]): Promise<RunDeletionReport> {
  const { runIds } = checkedOptions(runsSchema, { runIds: ids });
  const { store, isAlive } = parts;
  const threads = await store.threadsOfRuns(runIds);
  for (const threadId of threads) {
    refuseWhileRunning(threadId, (await store.listRuns(threadId)).filter(isAlive));
    const rewind = await store.unfinishedRewind(threadId);
    if (rewind !== undefined) throw unfinishedRewind(rewind, `deleting runs of thread ${JSON.stringify(threadId)}`);
  }
  const before = await sizeNow(store);
  const total = { ...NOTHING };
  const kept: RunDeletionReport["kept"][number][] = [];
  try {
    for (const threadId of threads) {
      const pace = { dryRun: false, batchSize: BATCH, sweep: () => true };
      const { spared } = await pruneThread(store, threadId, { kind: "runs", runIds }, pace, total);
      for (const { ns, checkpointId } of spared) kept.push({ threadId, checkpointNs: ns, checkpointId });
    }
    await giveBack(store, { truncate: true });
    return { ...total, threads: threads.length, kept, bytesFreed: Math.max(0, before - (await store.space()).bytes) };
  } catch (error) {
    throw stoppedBy(error, total);
  }
}
