import { type CheckpointTuple, emptyCheckpoint } from "@langchain/langgraph-checkpoint";
import type { TurnSaver } from "../saver";
import type { AssessParts } from "./assess";
import { orUnreadable, UNREADABLE } from "./unreadable";

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
  { saver, graph }: Pick<AssessParts, "saver" | "graph">,
  threadId: string,
  inputId: string | undefined,
  input: unknown,
): Promise<Start | undefined> {
  const begun = await readable(saver, threadId, inputId);
  const isGiven = input !== undefined && input !== null;
  if (!isGiven && begun === undefined) return undefined;
  const before = begun?.parentConfig?.configurable?.["checkpoint_id"] as string | undefined;
  const from = isGiven ? await readable(saver, threadId, before) : begun;
  // LangGraph reads the newest checkpoint too, wherever it goes on from.
  if (from === undefined || !(await isReadable(saver, threadId))) await putHead({ saver, graph }, threadId, from);
  return { input: isGiven ? input : null, checkpointId: isGiven ? from && before : inputId };
}

/** A copy of a checkpoint, or an empty one, becomes the thread's newest. */
async function putHead(
  { saver, graph }: Pick<AssessParts, "saver" | "graph">,
  threadId: string,
  from: CheckpointTuple | undefined,
): Promise<void> {
  const { id, ts } = emptyCheckpoint();
  const parent = from === undefined ? {} : { checkpoint_id: from.checkpoint.id };
  await saver.put(
    { configurable: { thread_id: threadId, checkpoint_ns: "", ...parent }, callbacks: graph.config?.callbacks },
    from === undefined ? { ...emptyCheckpoint(), id, ts } : { ...from.checkpoint, id, ts },
    { ...from?.metadata, source: "fork", step: from?.metadata?.step ?? -2, parents: {} },
    {},
  );
}

async function isReadable(saver: TurnSaver, threadId: string): Promise<boolean> {
  return (await orUnreadable(() => saver.getTuple({ configurable: { thread_id: threadId, checkpoint_ns: "" } }))) !== UNREADABLE;
}

async function readable(
  saver: TurnSaver,
  threadId: string,
  checkpointId: string | undefined,
): Promise<CheckpointTuple | undefined> {
  if (checkpointId === undefined) return undefined;
  const config = { configurable: { thread_id: threadId, checkpoint_ns: "", checkpoint_id: checkpointId } };
  const found = await orUnreadable(() => saver.getTuple(config));
  return found === UNREADABLE ? undefined : found;
}
