import { TurnsError } from "../errors";

export function unknownThread(threadId: string): TurnsError {
  return new TurnsError("THREAD_NOT_FOUND", {
    what: `thread ${JSON.stringify(threadId)}`,
    expected: "a thread of this database",
    found: "no such thread",
    remedy: "saver.listThreads() shows which there are.",
    data: { threadId },
  });
}
