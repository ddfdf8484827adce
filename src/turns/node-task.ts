import { type Checkpoint, type CheckpointMetadata, TASKS, uuid5 } from "@langchain/langgraph-checkpoint";
import { nodeTaskIdOf } from "../store/namespaces";
import type { CheckpointHead, Lease, SawDeletion } from "../store/store";
import { digest } from "../system";
import type { AttachedGraph } from "./attached-graph";

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

/** A run of a graph. */
export interface GraphRun {
  runId: string;
  /** The thread its turns are saved on. */
  threadId: string;
  /** The outermost run on that thread that contains this one. */
  run: OuterRun;
  /** Whether it makes the thread count as running. */
  isMarked: boolean;
}

/** One attempt of a node task. */
export interface Attempt extends NodeTaskInfo {
  threadId: string;
  runId: string;
  graph: GraphRun;
  /** As in {@link GraphRun}. */
  run: OuterRun;
  /** What the node was called with. */
  input: unknown;
  /** The run in which its graph was called. */
  calledIn: string | undefined;
  /** Whether {@link threadId} is known to be its graph's thread: callbacks may name another one. */
  isPlaced: boolean;
  /** The attempt of the outer node task, for a node inside another node. */
  within: Attempt | undefined;
  /** Whether a later attempt has begun, which continues what this one has saved. */
  isReplaced?: true;
}

/** Work that runs on beside what continues it. */
export interface Replaced {
  /** The run of the node, or of what it has called. */
  runId: string;
  node: string | undefined;
  /** What continues it. */
  by: "attempt" | "run";
}

/** Whether an attempt was replaced, or one around it on the same thread. */
export const isInReplaced = (attempt: Attempt | undefined, threadId = attempt?.threadId): boolean =>
  replacedAround(attempt, threadId) !== undefined;

/** The outermost attempt that was replaced, of this one and those around it on the same thread. */
export function replacedAround(attempt: Attempt | undefined, threadId: string | undefined): Attempt | undefined {
  if (attempt === undefined || attempt.threadId !== threadId) return undefined;
  return replacedAround(attempt.within, threadId) ?? (attempt.isReplaced === true ? attempt : undefined);
}

export interface OuterRun {
  runId: string;
  /** The thread id that callbacks give to every part of the run, even to graphs that a node calls on other threads. */
  toldThreadId: string;
  sawDeletion: SawDeletion;
  /** The run's lease. If somebody else takes it, everything saved in the run is refused, on every thread. */
  lease: Lease | undefined;
  /** The attached graph that runs. Graphs inside it belong to it. */
  graph: AttachedGraph | undefined;
  /** Set for a run that doesn't use the recorder's saver: only its effects are in our file, nothing else of its thread. */
  elsewhere: Elsewhere | undefined;
  /** The newest attempt of each node task in it that is running or has failed, by the task's id. */
  attempts: Map<string, Attempt>;
  /** Started by leftover work of a run that had finished. A later run may be doing the same. */
  isLate: boolean;
}

/** The checkpointer a run uses instead of the recorder's saver; undefined if it uses none. */
export interface Elsewhere {
  checkpointer: unknown;
}

/** Whether one functional task or entrypoint is called by another one of the same graph, as their paths tell. */
export function isCalledBy({ path: [kind, caller] }: NodeTaskInfo, { path }: NodeTaskInfo): boolean {
  if (kind !== PUSH || !Array.isArray(caller)) return false;
  // If the caller is itself a called task, only the first three parts of its path identify it.
  const [called, calling] = [caller, path].map((one: readonly unknown[]) => JSON.stringify(one.slice(0, 3)));
  return called === calling;
}

/**
 * The node task whose failure this one handles; undefined unless it is an error handler. Error handlers run in the namespace of
 * the failed task.
 */
export function handledTaskOf({ path, nodeNs }: NodeTaskInfo): string | undefined {
  if (!isErrorHandler(path)) return undefined;
  const above = nodeNs.slice(0, Math.max(nodeNs.lastIndexOf("|"), 0));
  return above === "" ? undefined : nodeTaskIdOf(above);
}

/**
 * From LangGraph 1.5 on, an error handler's path is that of the failed task followed by these two parts. Before, it had the
 * failed node's name where a Send has its index and a functional task the path of its caller.
 */
function isErrorHandler(path: readonly unknown[]): boolean {
  if (path.at(-2) === "node_error_handler" && path.at(-1) === false) return true;
  return path[0] === PUSH && typeof path[1] === "string";
}

/**
 * Whether a node task starts from a checkpoint. LangGraph derives a task's id from the id of that checkpoint, so equal ids are
 * proof. It's the only proof: the node's run doesn't carry the checkpoint's id. Ids of error handlers also derive from a task and
 * can't be recomputed.
 */
export function startsFrom(task: NodeTaskInfo, checkpointId: string): boolean {
  const known = starts.get(task);
  if (known !== undefined) return known === checkpointId;
  const isStart = nodeTaskId(task, checkpointId) === task.nodeTaskId;
  if (isStart) starts.set(task, checkpointId);
  return isStart;
}

/** Cached, because deriving an id costs microseconds and a Thought asks several times. */
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

