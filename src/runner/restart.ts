import { emptyCheckpoint } from "@langchain/langgraph-checkpoint";
import type { TurnSaver } from "../saver";
import { isUnreadable } from "./assess";

/** How LangGraph is called. */
export interface Start {
  input: unknown;
  /** The checkpoint to go on from, if it is not the newest one. */
  checkpointId: string | undefined;
}

/**
 * Begins a run anew, as a new branch of the thread's history: nothing is deleted, and the old branch can still be read by the ids of its
 * checkpoints.
 *
 * @param inputId the checkpoint that brought the run's input, from which LangGraph runs on without regard to what was done since
 * @param input another input instead; it goes to the state before the run, or to an empty one if that cannot be read
 * @returns undefined if neither is there
 */
export async function restarted(
  saver: TurnSaver,
  threadId: string,
  inputId: string | undefined,
  input: unknown,
): Promise<Start | undefined> {
  const begun = await readable(saver, threadId, inputId);
  if (input === undefined || input === null) {
    return begun === undefined ? undefined : { input: null, checkpointId: inputId };
  }
  const before = begun?.parentConfig?.configurable?.["checkpoint_id"] as string | undefined;
  if (before !== undefined && (await readable(saver, threadId, before)) !== undefined) return { input, checkpointId: before };
  await saver.put(
    { configurable: { thread_id: threadId, checkpoint_ns: "" } },
    emptyCheckpoint(),
    { source: "fork", step: -2, parents: {} },
    {},
  );
  return { input, checkpointId: undefined };
}

async function readable(saver: TurnSaver, threadId: string, checkpointId: string | undefined): ReturnType<TurnSaver["getTuple"]> {
  if (checkpointId === undefined) return undefined;
  try {
    return await saver.getTuple({ configurable: { thread_id: threadId, checkpoint_ns: "", checkpoint_id: checkpointId } });
  } catch (error) {
    if (!isUnreadable(error)) throw error;
    return undefined;
  }
}
