import type { TaskClaim, TaskRow } from "./store";

/** What a commit does to the thread's list of task intervals, before its own row takes the next seq. */
export type OwnershipChange =
  | { type: "none" }
  | { type: "rename"; taskId: string }
  | { type: "open"; taskId: string; graphId: string; kind: TaskRow["kind"] };

/**
 * Decides which of the user's tasks a commit belongs to (design, *task*): each new input starts a task, a resume continues the one
 * it resumes, an `updateState` between runs is a task of its own so that a rewind to the task before it is exact. A task's rows are
 * those of its intervals; that is why ownership is a matter of *when*, and no row but a turn carries a task id.
 *
 * @param current the interval that is open now
 * @param lastRun the newest interval of kind `run`: what a resume after an `updateState` goes back to
 */
export function ownershipChange(
  current: TaskRow | undefined,
  lastRun: TaskRow | undefined,
  claim: TaskClaim,
  threadId: string,
): OwnershipChange {
  const graphId = claim.graphId ?? current?.graphId ?? threadId;
  const open = (taskId: string, kind: TaskRow["kind"]): OwnershipChange => ({ type: "open", taskId, graphId, kind });
  const kind = claim.kind === "update" ? "update" : "run";

  if (current !== undefined && current.graphId !== graphId && claim.kind === "resume") {
    return open(claim.taskId ?? current.taskId, kind);
  }
  if (claim.taskId !== undefined) {
    const continues = current?.taskId === claim.taskId && (current.kind === kind || kind === "update");
    return continues ? { type: "none" } : open(claim.taskId, kind);
  }
  if (current === undefined) return open(claim.name, kind);
  if (claim.kind === "resume") {
    return current.kind === "update" && lastRun !== undefined ? open(lastRun.taskId, "run") : { type: "none" };
  }
  if (claim.provisional !== undefined && current.taskId === claim.provisional) {
    return claim.name === current.taskId ? { type: "none" } : { type: "rename", taskId: claim.name };
  }
  return open(claim.name, kind);
}

/** A task as a person sees it: all its intervals together. */
export interface TaskSpan {
  taskId: string;
  graphId: string;
  firstSeq: number;
  /** The last seq that can be the task's: the one before the next interval begins. Infinity while it is the newest. */
  endSeq: number;
  createdAt: string;
}

/** Folds intervals (seq ascending) into tasks, in the order in which they last ended. */
export function taskSpans(intervals: readonly TaskRow[]): TaskSpan[] {
  const spans = new Map<string, TaskSpan>();
  intervals.forEach((interval, index) => {
    const endSeq = (intervals[index + 1]?.seq ?? Infinity) - 1;
    const known = spans.get(interval.taskId);
    if (known !== undefined) spans.delete(interval.taskId);
    spans.set(interval.taskId, {
      taskId: interval.taskId,
      graphId: interval.graphId,
      firstSeq: known?.firstSeq ?? interval.seq,
      endSeq,
      createdAt: known?.createdAt ?? interval.createdAt,
    });
  });
  return [...spans.values()];
}