/** The id of a task that a Send started. */
function pushTaskId(scope: string, step: number, name: string, index: number, checkpointId: string): string {
  return derive([scope, String(step), name, PUSH, String(index)], checkpointId);
}

/**
 * LangGraph's `uuid5` with the checkpoint's id as namespace, in a third of the time. A checkpoint id that isn't a UUID may derive
 * nothing.
 */
function derive(parts: readonly unknown[], checkpointId: string): string {
  const name = JSON.stringify(parts);
  const namespace = Buffer.from(checkpointId.replaceAll("-", ""), "hex");
  if (namespace.length !== UUID_BYTES) return derivedFromText(name, checkpointId);
  const hex = digest("sha1", Buffer.concat([namespace, Buffer.from(name)]), "hex");
  const variant = ((Number.parseInt(hex.charAt(16), 16) & 0x3) | 0x8).toString(16);
  return `${hex.slice(0, 8)}-${hex.slice(8, 12)}-5${hex.slice(13, 16)}-${variant}${hex.slice(17, 20)}-${hex.slice(20, 32)}`;
}

function derivedFromText(name: string, checkpointId: string): string {
  try {
    return uuid5(name, checkpointId);
  } catch {
    return "";
  }
}

/** A node task that LangGraph will start next, according to its checkpoint. */
export interface PlannedTask {
  name: string;
  nodeNs: string;
  nodeTaskId: string;
  step: number;
  /** The channel that triggers it; undefined for a Send. */
  trigger: string | undefined;
  /** The argument of the Send that started the task. */
  input: { value: unknown } | undefined;
}

/** A checkpoint with nothing of its state but what {@link plannedTasks} reads. */
export function withoutState(head: CheckpointHead): CheckpointHead {
  const channels = [...head.channels].map(([channel, entry]) => {
    const tells = channel === TASKS || channel.startsWith("branch:to:") || channel.startsWith("join:");
    return [channel, tells ? entry : { ...entry, pointer: undefined }] as const;
  });
  return { ...head, channels: new Map(channels) };
}

/**
 * Derives the next node tasks from a checkpoint alone (internals, section 3): the fallback for a saver that isn't attached to its
 * graph. A planned task may never start. Error handlers and functional tasks aren't foreseen. If several triggers lead to one
 * node, the guess may differ from LangGraph's choice; such a Thought never gets an Action.
 */
export function plannedTasks(ns: string, checkpoint: Checkpoint, metadata: CheckpointMetadata): PlannedTask[] {
  const step = metadata.step + 1;
  const planned = new Map<string, PlannedTask>();
  const add = (name: string, id: (scope: string) => string, trigger?: string, input?: { value: unknown }): void => {
    const scope = ns === "" ? name : `${ns}|${name}`;
    const nodeTaskId = id(scope);
    if (nodeTaskId !== "") planned.set(nodeTaskId, { name, nodeNs: `${scope}:${nodeTaskId}`, nodeTaskId, step, trigger, input });
  };
  sends(checkpoint).forEach((send, index) => {
    add(send.node, (scope) => pushTaskId(scope, step, send.node, index, checkpoint.id), undefined, { value: send.args });
  });
  const pulled = new Set<string>();
  for (const channel of Object.keys(checkpoint.channel_values)) {
    const name = triggeredNode(channel);
    if (name === undefined || pulled.has(name) || !isDue(checkpoint, channel, name)) continue;
    pulled.add(name);
    add(name, (scope) => pullTaskId(scope, step, name, [channel], checkpoint.id), channel);
  }
  return [...planned.values()];
}

function sends(checkpoint: Checkpoint): { node: string; args: unknown }[] {
  const packets = checkpoint.channel_values[TASKS];
  if (!Array.isArray(packets)) return [];
  return packets.filter(
    (packet): packet is { node: string; args: unknown } => typeof (packet as { node?: unknown } | null)?.node === "string",
  );
}

/** `branch:to:x` and `join:a+b:x` trigger x. */
function triggeredNode(channel: string): string | undefined {
  if (channel.startsWith("branch:to:")) return channel.slice("branch:to:".length);
  return channel.startsWith("join:") ? channel.slice(channel.lastIndexOf(":") + 1) : undefined;
}

function isDue(checkpoint: Checkpoint, channel: string, name: string): boolean {
  const version = checkpoint.channel_versions[channel];
  const seen = checkpoint.versions_seen?.[name]?.[channel];
  if (version === undefined || (seen !== undefined && version <= seen)) return false;
  // Deferred channels wrap their value as `[value, finished]`, and one that was used is undefined.
  const value = checkpoint.channel_values[channel];
  const deferred = Array.isArray(value) && value.length === 2 && typeof value[1] === "boolean";
  if (value === undefined || (deferred && value[1] === false)) return false;
  return !channel.startsWith("join:") || joinIsComplete(channel, deferred ? value[0] : value);
}

/** @param arrived a join's value is the list of members that have arrived */
function joinIsComplete(channel: string, arrived: unknown): boolean {
  const [, members = ""] = channel.split(":");
  return Array.isArray(arrived) && arrived.length >= members.split("+").length;
}
