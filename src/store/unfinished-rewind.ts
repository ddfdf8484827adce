import { describe, TurnsError } from "../errors";
import type { RewindRow } from "./store";

/** @param what cannot be done before that rewind is finished, or given up */
export function unfinishedRewind(rewind: RewindRow, what: string): TurnsError {
  const { id: rewindId, threadId, targetTaskId: toTask } = rewind;
  return new TurnsError("REWIND_UNFINISHED", {
    what,
    expected: "no rewind of it that was begun and not finished",
    found: `one to task ${describe(toTask)} (${rewindId}), begun at ${rewind.createdAt}`,
    remedy: `Call the same rewind again, or saver.finishRewind, which goes on where it was; or give it up with saver.abandonRewind(${JSON.stringify(rewindId)}). Nothing was changed.`,
    data: { threadId, rewindId, toTask, targetSeq: rewind.targetSeq, reason: rewind.reason },
  });
}
