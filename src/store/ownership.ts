import type { TaskRow } from "./store";
import { type NodeTokens, prunedTokensOf, withTokens } from "./token-sums";

/** A task as a person sees it: all its intervals together. */
export interface TaskSpan {
  taskId: string;
  graphId: string;
  firstSeq: number;
  /** The last seq that can be the task's: the one before the next interval begins. Infinity while it is the newest. */
  endSeq: number;
  createdAt: string;
  /** What its turns used that were pruned since, by node; absent if none were. */
  prunedTokens?: readonly NodeTokens[];
}

/** Folds intervals (seq ascending) into tasks, in the order in which they last ended. */
export function taskSpans(intervals: readonly TaskRow[]): TaskSpan[] {
  const spans = new Map<string, TaskSpan>();
  intervals.forEach((interval, index) => {
    const endSeq = (intervals[index + 1]?.seq ?? Infinity) - 1;
    const known = spans.get(interval.taskId);
    if (known !== undefined) spans.delete(interval.taskId);
    const prunedTokens = withTokens(known?.prunedTokens ?? [], prunedTokensOf(interval));
    spans.set(interval.taskId, {
      taskId: interval.taskId,
      graphId: interval.graphId,
      firstSeq: known?.firstSeq ?? interval.seq,
      endSeq,
      createdAt: known?.createdAt ?? interval.createdAt,
      ...(prunedTokens.length > 0 && { prunedTokens }),
    });
  });
  return [...spans.values()];
}
