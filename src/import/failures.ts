import { describe, TurnsError } from "../errors";
import { ID_RULE } from "../system";
import type { OfficialKey } from "../store/official-source";

/** Why a checkpoint of the source can't be imported. Nothing has been written when it is thrown. */
export const unreadable = (threadId: string, { ns, checkpointId }: OfficialKey, found: string, cause?: unknown): TurnsError =>
  new TurnsError("CHECKPOINT_UNREADABLE", {
    problem: `Checkpoint ${checkpointId} of thread ${JSON.stringify(threadId)}${ns === "" ? "" : ` in ${JSON.stringify(ns)}`} can't be read: ${found}.`,
    remedy: 'Nothing of the thread was written. onUnreadable: "skip" leaves such checkpoints out and lists them in the report.',
    data: { threadId, checkpointNs: ns, checkpointId, why: found },
    cause,
  });

export const mismatch = (threadId: string, { ns, checkpointId }: OfficialKey, part: string, channel?: string): TurnsError =>
  new TurnsError("IMPORT_MISMATCH", {
    problem: `The target doesn't hold what the official saver stored: ${part} of checkpoint ${checkpointId} of thread ${JSON.stringify(threadId)} differs.`,
    remedy: "The thread was removed from the target again. The source was not changed; please report this.",
    data: { threadId, checkpointNs: ns, checkpointId, part, channel },
  });

export const threadExists = (threadId: string): TurnsError =>
  new TurnsError("THREAD_EXISTS", {
    problem: `The target has a thread ${JSON.stringify(threadId)} with other checkpoints.`,
    remedy: 'Nothing of it was changed. Delete that thread, import into another file, or pass existing: "skip".',
    data: { threadId },
  });

/** @param isNumber whether the file has the thread in the form in which the official saver stores a number */
export const unknownThread = (threadId: string, file: string, isNumber: boolean): TurnsError =>
  new TurnsError("THREAD_NOT_FOUND", {
    problem: `${file} has no thread ${JSON.stringify(threadId)}, which the option "threads" names.`,
    remedy: isNumber
      ? `Nothing was imported. The file has ${JSON.stringify(`${threadId}.0`)}, as the official saver stores a number: name that, and pass mapThreadId: (id) => id.replace(/^(-?\\d+)\\.0$/, "$1").`
      : "Nothing was imported. Leave the option out to import all threads.",
    data: { threadId, file },
  });

export const noTargetId = (threadId: string, found: unknown): TurnsError =>
  new TurnsError("INVALID_OPTION", {
    problem: `For thread ${JSON.stringify(threadId)} the option "mapThreadId" returned ${describe(found)}.`,
    remedy: `Nothing was imported. Return ${ID_RULE}; the thread's own to keep it.`,
    data: { threadId },
  });

/** The tables of the official savers hold ids that ours refuses. */
export const refusedId = (threadId: string): TurnsError =>
  new TurnsError("INVALID_OPTION", {
    problem: `The source has a thread whose id is ${describe(threadId)}, which can't be the id of a thread of the target.`,
    remedy: `Nothing was imported. Give it another id with the option mapThreadId, which returns ${ID_RULE}, or name the other threads with the option threads.`,
    data: { threadId },
  });

export const sharedTargetId = (first: string, second: string, targetId: string): TurnsError =>
  new TurnsError("INVALID_OPTION", {
    problem: `The option "mapThreadId" returned ${JSON.stringify(targetId)} for both ${JSON.stringify(first)} and ${JSON.stringify(second)}.`,
    remedy: "Nothing was imported. Return different ids, or leave one of them out with the option threads.",
    data: { threadIds: [first, second], targetId },
  });

export const notSaved = (threadId: string, cause: unknown): TurnsError =>
  new TurnsError("STORE_FAILED", {
    problem: `A checkpoint of thread ${JSON.stringify(threadId)} couldn't be imported, on a saver with onCheckpointError: "continue".`,
    remedy: "See the cause, then import again.",
    data: { threadId },
    cause,
  });

export const aborted = (cause: unknown): TurnsError =>
  new TurnsError("IMPORT_ABORTED", {
    problem: "The import was aborted by its signal.",
    remedy: "Threads that were reported are whole. Import again to continue with the others.",
    cause,
  });
