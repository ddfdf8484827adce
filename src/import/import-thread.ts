import { type Checkpoint, type PendingWrite, WRITES_IDX_MAP } from "@langchain/langgraph-checkpoint";
import { TurnsError } from "../errors";
import type { TurnSaver } from "../saver";
import { importing } from "../imported-at";
import { differenceOf, tasksToWrite, writesDiffer } from "./differences";
import { mismatch, notSaved, threadExists } from "./failures";
import type { OfficialTuple } from "./official-tuple";
import { breathe, keysOf } from "./pace";
import { readOrSkip, type SkippedCheckpoint, survey, type ThreadImport, tupleOf } from "./survey";

const ERROR_SOURCE_NODE = "__error_source_node__";

/** What became of a thread. */
export interface ImportedThread {
  /** Its id in the source. */
  threadId: string;
  /** Its id in the target: the same, unless `mapThreadId` gave another one. */
  targetId: string;
  /**
   * `imported`: brought over whole. `completed`: an earlier import had been interrupted in the middle of it. `present`: an earlier import
   * had brought it over; nothing was written. `skipped`: the target has another thread of that id (`existing: "skip"`).
   */
  outcome: "imported" | "completed" | "present" | "skipped";
  /** Why the thread was skipped. */
  why?: string;
  /** How many of the source's checkpoints, over all namespaces, and of their pending writes are in the target. */
  checkpoints: number;
  writes: number;
  /** Checkpoints that were left out (`onUnreadable: "skip"`). */
  skipped: readonly SkippedCheckpoint[];
  /** Writes in the source that belong to no checkpoint; no saver can read them, and they were left out. */
  orphanedWrites: number;
  /** Whether every checkpoint was read from both and compared. */
  verified: boolean;
}

/**
 * Brings one thread over. When it returns or throws, the thread is in the target as a whole or not at all; only a process that dies
 * leaves a beginning, which the next import completes.
 *
 * @throws {TurnsError} THREAD_EXISTS, CHECKPOINT_UNREADABLE (nothing written); IMPORT_MISMATCH for a failed verification, IMPORT_ABORTED,
 * and what the saver throws (removed again)
 */
export async function importThread(
  job: ThreadImport,
  options: { existing: "refuse" | "skip"; verify: boolean },
): Promise<ImportedThread> {
  const { threadId, targetId } = job;
  const { standing, ...counts } = await survey(job);
  const report = { threadId, targetId, ...counts, orphanedWrites: job.source.orphans(threadId) };
  if (standing === "foreign") {
    if (options.existing === "refuse") throw threadExists(targetId);
    const why = "the target has another thread of that id";
    return { ...report, outcome: "skipped", why, checkpoints: 0, writes: 0, verified: false };
  }
  if (standing === "whole") return { ...report, outcome: "present", verified: true };
  try {
    await write(job);
    if (options.verify) await verify(job);
  } catch (error) {
    // What was there before this call is left as a beginning, unless it is proven wrong. If the removal fails too, so it stays here.
    const wrong = TurnsError.is(error, "IMPORT_MISMATCH");
    if ((standing === "absent" && !TurnsError.is(error, "THREAD_DELETED")) || wrong)
      await removed(job.saver, targetId).catch(() => undefined);
    throw error;
  }
  return { ...report, outcome: standing === "begun" ? "completed" : "imported", verified: options.verify };
}

/** Oldest first: a checkpoint's parent is there before it, and the thread's head comes last. */
async function write(job: ThreadImport): Promise<void> {
  const { saver, threadId, targetId } = job;
  // A saver with onCheckpointError "continue" acknowledges a save that failed; the event tells the truth.
  let failed: { error: unknown } | undefined;
  const listener = (failure: { threadId: string; error: unknown }): void => {
    if (failure.threadId === targetId) failed ??= failure;
  };
  saver.events.on("checkpoint_failed", listener);
  try {
    const skipped: SkippedCheckpoint[] = [];
    for (const key of keysOf(job.source, threadId)) {
      await breathe(job.signal);
      await job.hold.renew();
      const wanted = readOrSkip(job, key, skipped);
      if (wanted !== undefined) await writeOne(job, wanted);
      if (failed !== undefined) throw notSaved(targetId, failed.error);
    }
  } finally {
    saver.events.off("checkpoint_failed", listener);
  }
}

async function writeOne({ saver, targetId }: ThreadImport, wanted: OfficialTuple): Promise<void> {
  const { ns, checkpointId, parentId, checkpoint, metadata } = wanted;
  const at = { thread_id: targetId, checkpoint_ns: ns };
  const savedAt = timeOf(checkpoint);
  const found = await tupleOf(saver, targetId, wanted);
  if (found === undefined) {
    await saver.put(importing({ ...at, checkpoint_id: parentId }, savedAt), checkpoint, metadata);
  }
  for (const [taskId, writes] of tasksToWrite(wanted, found)) {
    for (const call of asCalls(writes))
      await saver.putWrites(importing({ ...at, checkpoint_id: checkpointId }, savedAt), call, taskId);
  }
}

/** A checkpoint's own time; where it has none, now. */
function timeOf({ ts }: Checkpoint): string {
  const time = Date.parse(ts);
  return new Date(Number.isNaN(time) ? Date.now() : time).toISOString();
}

/**
 * One task's writes in the order in which LangGraph sent them: an interrupt or an error, then the results of a later attempt. In one
 * call with an error the saver would take the results for leftovers of the failure (`writesToKeep`). An error that a handler takes over
 * is the exception: there both were one call.
 */
function asCalls(writes: PendingWrite[]): PendingWrite[][] {
  if (writes.some(([channel]) => channel === ERROR_SOURCE_NODE)) return [writes];
  const special = writes.filter(([channel]) => Object.hasOwn(WRITES_IDX_MAP, channel));
  const regular = writes.filter((write) => !special.includes(write));
  return [special, regular].filter((call) => call.length > 0);
}

async function verify(job: ThreadImport): Promise<void> {
  const skipped: SkippedCheckpoint[] = [];
  for (const key of keysOf(job.source, job.threadId)) {
    await breathe(job.signal);
    await job.hold.renew();
    const wanted = readOrSkip(job, key, skipped);
    if (wanted === undefined) continue;
    const found = await tupleOf(job.saver, job.targetId, key);
    if (found === undefined) throw mismatch(job.targetId, key, "the whole");
    const difference = differenceOf(wanted, found) ?? writesDiffer(wanted, found);
    if (difference !== undefined) throw mismatch(job.targetId, key, difference.part, difference.channel);
  }
}

/** What was never whole leaves no tombstone: the next import may bring it. */
async function removed(saver: TurnSaver, threadId: string): Promise<void> {
  await saver.deleteThread(threadId);
  await saver.reuseThread(threadId);
}
