import { describe, TurnsError } from "../errors";
import { SALVAGED } from "./salvage";
import type { RewindRow } from "./store";

/** @param what cannot be done before that rewind is finished, or given up */
export function unfinishedRewind(rewind: RewindRow, what: string): TurnsError {
  const { id: rewindId, threadId, targetTaskId: toTask } = rewind;
  if (rewind.reason?.startsWith(SALVAGED) === true) return salvaged(rewind, what);
  return new TurnsError("REWIND_UNFINISHED", {
    what,
    expected: "no rewind of it that was begun and not finished",
    found: `one to task ${describe(toTask)} (${rewindId}), begun at ${rewind.createdAt}`,
    remedy: `Call the same rewind again, or saver.finishRewind, which goes on where it was; or give it up with saver.abandonRewind(${JSON.stringify(rewindId)}). Nothing was changed.`,
    data: { threadId, rewindId, toTask, targetSeq: rewind.targetSeq, reason: rewind.reason },
  });
}

/** Not a rewind, but what a salvage leaves behind where something is missing that had been done. */
function salvaged({ id: rewindId, threadId, targetTaskId: toTask, targetSeq, reason = "" }: RewindRow, what: string): TurnsError {
  return new TurnsError("REWIND_UNFINISHED", {
    what,
    expected: "a thread that is whole",
    found: `one that was rescued from a damaged file, where ${reason.slice(SALVAGED.length)}`,
    remedy: `What had been done there may be done again. If that is right, saver.abandonRewind(${JSON.stringify(rewindId)}) lets the thread go on with what is there.`,
    data: { threadId, rewindId, toTask, targetSeq, reason },
  });
}
