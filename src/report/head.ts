import { type CheckpointTuple, WRITES_IDX_MAP } from "@langchain/langgraph-checkpoint";
import { plannedTasks } from "../turns/node-task";

/** Where a thread stands. */
export interface Head {
  checkpointId: string | undefined;
  /** Whether it is what an `updateState` made. */
  isUpdate: boolean;
  /** Nodes at the top of the graph that come next, as far as a checkpoint alone tells; those among them that have run are not left out. */
  planned: readonly string[];
  /** Something comes next, or has been written that no checkpoint has taken up. */
  isUnfinished: boolean;
}

export function headOf(tuple: CheckpointTuple | undefined): Head {
  if (tuple === undefined) return { checkpointId: undefined, isUpdate: false, planned: [], isUnfinished: false };
  const { checkpoint, metadata, pendingWrites } = tuple;
  const source = metadata?.source;
  const planned = metadata === undefined ? [] : plannedTasks("", checkpoint, metadata).map((task) => task.name);
  const written = (pendingWrites ?? []).some(([, channel]) => !Object.hasOwn(WRITES_IDX_MAP, channel));
  return {
    checkpointId: checkpoint.id,
    isUpdate: source === "update",
    planned: [...new Set(planned)],
    isUnfinished: source === "input" || planned.length > 0 || written,
  };
}
