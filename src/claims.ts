import { type CheckpointMetadata, type PendingWrite, RESUME, uuid5 } from "@langchain/langgraph-checkpoint";
import type { TaskNames } from "./run-config";
import type { TaskClaim } from "./store/store";

/** The task id under which LangGraph saves a Command's writes and an input's delta writes. */
const NULL_TASK_ID = "00000000-0000-0000-0000-000000000000";

/**
 * What a checkpoint says about the user's task (design, *task*): new input and a fork begin one, named after their checkpoint; an
 * `updateState` is one of its own; all else goes on with what runs. Only the root namespace begins tasks.
 */
export function claimOfCheckpoint(
  names: TaskNames,
  at: { ns: string; checkpointId: string; parentId: string | undefined },
  source: CheckpointMetadata["source"],
): TaskClaim {
  const name = at.checkpointId;
  if (at.ns !== "" || source === "loop") return { ...names, kind: "resume", name };
  const kind = source === "update" ? "update" : "begin";
  const provisional = at.parentId === undefined ? undefined : provisionalName(kind, at.parentId);
  return { ...names, kind, name, provisional };
}

/**
 * Writes that come before the checkpoint they lead to: a Command's update or goto, an input's delta writes, an `updateState`. They
 * begin the task under a provisional name, so that a rewind to the task before them removes them too.
 */
export function claimOfWrites(
  names: TaskNames,
  at: { ns: string; checkpointId: string },
  nodeTaskId: string,
  writes: readonly PendingWrite[],
): TaskClaim {
  const kind = at.ns === "" ? beginningOf(at.checkpointId, nodeTaskId, writes) : undefined;
  if (kind === undefined) return { ...names, kind: "resume", name: at.checkpointId };
  const name = provisionalName(kind, at.checkpointId);
  return { ...names, kind, name, provisional: name };
}

function beginningOf(checkpointId: string, nodeTaskId: string, writes: readonly PendingWrite[]): "begin" | "update" | undefined {
  if (nodeTaskId === NULL_TASK_ID) return writes.some(([channel]) => channel === RESUME) ? undefined : "begin";
  return isUpdateTask(nodeTaskId, checkpointId) ? "update" : undefined;
}

/** `updateState` saves its writes on the parent under an id derived from it (`bulkUpdateState`). */
function isUpdateTask(nodeTaskId: string, checkpointId: string): boolean {
  try {
    return nodeTaskId === uuid5("__interrupt__", checkpointId);
  } catch {
    return false; // a checkpoint id that is no UUID derives nothing
  }
}

function provisionalName(kind: "begin" | "update", checkpointId: string): string {
  return `${kind === "update" ? "update" : "command"}:${checkpointId}`;
}
