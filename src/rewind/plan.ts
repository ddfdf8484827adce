import { describe, TurnsError } from "../errors";
import { taskSpans, type TaskSpan } from "../store/ownership";
import type { RewindCounts, RunRow, TaskRow } from "../store/store";

export interface RewindRequest {
  threadId: string;
  /** The task to go back to: it stays as it was when it ended, all behind it goes. */
  toTask: string;
  /** The caller's own ordered list of tasks; given, the rewind is refused where the stored order contradicts it. */
  tasks?: readonly string[];
  /** Only tell what would go. */
  dryRun?: boolean;
  /** Keep what goes, so that the rewind can be looked at and taken back. Default true. */
  archive?: boolean;
}

export interface RewindReport {
  /** Undefined for a dry run, and if there was nothing behind the target. */
  rewindId: string | undefined;
  threadId: string;
  toTask: string;
  dryRun: boolean;
  archived: boolean;
  /** Tasks that go, wholly or in part (one that went on again behind the target), in the order in which they began there. */
  tasks: readonly string[];
  /** Rows that go, by kind. */
  removed: RewindCounts;
}

export interface RewindPlan {
  /** All with a greater seq goes. Infinity: the target is the newest task. */
  targetSeq: number;
  tasks: readonly string[];
}

/**
 * Finds the point behind which everything goes: the end of the target task, which is where the next task began.
 *
 * @throws {TurnsError} UNKNOWN_TASK, STATE_INVARIANT_VIOLATED if the caller's list contradicts the stored order
 */
export function planRewind(request: RewindRequest, intervals: readonly TaskRow[]): RewindPlan {
  const spans = taskSpans(intervals);
  const target = spans.find((span) => span.taskId === request.toTask);
  if (target === undefined) throw unknownTask(request, `one of ${spans.length} tasks of the thread`, spans);
  const goes = [...new Set(intervals.filter((interval) => interval.seq > target.endSeq).map((interval) => interval.taskId))];
  if (request.tasks !== undefined) checkAgainstList(request, request.tasks, goes);
  return { targetSeq: target.endSeq, tasks: goes };
}

function checkAgainstList(request: RewindRequest, listed: readonly string[], goes: readonly string[]): void {
  const position = listed.lastIndexOf(request.toTask);
  if (position === -1) throw unknownTask(request, `one of the ${listed.length} tasks in the list`, []);
  const keeps = new Set(listed.slice(0, position));
  const wrong = goes.find((taskId) => keeps.has(taskId));
  if (wrong === undefined) return;
  throw new TurnsError("STATE_INVARIANT_VIOLATED", {
    what: `rewind of thread ${describe(request.threadId)} to task ${describe(request.toTask)}`,
    expected: `task ${describe(wrong)} before the target, as in the list of tasks`,
    found: "it ran after the target",
    remedy: "Pass the tasks in the order in which they ran, or leave the list out. Nothing was deleted.",
    data: { threadId: request.threadId, toTask: request.toTask, task: wrong },
  });
}

function unknownTask(request: RewindRequest, expected: string, spans: readonly TaskSpan[]): TurnsError {
  return new TurnsError("UNKNOWN_TASK", {
    what: `rewind of thread ${describe(request.threadId)} to task ${describe(request.toTask)}`,
    expected,
    found: "a task that is not among them",
    remedy: "saver.listTasks(threadId) shows which there are. Nothing was deleted.",
    data: { threadId: request.threadId, toTask: request.toTask, tasks: spans.map((span) => span.taskId) },
  });
}

/** @throws {TurnsError} THREAD_RUNNING */
export function refuseWhileRunning(threadId: string, alive: readonly RunRow[]): void {
  const run = alive[0];
  if (run === undefined) return;
  throw new TurnsError("THREAD_RUNNING", {
    what: `thread ${describe(threadId)}`,
    expected: "no run on it",
    found: `a run in process ${run.pid} on ${run.host}, started ${run.startedAt}`,
    remedy: "Wait for the run to end, or stop it, and try again. Nothing was changed.",
    data: { threadId, pid: run.pid, host: run.host, startedAt: run.startedAt },
  });
}
