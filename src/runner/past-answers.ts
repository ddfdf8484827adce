import { Command } from "@langchain/langgraph";
import { RESUME } from "@langchain/langgraph-checkpoint";
import { describe, TurnsError } from "../errors";
import { internalsOf } from "../internals";
import type { TurnSaver } from "../saver";
import { NULL_TASK_ID } from "../system";
import { askersIn, fateOf } from "./answers";
import { questionIds } from "./last-run";

interface Place {
  ns: string;
  checkpointId: string;
}

/** The checkpoint that a call names, unless it is the newest one: then nothing has happened since. */
export async function earlierCheckpoint(
  saver: TurnSaver,
  threadId: string,
  configurable: Readonly<Record<string, unknown>>,
): Promise<Place | undefined> {
  const { checkpoint_id: checkpointId, checkpoint_ns: ns = "", checkpoint_map: around = {} } = configurable;
  if (typeof checkpointId !== "string" || typeof ns !== "string") return undefined;
  const named = { ...(around as Record<string, string>), [ns]: checkpointId };
  for (const [checkpoint_ns, id] of Object.entries(named)) {
    const newest = await saver.getTuple({ configurable: { thread_id: threadId, checkpoint_ns } });
    if (newest?.checkpoint.id !== id) return { ns, checkpointId };
  }
  return undefined;
}

/**
 * An answer for the questions of an earlier checkpoint, each by its id, as LangGraph would give one without an id to later questions too.
 *
 * @param at an earlier checkpoint of the thread
 * @throws {TurnsError} UNKNOWN_INTERRUPT if the question has an answer there: LangGraph would give that one again, and drop this one
 */
export async function answerAt(
  saver: TurnSaver,
  threadId: string,
  at: Place,
  input: { resume: unknown },
): Promise<Command | { resume: unknown }> {
  const all = (await internalsOf(saver).asked(threadId, 0)).filter(
    ({ ns, checkpointId }) => ns === at.ns && checkpointId === at.checkpointId,
  );
  const isOpen = ([id, { nodeTaskId }]: [string, { nodeTaskId: string }]): boolean => {
    const answers = all.filter((write) => write.channel === RESUME && [id, NULL_TASK_ID].includes(write.nodeTaskId));
    const task = all.filter((write) => write.nodeTaskId === nodeTaskId);
    return fateOf(id, task, Math.max(0, ...answers.map(({ seq }) => seq))) === "open";
  };
  const asked = [...askersIn(all)];
  const open = asked.filter(isOpen).map(([id]) => id);
  const given = questionIds(input);
  const wrong =
    given === undefined ? (open.length === 0 ? asked.map(([id]) => id) : []) : given.filter((id) => !open.includes(id));
  if (wrong.length > 0) throw answeredThen(threadId, at.checkpointId, wrong);
  if (given !== undefined || open.length === 0) return input;
  return new Command({ ...input, resume: Object.fromEntries(open.map((id) => [id, input.resume])) });
}

function answeredThen(threadId: string, checkpointId: string, unknown: readonly string[]): TurnsError {
  return new TurnsError("UNKNOWN_INTERRUPT", {
    problem: `Checkpoint ${checkpointId} of thread ${describe(threadId)} has no open question ${unknown.map((id) => JSON.stringify(id)).join(", ")}.`,
    remedy:
      "If it was answered then, ask it again on a new branch, and answer what that asks: await runner.invoke(null, snapshot.config). Nothing was changed.",
    data: { threadId, checkpointId, waiting: [], unknown },
  });
}
