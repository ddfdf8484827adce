import { inspect } from "node:util";
import type { Effect } from "../effects/types";
import type { TurnSaver } from "../saver";
import type { LastRun } from "../store/store";
import type { Turn } from "../turns/turn";
import { assess, type AssessParts } from "./assess";
import type { Question } from "./last-run";
import { outcomeOf, type RunNodes } from "./run-nodes";
import { statusInWords, type ThreadStatus, type WaitingInterrupt } from "./thread-status";

export async function statusOf(parts: AssessParts, threadId: string): Promise<ThreadStatus> {
  const { saver } = parts;
  const running = await saver.turns.isRunning(threadId);
  const { nodes, run, unfinished, difference, drift, obstacle } = await assess(parts, threadId);
  const rewind = await saver.rewinds.unfinished(threadId);
  const finished = !running && obstacle === undefined && unfinished === undefined;
  const stops = running
    ? { code: "THREAD_RUNNING", message: "a live process is running it" }
    : rewind !== undefined
      ? { code: "REWIND_UNFINISHED", message: `rewind ${rewind.id} began and hasn't finished` }
      : obstacle && { code: obstacle.code, message: obstacle.message };
  const reason = stops ?? (finished ? { code: "FINISHED", message: "nothing is left to do" } : undefined);
  const { completed, failed, inFlight, tokens } = nodes;
  return forPeople({
    threadId,
    graphId: run?.graphId,
    taskId: run?.taskId,
    running,
    finished,
    completed,
    failed,
    inFlight,
    next: unfinished?.nodes ?? [],
    waiting: await waitingIn(saver, nodes, run, unfinished?.questions ?? []),
    resumable: reason === undefined,
    reason,
    drift: difference === undefined ? undefined : { changes: drift, report: difference },
    inDoubt: run === undefined ? [] : await inDoubt(saver, threadId, Math.min(run.sinceSeq - 1, rewind?.targetSeq ?? Infinity)),
    tokens,
  });
}

/** Adds how the status prints itself, without making that part of the data. */
function forPeople(status: ThreadStatus): ThreadStatus {
  const words = (): string => statusInWords(status);
  return Object.defineProperties(status, {
    toString: { value: words },
    [inspect.custom]: { value: words },
  });
}

/** The open questions, each with the innermost node that asks, if turns tell it. */
async function waitingIn(
  saver: TurnSaver,
  { failed, inFlight, waitingTurns }: RunNodes,
  run: LastRun | undefined,
  questions: readonly Question[],
): Promise<WaitingInterrupt[]> {
  if (questions.length === 0) return [];
  const asking = new Map<string, Turn>();
  for (const turn of [...waitingTurns].sort((left, right) => left.nodeNs.length - right.nodeNs.length)) {
    for (const id of await askedIn(saver, turn)) asking.set(id, turn);
  }
  const answered = run?.answered ?? [];
  // A node that failed has its answer, and so does one that was running, if it got one.
  const isOver = ({ id, nodeTaskId }: Question): boolean =>
    (id !== undefined && answered.includes(id)) ||
    failed.some((one) => one.nodeTaskId === nodeTaskId) ||
    (answered.length > 0 && inFlight.some((one) => one.nodeTaskId === nodeTaskId));
  return questions.flatMap((question): WaitingInterrupt[] => {
    if (isOver(question)) return [];
    const { id, value, node, nodeTaskId } = question;
    const turn = id === undefined ? undefined : asking.get(id);
    if (turn === undefined) return [{ id, value, nodeName: node, path: node, checkpointNs: "", nodeTaskId, taskId: run?.taskId }];
    const { path, taskId, ...asked } = outcomeOf(turn);
    return [{ id, value, nodeName: asked.nodeName, path, checkpointNs: turn.checkpointNs, nodeTaskId: asked.nodeTaskId, taskId }];
  });
}

/** The ids of the questions that a node asked in a turn. Empty where turns are kept without content. */
async function askedIn(saver: TurnSaver, turn: Turn): Promise<string[]> {
  try {
    const { interrupts } = (await saver.turns.state(turn)) as { interrupts?: readonly { id?: string }[] };
    return (interrupts ?? []).flatMap(({ id }) => id ?? []);
  } catch {
    return [];
  }
}

async function inDoubt(saver: TurnSaver, threadId: string, afterSeq: number): Promise<Effect[]> {
  return (await saver.effects.list(threadId, { after: Math.max(0, afterSeq) })).filter(
    ({ status, undoStatus }) => status === "in-doubt" || undoStatus === "begun" || undoStatus === "failed",
  );
}
