import type { RunnableConfig } from "@langchain/core/runnables";
import { type CheckpointMetadata, type PendingWrite, RESUME } from "@langchain/langgraph-checkpoint";
import { type Place, type TaskNames, taskNamesOf } from "./run-config";
import type { TaskClaim } from "./store/store";
import { Recent } from "./store/thread-state";
import { isDerivedId, NULL_TASK_ID } from "./system";

const NONE: TaskNames = { taskId: undefined, graphId: undefined };

/** How many threads' task names are remembered. */
const NAMED = 10_000;

/** The task names that the newest run of each thread was given: the callbacks of its nodes don't carry them. */
export class RunNames {
  readonly #of = new Recent<string, TaskNames>(NAMED);

  of(threadId: string): TaskNames {
    return this.#of.get(threadId) ?? NONE;
  }

  /** The names a run gives hold for its thread until the next run gives others. */
  remember(config: RunnableConfig, at: Place): TaskNames {
    const told = taskNamesOf(config, "a save");
    // A graph that a node calls on another thread is at the root there, without a namespace.
    if (told.taskId !== undefined || told.graphId !== undefined) this.#of.set(at.threadId, told);
    else if (at.ns === "") this.forget(at.threadId);
    return told;
  }

  forget(threadId: string): void {
    this.#of.delete(threadId);
  }
}

/** Prefix of the task paths of an `updateState`'s updates, from LangGraph 1.5 on. */
const UPDATE_PATH = "~__interrupt__, ";
/** Prefix of the task path of a node's task. */
const PULL_PATH = "~__pregel_pull, ";
const NODE_PATHS: readonly string[] = [PULL_PATH, "~__pregel_push, "];

/** The node that a task path names. The path of a `Send` names none. */
export function nodeInPath(taskPath: string): string | undefined {
  return taskPath.startsWith(PULL_PATH) ? taskPath.slice(PULL_PATH.length) : undefined;
}

/**
 * What a checkpoint says about the user's task (design, *task*). New input and a fork each start a task, named after their
 * checkpoint. An `updateState` is a task of its own. Everything else continues the current task. Only the root namespace starts
 * tasks.
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
 * Writes that precede the checkpoint they lead to: a Command's update or goto, an input's delta writes, an `updateState`. They
 * start the task under a provisional name, so that a rewind to the previous task removes them too.
 */
export function claimOfWrites(
  names: TaskNames,
  at: { ns: string; checkpointId: string; nodeTaskId: string; taskPath: string },
  writes: readonly PendingWrite[],
): TaskClaim {
  const kind = at.ns === "" ? kindStartedBy(at, writes) : undefined;
  if (kind === undefined) return { ...names, kind: "resume", name: at.checkpointId };
  const name = provisionalName(kind, at.checkpointId);
  return { ...names, kind, name, provisional: name };
}

/** The kind of task that writes start, or undefined if they continue the current task. */
function kindStartedBy(
  { checkpointId, nodeTaskId, taskPath }: { checkpointId: string; nodeTaskId: string; taskPath: string },
  writes: readonly PendingWrite[],
): "begin" | "update" | undefined {
  if (nodeTaskId === NULL_TASK_ID) return writes.some(([channel]) => channel === RESUME) ? undefined : "begin";
  if (NODE_PATHS.some((path) => taskPath.startsWith(path))) return undefined;
  if (isDerivedId(nodeTaskId, "__input__", checkpointId)) return "begin";
  return taskPath.startsWith(UPDATE_PATH) || isDerivedId(nodeTaskId, "__interrupt__", checkpointId) ? "update" : undefined;
}

function provisionalName(kind: "begin" | "update", checkpointId: string): string {
  return `${kind === "update" ? "update" : "command"}:${checkpointId}`;
}
