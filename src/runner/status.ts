import type { GraphDifference } from "../guards/compare";
import type { Effect } from "../effects/types";
import { assess, type AssessParts } from "./assess";
import type { NodeOutcome, RunNodes } from "./run-nodes";

/** How a thread stands (S4.1), for whoever wants to repair it from outside. */
export interface ThreadStatus extends RunNodes {
  threadId: string;
  graphId: string | undefined;
  /** The user's task that the last run belongs to. */
  taskId: string | undefined;
  /** Whether some live process is running it. */
  running: boolean;
  /** Whether nothing is left to do. */
  finished: boolean;
  /** Nodes that come next or wait for an answer, as LangGraph sees it. */
  next: readonly string[];
  /** Whether `resume` would go on where the run stopped. */
  resumable: boolean;
  /** Why not; the codes are those of the errors in docs/errors.md, and `FINISHED`. */
  reason: { code: string; message: string } | undefined;
  /** What of the graph is not what it was. */
  drift: { changes: readonly string[]; report: GraphDifference } | undefined;
  /** Effects that somebody has to settle, unless they are retried or probed by themselves. */
  inDoubt: readonly Effect[];
}

export type { NodeOutcome };

export async function statusOf(parts: AssessParts, threadId: string): Promise<ThreadStatus> {
  const { saver } = parts;
  const [task] = (await saver.listTasks(threadId)).slice(-1);
  const running = await saver.isRunning(threadId);
  const { nodes, unfinished, difference, drift, obstacle } = await assess(parts, threadId);
  const unfinishedRewind = await saver.unfinishedRewind(threadId);
  const isEmpty = task === undefined && obstacle?.code === "NOTHING_TO_RESUME";
  const isBusy = nodes.failed.length + nodes.inFlight.length + nodes.waiting.length > 0;
  const finished = !isEmpty && obstacle === undefined && unfinished === undefined && !isBusy;
  const reason = reasonOf({ running, finished, obstacle, rewind: unfinishedRewind?.id });
  return {
    threadId,
    graphId: task?.graphId,
    taskId: task?.taskId,
    running,
    finished,
    ...nodes,
    next: unfinished?.nodes ?? [],
    resumable: reason === undefined,
    reason,
    drift: difference === undefined ? undefined : { changes: drift, report: difference },
    inDoubt: (await saver.effects.list(threadId)).filter(
      ({ status, undoStatus }) => status === "in-doubt" || undoStatus === "begun" || undoStatus === "failed",
    ),
  };
}

function reasonOf(found: {
  running: boolean;
  finished: boolean;
  obstacle: { code: string; message: string } | undefined;
  rewind: string | undefined;
}): ThreadStatus["reason"] {
  if (found.running) return { code: "THREAD_RUNNING", message: "a live process is running it" };
  if (found.rewind !== undefined)
    return { code: "REWIND_UNFINISHED", message: `rewind ${found.rewind} was begun and has not ended` };
  if (found.obstacle !== undefined) return { code: found.obstacle.code, message: found.obstacle.message };
  return found.finished ? { code: "FINISHED", message: "nothing is left to do" } : undefined;
}
