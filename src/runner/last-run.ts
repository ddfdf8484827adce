import type { TurnSaver } from "../saver";
import type { LastRun } from "../store/store";
import { plannedTasks } from "../turns/node-task";
import { orUnreadable, UNREADABLE } from "./unreadable";

/**
 * The run that a thread's newest checkpoint is of. Not only input begins one: so does an update, or a fork, that makes nodes due where
 * none were. What was finished before it is another run, which a restart must not reach back to.
 */
export async function lastRunOf(saver: TurnSaver, threadId: string): Promise<LastRun | undefined> {
  const run = await saver.lastRun(threadId);
  for (const { id, parentId, seq, behind } of run?.changes ?? []) {
    // Nothing due, or nobody can tell: a mere change of what there is.
    if ((await isDue(saver, threadId, id)) !== true) continue;
    if (parentId !== undefined && (await isDue(saver, threadId, parentId)) !== false) continue;
    return { ...(run as LastRun), inputId: id, sinceSeq: seq, branch: (run as LastRun).branch.slice(0, behind) };
  }
  return run;
}

/** Whether node tasks are to come next; undefined if the checkpoint is gone, or cannot be read. */
async function isDue(saver: TurnSaver, threadId: string, checkpointId: string): Promise<boolean | undefined> {
  const config = { configurable: { thread_id: threadId, checkpoint_ns: "", checkpoint_id: checkpointId } };
  const found = await orUnreadable(() => saver.getTuple(config));
  if (found === undefined || found === UNREADABLE) return undefined;
  return plannedTasks("", found.checkpoint, found.metadata ?? { source: "loop", step: 0, parents: {} }).length > 0;
}
