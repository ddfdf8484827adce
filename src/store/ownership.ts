import type { TaskRow } from "./store";
import { type NodeTokens, prunedTokensOf, withTokens } from "./token-sums";

/** A task as a person sees it: all its intervals together. */
export interface TaskSpan {
  taskId: string;
  graphId: string;
  firstSeq: number;
  /** The last seq that can belong to the task: the one before the next interval begins. Infinity for the newest task. */
  endSeq: number;
  createdAt: string;
  /** The tokens of its turns that were pruned since, by node; absent if there are none. */
  prunedTokens?: readonly NodeTokens[];
}

/** Groups intervals (seq ascending) into tasks, ordered by the end of their last interval. */
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
