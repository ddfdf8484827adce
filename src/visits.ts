import type { RunnableConfig } from "@langchain/core/runnables";
import type { CheckpointMetadata } from "@langchain/langgraph-checkpoint";

/** In stored metadata only: the node task that has called the graph. */
const VISIT = "langgraph_checkpoint_turns_visit";
const visits = new WeakMap<object, string>();

/** Whether a namespace is that of a nested graph with `checkpointer: true`. Those of others have ids of node tasks. */
export function keepsItsState(ns: string): boolean {
  return ns !== "" && !ns.includes(":");
}

/** The node task that calls the graph whose config this is. */
export function visitor({ configurable }: RunnableConfig): string | undefined {
  const id: unknown = configurable?.["__pregel_task_id"];
  return typeof id === "string" ? id : undefined;
}

/**
 * The metadata to store. All visits to a graph with `checkpointer: true` share a namespace, and parallel ones save in turns. Only this
 * tells their checkpoints apart.
 */
export function withVisit(metadata: CheckpointMetadata, config: RunnableConfig, ns: string): CheckpointMetadata {
  const id = keepsItsState(ns) ? visitor(config) : undefined;
  return id === undefined ? metadata : ({ ...metadata, [VISIT]: id } as CheckpointMetadata);
}

/** The metadata as it was given, from what is stored. */
export function withoutVisit(metadata: CheckpointMetadata): CheckpointMetadata {
  if (!Object.hasOwn(metadata, VISIT)) return metadata;
  const { [VISIT]: id, ...given } = metadata as CheckpointMetadata & { [VISIT]: unknown };
  if (typeof id === "string") visits.set(given, id);
  return given;
}

/** The node task in whose visit a checkpoint was saved. @param metadata as it was read */
export function visitOf(metadata: CheckpointMetadata): string | undefined {
  return visits.get(metadata);
}
