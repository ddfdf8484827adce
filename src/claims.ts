import { isDerivedId } from "./ids";
import type { TaskNames } from "./run-config";
import type { TaskClaim, EarlyOutcome } from "./store/store";
import { type CheckpointMetadata, type PendingWrite, RESUME } from "@langchain/langgraph-checkpoint";

/** The task id under which LangGraph saves a Command's writes, and before 1.5 an input's delta writes. */
const NULL_TASK_ID = "00000000-0000-0000-0000-000000000000";
/** How the task path of each of an `updateState`'s updates begins, from LangGraph 1.5 on. */
const UPDATE_PATH = "~__interrupt__, ";
/** And that of a node's task. */
const NODE_PATHS: readonly string[] = ["~__pregel_pull, ", "~__pregel_push, "];

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
  task: { nodeTaskId: string; taskPath: string },
  writes: readonly PendingWrite[],
): TaskClaim {
  const kind = at.ns === "" ? beginningOf(at.checkpointId, task, writes) : undefined;
  if (kind === undefined) return { ...names, kind: "resume", name: at.checkpointId };
  const name = provisionalName(kind, at.checkpointId);
  return { ...names, kind, name, provisional: name };
}

function beginningOf(
  checkpointId: string,
  { nodeTaskId, taskPath }: { nodeTaskId: string; taskPath: string },
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

interface Place {
  threadId: string;
  ns: string;
  checkpointId: string;
}

/** Of so many checkpoints; those that never come are forgotten. */
const LIMIT = 64;

/**
 * How node tasks ended whose checkpoint hasn't been handed in yet. A graph that isn't attached has its Thoughts saved with the checkpoint,
 * so there is nothing yet that the Action could follow. It happens with durability "exit", and when a save takes long: LangGraph hands in a
 * checkpoint only when the one before is saved, and the nodes don't wait for it.
 */
export class EarlyOutcomes {
  readonly #known = new Map<string, EarlyOutcome[]>();

  add(at: Place, outcome: EarlyOutcome): void {
    this.#known.set(keyOf(at), [...(this.#known.get(keyOf(at)) ?? []), outcome]);
    const [oldest] = this.#known.keys();
    if (this.#known.size > LIMIT && oldest !== undefined) this.#known.delete(oldest);
  }

  /** Those at a checkpoint that is handed in now, oldest first. */
  take(at: Place): EarlyOutcome[] {
    if (this.#known.size === 0) return [];
    const known = this.#known.get(keyOf(at)) ?? [];
    this.#known.delete(keyOf(at));
    return known;
  }
}

function keyOf({ threadId, ns, checkpointId }: Place): string {
  return JSON.stringify([threadId, ns, checkpointId]);
}
