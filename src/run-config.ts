import type { RunnableConfig } from "@langchain/core/runnables";
import { getCheckpointId } from "@langchain/langgraph-checkpoint";
import { describe, TurnsError } from "./errors";
import { ID_RULE, isId } from "./ids";

/** The parts of `config.configurable` that address a checkpoint, checked. */
export interface Address {
  threadId: string;
  ns: string;
  /** Undefined: the newest of the namespace. */
  checkpointId: string | undefined;
}

/** What a caller says about the task a run belongs to. */
export interface TaskNames {
  taskId: string | undefined;
  graphId: string | undefined;
}

/** Empty if the config has none. @throws {TurnsError} INVALID_CONFIG for what is no config */
export function configurableOf(config: RunnableConfig, doing: string): Record<string, unknown> {
  if (typeof config === "object" && config !== null) return (config.configurable ?? {}) as Record<string, unknown>;
  throw new TurnsError("INVALID_CONFIG", {
    what: `the config, needed for ${doing}`,
    expected: "an object",
    found: describe(config),
    remedy: `Pass e.g. { configurable: { thread_id: "my-thread" } }. Nothing was changed.`,
    data: { key: "config" },
  });
}

/** @throws {TurnsError} INVALID_CONFIG */
export function addressOf(config: RunnableConfig, doing: string): Address {
  const configurable = configurableOf(config, doing);
  return {
    threadId: checkedId(configurable["thread_id"], "thread_id", doing),
    ns: namespaceOf(configurable["checkpoint_ns"], doing) ?? "",
    checkpointId: checkpointIdOf(config, doing),
  };
}

/** `undefined` and `null` mean every namespace to `list`, the root elsewhere. */
export function namespaceOf(value: unknown, doing: string): string | undefined {
  if (value === undefined || value === null) return undefined;
  return value === "" ? "" : checkedId(value, "checkpoint_ns", doing);
}

export function checkpointIdOf(config: RunnableConfig, doing: string): string | undefined {
  const id: unknown = getCheckpointId(config);
  return id === "" ? undefined : checkedId(id, "checkpoint_id", doing);
}

export function taskNamesOf(config: RunnableConfig, doing: string): TaskNames {
  const { task_id: taskId, graph_id: graphId } = (config.configurable ?? {}) as Record<string, unknown>;
  return {
    taskId: taskId === undefined || taskId === null ? undefined : checkedId(taskId, "task_id", doing),
    graphId: graphId === undefined || graphId === null ? undefined : checkedId(graphId, "graph_id", doing),
  };
}

/** @throws {TurnsError} INVALID_CONFIG unless {@link isId} */
export function checkedId(value: unknown, name: string, doing: string): string {
  if (isId(value)) return value;
  throw new TurnsError("INVALID_CONFIG", {
    what: `configurable.${name}, needed for ${doing}`,
    expected: ID_RULE,
    found: describe(value),
    remedy: `Pass it in the config, e.g. { configurable: { thread_id: "my-thread" } }. Nothing was changed.`,
    data: { key: name },
  });
}

/**
 * What LangGraph passes to `putWrites` as the task's path; older versions pass none.
 *
 * @throws {TurnsError} INVALID_CONFIG for a path that wouldn't come back from a database as it went in
 */
export function checkedTaskPath(value: unknown): string {
  if (value === undefined || value === null || value === "") return "";
  if (isId(value)) return value;
  throw new TurnsError("INVALID_CONFIG", {
    what: "taskPath, the fourth argument of putWrites",
    expected: "a string without NUL characters and lone surrogates, or nothing",
    found: describe(value),
    remedy: "Pass what LangGraph passes, or leave it out. Nothing was changed.",
    data: { key: "taskPath" },
  });
}
