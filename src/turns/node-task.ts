import { createHash } from "node:crypto";
import { uuid5 } from "@langchain/langgraph-checkpoint";

const PUSH = "__pregel_push";
const PULL = "__pregel_pull";
const UUID_BYTES = 16;

/** What LangGraph says about a node task in the metadata of its run (internals, section 4). */
export interface NodeTaskInfo {
  name: string;
  step: number;
  triggers: readonly unknown[];
  path: readonly unknown[];
  /** `langgraph_checkpoint_ns`; its last segment ends in the task id. */
  nodeNs: string;
  nodeTaskId: string;
}

/** The part behind the last colon. Node names cannot contain one. */
export function nodeTaskIdOf(nodeNs: string): string {
  return nodeNs.slice(nodeNs.lastIndexOf(":") + 1);
}

/** The node task whose failure this one handles, undefined for all but error handlers: they run in the namespace of what failed. */
export function handledTaskOf({ path, nodeNs }: NodeTaskInfo): string | undefined {
  if (!isErrorHandler(path)) return undefined;
  const above = nodeNs.slice(0, Math.max(nodeNs.lastIndexOf("|"), 0));
  return above === "" ? undefined : nodeTaskIdOf(above);
}

/**
 * From LangGraph 1.5 on the path of an error handler is that of the task that failed, and these two behind it. Before, it had the failed
 * node's name where a Send has its index and a functional task the path of its caller.
 */
function isErrorHandler(path: readonly unknown[]): boolean {
  if (path.at(-2) === "node_error_handler" && path.at(-1) === false) return true;
  return path[0] === PUSH && typeof path[1] === "string";
}

/**
 * Tells whether a checkpoint yields this node task. LangGraph derives a task's id from the id of the checkpoint it starts from, so
 * equality is proof, and the only one there is: the node's run does not carry the checkpoint's id. Task ids of error handlers derive
 * from a task besides and cannot be recomputed.
 */
export function startsFrom(task: NodeTaskInfo, checkpointId: string): boolean {
  const known = starts.get(task);
  if (known !== undefined) return known === checkpointId;
  const isStart = nodeTaskId(task, checkpointId) === task.nodeTaskId;
  if (isStart) starts.set(task, checkpointId);
  return isStart;
}

/** Proven once, and asked for by all that a Thought goes through: to derive an id costs microseconds. */
const starts = new WeakMap<NodeTaskInfo, string>();

function nodeTaskId(task: NodeTaskInfo, checkpointId: string): string {
  const scope = task.nodeNs.slice(0, task.nodeNs.lastIndexOf(":"));
  const [kind, index, callIndex] = task.path;
  if (kind === PULL) return pullTaskId(scope, task.step, task.name, task.triggers, checkpointId);
  if (typeof index === "number") return pushTaskId(scope, task.step, task.name, index, checkpointId);
  return derive([scope, String(task.step), task.name, PUSH, index, callIndex], checkpointId);
}

/** The id of a task that a channel triggers. */
export function pullTaskId(
  scope: string,
  step: number,
  name: string,
  triggers: readonly unknown[],
  checkpointId: string,
): string {
  return derive([scope, String(step), name, PULL, triggers], checkpointId);
}

/** The id of a task that a Send asked for. */
export function pushTaskId(scope: string, step: number, name: string, index: number, checkpointId: string): string {
  return derive([scope, String(step), name, PUSH, String(index)], checkpointId);
}

/** LangGraph's `uuid5` with the checkpoint's id as namespace, in a third of the time. A checkpoint id that is no UUID may derive nothing. */
function derive(parts: readonly unknown[], checkpointId: string): string {
  const name = JSON.stringify(parts);
  const namespace = Buffer.from(checkpointId.replaceAll("-", ""), "hex");
  if (namespace.length !== UUID_BYTES) return derivedFromText(name, checkpointId);
  const bytes = createHash("sha1").update(namespace).update(name).digest();
  bytes[6] = ((bytes[6] ?? 0) & 0x0f) | 0x50;
  bytes[8] = ((bytes[8] ?? 0) & 0x3f) | 0x80;
  const hex = bytes.toString("hex");
  return `${hex.slice(0, 8)}-${hex.slice(8, 12)}-${hex.slice(12, 16)}-${hex.slice(16, 20)}-${hex.slice(20, 32)}`;
}

function derivedFromText(name: string, checkpointId: string): string {
  try {
    return uuid5(name, checkpointId);
  } catch {
    return "";
  }
}
