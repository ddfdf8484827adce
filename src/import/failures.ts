import { describe, TurnsError } from "../errors";
import { ID_RULE } from "../system";
import type { OfficialKey } from "../store/official-source";

/** Why a checkpoint of the source cannot be brought over; nothing has been written when it is thrown. */
export const unreadable = (threadId: string, { ns, checkpointId }: OfficialKey, found: string, cause?: unknown): TurnsError =>
  new TurnsError("CHECKPOINT_UNREADABLE", {
    what: `checkpoint ${checkpointId} of thread ${JSON.stringify(threadId)}${ns === "" ? "" : ` in ${JSON.stringify(ns)}`}`,
    expected: "a checkpoint that the official saver can read",
    found,
    remedy: 'Nothing of the thread was written. onUnreadable: "skip" leaves such checkpoints out and lists them in the report.',
    data: { threadId, checkpointNs: ns, checkpointId, why: found },
    cause,
  });

export const mismatch = (threadId: string, { ns, checkpointId }: OfficialKey, part: string, channel?: string): TurnsError =>
  new TurnsError("IMPORT_MISMATCH", {
    what: `${part} of checkpoint ${checkpointId} of thread ${JSON.stringify(threadId)}`,
    expected: "what the official file holds",
    found: "something else in the target",
    remedy: "The thread was removed from the target again. The file was not changed; please report this.",
    data: { threadId, checkpointNs: ns, checkpointId, part, channel },
  });

export const threadExists = (threadId: string): TurnsError =>
  new TurnsError("THREAD_EXISTS", {
    what: `thread ${JSON.stringify(threadId)} of the target`,
    expected: "no thread of that id, or the beginning of the one to import",
    found: "a thread with other checkpoints",
    remedy: 'Nothing of it was changed. Delete that thread, import into another file, or pass existing: "skip".',
    data: { threadId },
  });

/** @param isNumber whether the file has the thread as the official saver stores a number */
export const unknownThread = (threadId: string, file: string, isNumber: boolean): TurnsError =>
  new TurnsError("THREAD_NOT_FOUND", {
    what: `thread ${JSON.stringify(threadId)} in option "threads"`,
    expected: `a thread of ${file}`,
    found: "no such thread",
    remedy: isNumber
      ? `Nothing was imported. The file has ${JSON.stringify(`${threadId}.0`)}, as the official saver stores a number: name that, and pass mapThreadId: (id) => id.replace(/^(-?\\d+)\\.0$/, "$1").`
      : "Nothing was imported. Leave the option out to import all threads.",
    data: { threadId, file },
  });

export const noTargetId = (threadId: string, found: unknown): TurnsError =>
  new TurnsError("INVALID_OPTION", {
    what: `what option "mapThreadId" returns for thread ${JSON.stringify(threadId)}`,
    expected: ID_RULE,
    found: describe(found),
    remedy: "Nothing was imported. Return the id that the thread shall have; its own to keep it.",
    data: { threadId },
  });

export const sharedTargetId = (first: string, second: string, targetId: string): TurnsError =>
  new TurnsError("INVALID_OPTION", {
    what: 'option "mapThreadId"',
    expected: "another id for each thread",
    found: `${JSON.stringify(targetId)} for both ${JSON.stringify(first)} and ${JSON.stringify(second)}`,
    remedy: "Nothing was imported. Return different ids, or leave one of them out with the option threads.",
    data: { threadIds: [first, second], targetId },
  });

export const notSaved = (threadId: string, cause: unknown): TurnsError =>
  new TurnsError("STORE_FAILED", {
    what: `the import of thread ${JSON.stringify(threadId)}`,
    expected: "every checkpoint to be saved",
    found: 'one that was not, on a saver with onCheckpointError: "continue"',
    remedy: "See the cause, then import again.",
    data: { threadId },
    cause,
  });

export const aborted = (cause: unknown): TurnsError =>
  new TurnsError("IMPORT_ABORTED", {
    what: "the import",
    expected: "to run to its end",
    found: "that its signal was aborted",
    remedy: "Threads that were reported are whole. Import again to go on with the others.",
    cause,
  });
