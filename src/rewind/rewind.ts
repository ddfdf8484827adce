import { describe, TurnsError } from "../errors";
import type { RewindCounts, RunRow, Store } from "../store/store";
import { checkedRequest, planRewind, refuseWhileRunning, type RewindPlan, type RewindReport, type RewindRequest } from "./plan";

export interface RewindParts {
  store: Store;
  createId: () => string;
  now: () => string;
  isAlive: (run: RunRow) => boolean;
}

const NOTHING: RewindCounts = { checkpoints: 0, writes: 0, turns: 0, values: 0, tasks: 0 };

/**
 * Rewinds a thread to the end of one of its tasks, in one transaction, or changes nothing at all (S1.9).
 *
 * @throws {TurnsError} INVALID_OPTION, UNKNOWN_TASK, STATE_INVARIANT_VIOLATED, THREAD_RUNNING, and what the store throws
 */
export async function rewindThread(parts: RewindParts, request: RewindRequest): Promise<RewindReport> {
  const { threadId, toTask, dryRun = false, archive: archived = true } = checkedRequest(request);
  const plan = planRewind(request, await parts.store.listTasks(threadId));
  const report = { threadId, toTask, dryRun, archived, tasks: plan.tasks };
  const alive = (runs: readonly RunRow[]): RunRow[] => runs.filter((run) => parts.isAlive(run));
  if (plan.targetSeq === Infinity || dryRun) {
    if (!dryRun) refuseWhileRunning(threadId, alive(await parts.store.listRuns(threadId)));
    const removed = plan.targetSeq === Infinity ? NOTHING : await parts.store.countBehind(threadId, plan.targetSeq);
    return { ...report, rewindId: undefined, removed };
  }
  const row = {
    id: parts.createId(),
    threadId,
    targetTaskId: toTask,
    targetSeq: plan.targetSeq,
    archived,
    createdAt: parts.now(),
  };
  const removed = await parts.store.rewind(row, (runs, intervals) => {
    refuseWhileRunning(threadId, alive(runs));
    refuseIfMoved(request, plan, planRewind(request, intervals));
  });
  return { ...report, rewindId: row.id, removed };
}

/** Brings back what a rewind removed. @throws {TurnsError} REWIND_NOT_FOUND, REWIND_CONFLICT, THREAD_RUNNING */
export async function takeBackRewind(parts: RewindParts, rewindId: string): Promise<RewindCounts> {
  return parts.store.takeBack(rewindId, parts.now(), (runs) => {
    const run = runs.find((candidate) => parts.isAlive(candidate));
    if (run !== undefined) refuseWhileRunning(run.threadId, [run]);
  });
}

/** Between planning and the transaction another process may have added to the thread. */
function refuseIfMoved(request: RewindRequest, planned: RewindPlan, found: RewindPlan): void {
  if (planned.targetSeq === found.targetSeq && planned.tasks.length === found.tasks.length) return;
  throw new TurnsError("STATE_INVARIANT_VIOLATED", {
    what: `rewind of thread ${describe(request.threadId)}`,
    expected: "the thread as it was when the rewind was planned",
    found: "tasks that were added or removed meanwhile",
    remedy: "Look at the thread and rewind again. Nothing was deleted.",
    data: { threadId: request.threadId, toTask: request.toTask },
  });
}
