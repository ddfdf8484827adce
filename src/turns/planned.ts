import { type Checkpoint, type CheckpointMetadata, TASKS } from "@langchain/langgraph-checkpoint";
import { pullTaskId, pushTaskId } from "./node-task";

/** A node task that LangGraph will start next, by what its checkpoint says. */
export interface PlannedTask {
  name: string;
  nodeNs: string;
  nodeTaskId: string;
  step: number;
  /** The argument of the Send that asked for the task. */
  input: { value: unknown } | undefined;
}

/**
 * Derives the node tasks that come next from a checkpoint alone (internals, section 3): the fallback for a saver that is not attached
 * to its graph. Planned is not started, error handlers and functional tasks are not foreseen, and of several triggers of one node
 * the one LangGraph picks can be mistaken; such a Thought then never gets an Action.
 */
export function plannedTasks(ns: string, checkpoint: Checkpoint, metadata: CheckpointMetadata): PlannedTask[] {
  const step = metadata.step + 1;
  const planned = new Map<string, PlannedTask>();
  const add = (name: string, id: (scope: string) => string, input?: { value: unknown }): void => {
    const scope = ns === "" ? name : `${ns}|${name}`;
    const nodeTaskId = id(scope);
    if (nodeTaskId !== "") planned.set(nodeTaskId, { name, nodeNs: `${scope}:${nodeTaskId}`, nodeTaskId, step, input });
  };
  sends(checkpoint).forEach((send, index) => {
    add(send.node, (scope) => pushTaskId(scope, step, send.node, index, checkpoint.id), { value: send.args });
  });
  const pulled = new Set<string>();
  for (const channel of Object.keys(checkpoint.channel_values)) {
    const name = triggeredNode(channel);
    if (name === undefined || pulled.has(name) || !isDue(checkpoint, channel, name)) continue;
    pulled.add(name);
    add(name, (scope) => pullTaskId(scope, step, name, [channel], checkpoint.id));
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
  const seen = checkpoint.versions_seen[name]?.[channel];
  if (version === undefined || (seen !== undefined && version <= seen)) return false;
  return !channel.startsWith("join:") || joinIsComplete(channel, checkpoint.channel_values[channel]);
}

/** A join's value is the list of members that have arrived; deferred channels wrap theirs as `[value, finished]`. */
function joinIsComplete(channel: string, value: unknown): boolean {
  const [, members = ""] = channel.split(":");
  const deferred = Array.isArray(value) && value.length === 2 && typeof value[1] === "boolean";
  if (deferred && value[1] === false) return false;
  const arrived: unknown = deferred ? value[0] : value;
  return Array.isArray(arrived) && arrived.length >= members.split("+").length;
}
