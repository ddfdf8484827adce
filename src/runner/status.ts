import type { GraphDifference } from "../guards/compare";
import type { Effect } from "../effects/types";
import type { TurnSaver } from "../saver";
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
  /** What speaks against going on (`changes`, in words), and all that differs; undefined if the graph of the run is not known. */
  drift: { changes: readonly string[]; report: GraphDifference } | undefined;
  /** Effects of the last run that somebody has to settle, unless they are retried or probed by themselves. */
  inDoubt: readonly Effect[];
}

export type { NodeOutcome };

export async function statusOf(parts: AssessParts, threadId: string): Promise<ThreadStatus> {
  const { saver } = parts;
  const running = await saver.turns.isRunning(threadId);
  const { nodes, run, unfinished, difference, drift, obstacle } = await assess(parts, threadId);
  const rewind = await saver.rewinds.unfinished(threadId);
  const finished = !running && obstacle === undefined && unfinished === undefined;
  const stops = running
    ? { code: "THREAD_RUNNING", message: "a live process is running it" }
    : rewind !== undefined
      ? { code: "REWIND_UNFINISHED", message: `rewind ${rewind.id} was begun and has not ended` }
      : obstacle && { code: obstacle.code, message: obstacle.message };
  const reason = stops ?? (finished ? { code: "FINISHED", message: "nothing is left to do" } : undefined);
  return {
    threadId,
    graphId: run?.graphId,
    taskId: run?.taskId,
    running,
    finished,
    ...nodes,
    next: unfinished?.nodes ?? [],
    resumable: reason === undefined,
    reason,
    drift: difference === undefined ? undefined : { changes: drift, report: difference },
    inDoubt: run === undefined ? [] : await inDoubt(saver, threadId, Math.min(run.sinceSeq - 1, rewind?.targetSeq ?? Infinity)),
  };
}

async function inDoubt(saver: TurnSaver, threadId: string, afterSeq: number): Promise<Effect[]> {
  return (await saver.effects.list(threadId, { after: Math.max(0, afterSeq) })).filter(
    ({ status, undoStatus }) => status === "in-doubt" || undoStatus === "begun" || undoStatus === "failed",
  );
}
