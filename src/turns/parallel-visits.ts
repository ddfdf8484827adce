import { isDeepStrictEqual } from "node:util";
import type { RunnableConfig } from "@langchain/core/runnables";
import type { CheckpointMetadata, CheckpointTuple } from "@langchain/langgraph-checkpoint";
import { keepsItsState, visitOf, visitor } from "../visits";
import { isTimeTravel, RESUMING } from "./nested-resume";
import { plannedTasks } from "./node-task";

/** A checkpoint of the graph's namespace, without its values. */
interface Saved {
  checkpointId: string;
  parentId: string | undefined;
  metadata: CheckpointMetadata;
  /** Undefined if it's gone by now. */
  read: () => Promise<CheckpointTuple | undefined>;
}

/**
 * What a graph with `checkpointer: true` resumes from. LangGraph takes the newest checkpoint of its namespace. If several node tasks
 * have called it in one step, that one may belong to another: its work would be done twice, and this one's would be lost.
 *
 * @param config of the graph's first read. A visit that has saved nothing yet isn't told to resume
 * @param saved the checkpoints of the namespace, newest first
 * @returns the newest checkpoint of this visit; if there is none and another visit has begun, what was there before the step
 */
export async function ownCheckpoint(
  config: RunnableConfig,
  newest: CheckpointTuple,
  saved: () => AsyncIterable<Saved>,
): Promise<CheckpointTuple | undefined> {
  const { configurable = {} } = config;
  const own = visitor(config);
  if (configurable[RESUMING] !== true || own === undefined || !keepsItsState(String(configurable["checkpoint_ns"])))
    return newest;
  if (newest.metadata === undefined || visitOf(newest.metadata) === own || isTimeTravel(config)) return newest;
  const around: unknown = configurable["checkpoint_map"];
  /** Edits by hand, newest first, of a visit that isn't known yet. */
  let edits: Saved[] = [];
  let before: Saved | undefined;
  let hasOthers = false;
  for await (const one of saved()) {
    const visit = visitOf(one.metadata);
    if (visit === undefined && (one.metadata.source === "update" || one.metadata.source === "fork")) {
      edits.push(one);
      continue;
    }
    const isOfStep = isDeepStrictEqual((one.metadata as { parents?: unknown }).parents, around);
    // Of a step before, or of a graph that nobody knows the caller of.
    if (!isOfStep || visit === undefined) {
      before = one;
      break;
    }
    const chain = [...edits.filter((edit) => leadsTo(edit, one, edits)), one];
    if (visit === own) return (await (chain[0] as Saved).read()) ?? newest;
    hasOthers = true;
    edits = edits.filter((edit) => !chain.includes(edit));
  }
  // Behind a visit that is over, this one begins as one that comes later.
  if (!hasOthers || isOver(newest)) return newest;
  configurable[RESUMING] = false;
  return before?.read();
}

/** Whether an edit was made of a checkpoint, directly or by way of others. */
function leadsTo(edit: Saved, checkpoint: Saved, edits: readonly Saved[]): boolean {
  let at: Saved | undefined = edit;
  while (at !== undefined && at.parentId !== checkpoint.checkpointId) {
    const { parentId }: Saved = at;
    at = edits.find(({ checkpointId }) => checkpointId === parentId);
  }
  return at !== undefined;
}

function isOver({ checkpoint, metadata }: CheckpointTuple): boolean {
  return metadata !== undefined && metadata.source !== "input" && plannedTasks("", checkpoint, metadata).length === 0;
}
