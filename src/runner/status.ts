import type { Effect } from "../effects/types";
import { internalsOf } from "../internals";
import type { KnownEffects } from "../rewind/undos";
import type { TurnSaver } from "../saver";
import { sideBySide } from "../side-by-side";
import { printing } from "../wording";
import { askersIn, openQuestions } from "./answers";
import { lastRunOf } from "./last-run";
import { assess, type Assessment, type AssessParts } from "./assess";
import { decided, type Policies, obstacleInWords } from "./restart";
import { outcomeOf } from "./run-nodes";
import { hasFailedUndo, settledBy, statusInWords, type ThreadStatus, unsettledOf, type WaitingInterrupt } from "./thread-status";

export interface StatusParts extends AssessParts {
  policies: Policies;
  known: KnownEffects;
}

export async function statusOf(parts: StatusParts, threadId: string, known?: Assessment): Promise<ThreadStatus> {
  const { saver } = parts;
  const last = known === undefined ? lastRunOf(saver, threadId) : Promise.resolve(known.run);
  const begun = saver.rewinds.unfinished(threadId);
  const [running, found, rewind, unsettled] = await sideBySide(
    () => saver.turns.isRunning(threadId),
    () => known ?? assess(parts, threadId, last),
    () => begun,
    async () => unsettledOf(saver, threadId, await last, (await begun)?.targetSeq),
  );
  const { nodes, run, unfinished, difference, drift } = found;
  const busy = running
    ? { code: "THREAD_RUNNING", message: "a live process is running it" }
    : rewind && { code: "REWIND_UNFINISHED", message: `rewind ${rewind.id} began and hasn't finished` };
  const { didEffects, ...ahead } = await aheadOf(parts, threadId, found);
  const { onResume, reason } = busy === undefined ? ahead : ({ onResume: "refuse", reason: busy } as const);
  const finished = !running && found.obstacle === undefined && unfinished === undefined;
  const { completed, failed, inFlight, tokens } = nodes;
  const hints = { didEffects, settledBy: (effect: Effect) => settledBy(effect, parts.known) };
  const status: ThreadStatus = {
    threadId,
    graphId: run?.graphId,
    taskId: run?.taskId,
    running,
    finished,
    completed,
    failed,
    inFlight,
    next: unfinished?.nodes ?? [],
    waiting: await waitingIn(saver, threadId, found),
    resumable: onResume === "continue",
    onResume,
    reason,
    drift: difference === undefined ? undefined : { changes: drift, report: difference },
    inDoubt: unsettled.filter((effect) => !hasFailedUndo(effect)),
    undoFailed: unsettled.filter(hasFailedUndo),
    tokens,
  };
  return printing(status, () => statusInWords(status, hints));
}

/** What a resume would do if nobody else were busy with the thread. */
async function aheadOf(
  { saver, policies }: StatusParts,
  threadId: string,
  found: Assessment,
): Promise<Pick<ThreadStatus, "onResume" | "reason"> & { didEffects: boolean }> {
  const { obstacle, unfinished } = found;
  const none = { didEffects: false, reason: undefined };
  if (obstacle === undefined) {
    if (unfinished !== undefined) return { ...none, onResume: "continue" };
    return { ...none, onResume: "return", reason: { code: "FINISHED", message: "nothing is left to do" } };
  }
  const { policy, effects, refusal } = await decided(saver, threadId, { ...found, obstacle }, policies);
  if (refusal !== undefined) return { ...none, onResume: "refuse", reason: { code: refusal.code, message: refusal.message } };
  const does = policy === "continue" ? "continues, although" : "starts the run again, because";
  const reason = { code: obstacle.code, message: `a resume ${does} ${obstacleInWords(found)}` };
  return { onResume: policy, reason, didEffects: effects.done.length > 0 };
}

/** The open questions, each with the innermost node that asks, if turns tell it. */
async function waitingIn(saver: TurnSaver, threadId: string, found: Assessment): Promise<WaitingInterrupt[]> {
  const questions = openQuestions(found);
  if (questions.length === 0) return [];
  const { nodes, run } = found;
  const turns = new Map(nodes.waitingTurns.map((turn) => [turn.nodeTaskId, turn]));
  const askers = askersIn(run === undefined ? [] : await internalsOf(saver).asked(threadId, run.sinceSeq));
  return questions.map(({ id, value, node, nodeTaskId }): WaitingInterrupt => {
    const turn = turns.get(askers.get(id ?? "")?.nodeTaskId ?? "");
    if (turn === undefined) return { id, value, nodeName: node, path: node, checkpointNs: "", nodeTaskId, taskId: run?.taskId };
    const { path, taskId, ...asked } = outcomeOf(turn);
    return { id, value, nodeName: asked.nodeName, path, checkpointNs: turn.checkpointNs, nodeTaskId: asked.nodeTaskId, taskId };
  });
}
