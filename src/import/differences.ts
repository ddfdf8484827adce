import { isDeepStrictEqual } from "node:util";
import { type CheckpointPendingWrite, type CheckpointTuple, WRITES_IDX_MAP } from "@langchain/langgraph-checkpoint";
import type { OfficialTuple } from "./official-tuple";

export interface Difference {
  part: string;
  channel?: string;
}

/** The first difference between a checkpoint of the source and what the target gives for it; pending writes are not looked at. */
export function differenceOf(wanted: OfficialTuple, found: CheckpointTuple): Difference | undefined {
  const values = valuesDiffer(wanted, found);
  if (values !== undefined) return { part: `the value of channel ${JSON.stringify(values)}`, channel: values };
  const { checkpoint } = found;
  const parts: [string, unknown, unknown][] = [
    ["v", wanted.checkpoint.v, checkpoint.v],
    ["ts", wanted.checkpoint.ts, checkpoint.ts],
    ["channel_versions", wanted.checkpoint.channel_versions, checkpoint.channel_versions],
    ["versions_seen", wanted.checkpoint.versions_seen, checkpoint.versions_seen],
    ["metadata", wanted.metadata, found.metadata],
    ["the parent", wanted.parentId, found.parentConfig?.configurable?.["checkpoint_id"]],
  ];
  const part = parts.find(([, left, right]) => !isDeepStrictEqual(left, right));
  return part && { part: part[0] };
}

/** The first channel whose value differs, whether the channel has a version or not. */
function valuesDiffer(wanted: OfficialTuple, found: CheckpointTuple): string | undefined {
  const { channel_values: left } = wanted.checkpoint;
  const { channel_values: right } = found.checkpoint;
  return Object.keys({ ...left, ...right }).find(
    (channel) =>
      Object.hasOwn(left, channel) !== Object.hasOwn(right, channel) || !isDeepStrictEqual(left[channel], right[channel]),
  );
}

/** Writes by task: the special ones by their kind, then the others in their order. More order is promised by no saver. */
export function byTask(writes: readonly CheckpointPendingWrite[]): Map<string, [channel: string, value: unknown][]> {
  const tasks = new Map<string, [string, unknown][]>();
  for (const [taskId, channel, value] of writes) {
    const known = tasks.get(taskId);
    if (known === undefined) tasks.set(taskId, [[channel, value]]);
    else known.push([channel, value]);
  }
  for (const own of tasks.values()) own.sort(([left], [right]) => rank(left) - rank(right));
  return tasks;
}

const rank = (channel: string): number => (Object.hasOwn(WRITES_IDX_MAP, channel) ? (WRITES_IDX_MAP[channel] ?? 0) : 0);

/** The tasks of the source whose writes the target does not have, or not all of them, or others. */
export function tasksToWrite(wanted: OfficialTuple, found: CheckpointTuple | undefined): Map<string, [string, unknown][]> {
  const present = byTask(found?.pendingWrites ?? []);
  return new Map([...byTask(wanted.writes)].filter(([taskId, writes]) => !isDeepStrictEqual(writes, present.get(taskId))));
}

/** A write of the target that the source does not have: somebody went on from this checkpoint there. */
export function writesAdded(wanted: OfficialTuple, found: CheckpointTuple): boolean {
  const known = byTask(wanted.writes);
  return (found.pendingWrites ?? []).some(
    ([taskId, channel, value]) => !known.get(taskId)?.some((write) => isDeepStrictEqual(write, [channel, value])),
  );
}

/** The first channel in which the pending writes differ. */
export function writesDiffer(wanted: OfficialTuple, found: CheckpointTuple): Difference | undefined {
  const [lacking] = tasksToWrite(wanted, found).values();
  const known = byTask(wanted.writes);
  const added = (found.pendingWrites ?? []).find(([taskId]) => !known.has(taskId));
  const channel = lacking?.[0]?.[0] ?? added?.[1];
  return channel === undefined
    ? undefined
    : { part: `the pending writes, to channel ${JSON.stringify(channel)} and others,`, channel };
}
