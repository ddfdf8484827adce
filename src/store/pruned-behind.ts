import { TurnsError } from "../errors";

/** Of a rewind to a point whose checkpoints a prune has removed. */
export function prunedBehind(threadId: string): TurnsError {
  return new TurnsError("CHECKPOINT_NOT_FOUND", {
    what: `rewinding thread ${JSON.stringify(threadId)}`,
    expected: "a task whose checkpoints are still there",
    found: "one whose checkpoints were pruned",
    remedy: "Rewind to a later task. Nothing was deleted.",
    data: { threadId },
  });
}
