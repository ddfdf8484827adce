import { TurnsError } from "../errors";

export function mismatch(threadId: string, expected: string, found: string): TurnsError {
  return new TurnsError("MOVE_MISMATCH", {
    problem: `The target doesn't hold what the source holds of thread ${JSON.stringify(threadId)}: ${expected} expected, ${found} found.`,
    remedy: "The thread was not moved, and what was written to the target is removed. Call moveThread again.",
    data: { threadId, expected, found },
  });
}

export function threadExists(threadId: string): TurnsError {
  return new TurnsError("THREAD_EXISTS", {
    problem: `The target has a thread ${JSON.stringify(threadId)} already.`,
    remedy: "Nothing was moved. Delete one of the two threads first.",
    data: { threadId },
  });
}
