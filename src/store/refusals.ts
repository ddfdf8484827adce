import { describe, sentence, TurnsError } from "../errors";
import { SALVAGED } from "./salvage";
import type { RewindRow, Lease, RunRow } from "./store";
import { type MovedTo, movedToOf } from "./moves";

/** Throws CHECKPOINT_CORRUPTED unless the two are equal (requirement S3.1). */
export function verifyChecksum(stored: unknown, computed: string, what: string, data: Record<string, unknown>): void {
  if (stored === computed) return;
  // A damaged page may give nothing, or bytes, where a text must be.
  const expected = typeof stored === "string" ? stored : String(stored);
  throw corrupted(what, `checksum ${expected.slice(0, 12)}…`, `contents with checksum ${computed.slice(0, 12)}…`, data);
}

export function corrupted(what: string, expected: string, found: string, data: Record<string, unknown>): TurnsError {
  return new TurnsError("CHECKPOINT_CORRUPTED", {
    problem: `${sentence(what)} is damaged: ${expected} expected, ${found} found.`,
    remedy: "The stored data was changed outside this package. Rewind to an earlier task, or restore the file from a copy.",
    data,
  });
}

/**
 * SQLite stores a lone surrogate as another character, so one name would be read as another one.
 * @throws {TurnsError} UNSERIALIZABLE_VALUE
 */
export function refuseIllFormed(what: "channel" | "node", name: string): void {
  if (name.isWellFormed()) return;
  throw new TurnsError("UNSERIALIZABLE_VALUE", {
    problem: `The name of ${what} ${JSON.stringify(name)} has lone surrogates.`,
    remedy: `Rename the ${what}. Nothing was saved.`,
    data: { [what]: name },
  });
}

export function unknownThread(threadId: string): TurnsError {
  return new TurnsError("THREAD_NOT_FOUND", {
    problem: `This database has no thread ${JSON.stringify(threadId)}.`,
    remedy: "saver.listThreads() shows the threads there are.",
    data: { threadId },
  });
}

/**
 * For a rewind to a point whose checkpoints were pruned.
 *
 * @param toTask the task that contains the target
 * @param next the first later task that can still be rewound to, if that is known; `isNewest`: nothing comes after it
 */
export function prunedBehind(threadId: string, toTask: string, next?: { taskId: string; isNewest: boolean }): TurnsError {
  const remedy =
    next === undefined
      ? "Rewind to a later task."
      : next.isNewest
        ? `The checkpoints of all tasks before the newest one, ${describe(next.taskId)}, were pruned, so there is no task to rewind to.`
        : `The earliest task that you can still rewind to is ${describe(next.taskId)}.`;
  return new TurnsError("CHECKPOINT_NOT_FOUND", {
    problem: `Thread ${describe(threadId)} can't be rewound to task ${describe(toTask)}: the checkpoints of that task were pruned.`,
    remedy: `${remedy} Nothing was deleted.`,
    data: { threadId, toTask, ...(next !== undefined && { nextTask: next.taskId }) },
  });
}

/** @param what what can't be done before that rewind is finished or abandoned */
export function unfinishedRewind(rewind: RewindRow, what: string): TurnsError {
  const { id: rewindId, threadId, targetTaskId: toTask } = rewind;
  if (rewind.reason?.startsWith(SALVAGED) === true) return salvaged(rewind, what);
  return new TurnsError("REWIND_UNFINISHED", {
    problem: `${sentence(what)} is refused: a rewind of the thread to task ${describe(toTask)} (${rewindId}) began at ${rewind.createdAt} and isn't finished.`,
    remedy: `Call the same rewind again, or saver.rewinds.finish(${JSON.stringify({ threadId })}), which continues where it was; or give it up with saver.rewinds.abandon(${JSON.stringify(rewindId)}). Nothing was changed.`,
    data: { threadId, rewindId, toTask, targetSeq: rewind.targetSeq, reason: rewind.reason },
  });
}

/** Salvage leaves this in place of a rewind where a record of completed work is missing. */
function salvaged({ id: rewindId, threadId, targetTaskId: toTask, targetSeq, reason = "" }: RewindRow, what: string): TurnsError {
  return new TurnsError("REWIND_UNFINISHED", {
    problem: `${sentence(what)} is refused: the thread was rescued from a damaged file, where ${reason.slice(SALVAGED.length)}.`,
    remedy: `What had been done there may be done again. If that is right, saver.rewinds.abandon(${JSON.stringify(rewindId)}) lets the thread continue with what is there.`,
    data: { threadId, rewindId, toTask, targetSeq, reason },
  });
}

/** For a node that finishes after LangGraph has given its run up, because a node beside it failed or the run was aborted. */
export function runOver(threadId: string): TurnsError {
  return new TurnsError("LEASE_LOST", {
    problem: `The run of thread ${describe(threadId)} was over before this node finished: it had failed, or was aborted.`,
    remedy: "Nothing of the node was saved. A resume runs it again.",
    data: { threadId, over: true },
  });
}

/**
 * @param holder the run that has the thread now. It may be older than the one that lost it: a database that was restored has such a run.
 */
export function leaseLost({ threadId }: Pick<Lease, "threadId">, holder: RunRow | undefined): TurnsError {
  const by = holder && { pid: holder.pid, host: holder.host, startedAt: new Date(holder.startedAt) };
  return new TurnsError("LEASE_LOST", {
    problem: `A run of thread ${describe(threadId)} isn't recorded any more: ${by ? `process ${by.pid} on ${by.host} has the thread since ${by.startedAt.toISOString()}` : "another run took the thread and has finished since, or the database lost the record"}.`,
    remedy:
      "Nothing was saved. This run gave no sign of life for too long (its process was stopped, or its machine slept), and counted as dead. Or the database lost commits of it, as when a standby without them takes over. Let it end; if no other run continues the thread, resume it.",
    data: { threadId, takenBy: by },
  });
}

/** For a thread that is somewhere else now, or about to be. */
export function threadMoved({
  threadId,
  movedTo = "{}",
  gone,
}: {
  threadId: string;
  movedTo?: string | undefined;
  gone: boolean;
}): TurnsError {
  const { to, at, id }: MovedTo = movedToOf(movedTo);
  const again = "moveThread(from, to, threadId) with the same target";
  return new TurnsError("THREAD_MOVED", {
    problem: gone
      ? `Thread ${describe(threadId)} was moved to ${to} at ${at}.`
      : `Thread ${describe(threadId)} is being moved to ${to} since ${at}, so nothing can be saved on it here.`,
    remedy: gone
      ? "Open that database instead, or move the thread back."
      : `If that move was interrupted, finish it: call ${again}. Until then you can read the thread here.`,
    data: { threadId, to, at, moveId: id, gone },
  });
}
