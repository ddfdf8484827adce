import { isDeepStrictEqual } from "node:util";
import {
  type Checkpoint,
  type CheckpointMetadata,
  type CheckpointPendingWrite,
  type CheckpointTuple,
  maxChannelVersion,
  TASKS,
  WRITES_IDX_MAP,
} from "@langchain/langgraph-checkpoint";
import { decodeOfficial } from "../codec/official";
import { TurnsError } from "../errors";
import { isId } from "../system";
import { push } from "../push";
import type { OfficialBlob, OfficialKey, OfficialRow, OfficialSource, OfficialWrite } from "../store/official-source";
import { unreadable } from "./failures";

/** The official serde stores this for a value that `JSON.stringify` refuses, such as a bigint. The value itself is lost. */
const DESTROYED = "[unable to serialize, circular reference is too complex to analyze]";
/**
 * Fields of a checkpoint. The first six are current; the others are from older or other LangGraphs, and nothing reads them any
 * more.
 */
const FIELDS = ["v", "id", "ts", "channel_values", "channel_versions", "versions_seen", "pending_sends", "updated_channels"];

/** A checkpoint as the official saver's `getTuple` returns it. */
export interface OfficialTuple extends OfficialKey {
  parentId: string | undefined;
  checkpoint: Checkpoint;
  metadata: CheckpointMetadata;
  /** By task id, a task's own in the order of their idx. */
  writes: readonly CheckpointPendingWrite[];
}

/**
 * Reads one row the way the official saver does, but corrects two of its mistakes. Bytes among the pending writes stay as they
 * are stored (it casts them to text). A checkpoint that is its own parent (it writes those with durability "exit") has none.
 *
 * @returns undefined if there is no such row
 * @throws {TurnsError} CHECKPOINT_UNREADABLE naming the checkpoint, with the reason in `data.why`
 */
export async function officialTuple(
  source: OfficialSource,
  threadId: string,
  key: OfficialKey,
): Promise<OfficialTuple | undefined> {
  const row = await source.row(threadId, key);
  if (row === undefined) return undefined;
  const fail = (why: string, cause?: unknown): TurnsError => unreadable(threadId, key, why, cause);
  const checkpoint = checkpointOf(row, fail);
  const parentId = row.parentId === null || row.parentId === "" || row.parentId === row.checkpointId ? undefined : row.parentId;
  const metadata = valueOf("its metadata", row.type, row.metadata, fail) as CheckpointMetadata;
  if (!isRecord(metadata) || typeof metadata.source !== "string" || !Number.isInteger(metadata.step)) {
    throw fail("metadata without source and step");
  }
  const tasks = row.writes.map((write) => write.taskId);
  const ids = [row.checkpointId, parentId ?? "-", row.ns === "" ? "-" : row.ns, ...tasks];
  if (!ids.every(isId)) throw fail("an id that is empty, or has NUL characters or lone surrogates");
  const writes = row.writes.map((write) => pendingWrite(write, fail));
  if (checkpoint.v < 4 && parentId !== undefined) {
    // Before format 4, pending Sends were writes of the parent; newer LangGraph expects them in a channel.
    const sends = await source.writesTo(TASKS, threadId, parentId);
    const known = Object.values(checkpoint.channel_versions);
    checkpoint.channel_values[TASKS] = Array.from(sends, (write) => pendingWrite(write, fail)[2]);
    checkpoint.channel_versions[TASKS] = known.length > 0 ? maxChannelVersion(...known) : 1;
  }
  return { ...key, parentId, checkpoint, metadata, writes };
}

type Fail = (why: string, cause?: unknown) => TurnsError;

function checkpointOf(row: OfficialRow, fail: Fail): Checkpoint {
  const read = valueOf("the checkpoint", row.type, row.checkpoint, fail);
  if (!isRecord(read)) throw fail(`${Array.isArray(read) ? "a list" : `a ${typeof read}`} in place of a checkpoint`);
  const { v, id, ts = "", channel_values: values = {}, channel_versions: versions, versions_seen: seen = {} } = read;
  if (typeof v !== "number" || typeof ts !== "string" || !isRecord(versions) || !isRecord(values) || !isRecord(seen)) {
    throw fail("a checkpoint without v, channel_values or channel_versions");
  }
  if (id !== row.checkpointId) throw fail("a checkpoint with another id than its row");
  const more = Object.keys(read).filter((field) => !FIELDS.includes(field));
  if (more.length > 0) throw fail(`fields that no checkpoint has: ${more.join(", ")}`);
  const stored =
    row.channels &&
    Object.fromEntries(
      row.channels.map(({ channel, type, value }) => [channel, valueOf(`channel ${JSON.stringify(channel)}`, type, value, fail)]),
    );
  return { v, id, ts, channel_values: stored ?? values, channel_versions: versions, versions_seen: seen } as Checkpoint;
}

function pendingWrite(write: OfficialWrite, fail: Fail): CheckpointPendingWrite {
  const name = `its pending write to ${JSON.stringify(write.channel)}`;
  return [write.taskId, write.channel, valueOf(name, write.type, write.value, fail)];
}

function valueOf(name: string, type: string | null, data: OfficialBlob, fail: Fail): unknown {
  if (data === null) throw fail(`${name} without a value`);
  // SQLite's text has been through a decoder, which replaces what is not UTF-8.
  if (type === "bytes" && typeof data === "string") throw fail(`${name} as bytes that were stored as text`);
  let value: unknown;
  try {
    value = decodeOfficial(type ?? "json", data);
  } catch (error) {
    if (!TurnsError.is(error, "UNDECODABLE_VALUE")) throw error;
    throw fail(`${name} in a form that cannot be read`, error);
  }
  if (value === DESTROYED)
    throw fail(`${name} destroyed when it was saved: the official serde could not serialize a value in it`);
  return value;
}

function isRecord(value: unknown): value is Record<string, unknown> {
  return typeof value === "object" && value !== null && !Array.isArray(value) && !ArrayBuffer.isView(value);
}

interface Difference {
  part: string;
  channel?: string;
}

/** The first difference between a checkpoint of the source and the same one in the target. Pending writes aren't compared. */
export function differenceOf(wanted: OfficialTuple, found: CheckpointTuple): Difference | undefined {
  const { checkpoint } = found;
  const [left, right] = [wanted.checkpoint.channel_values, checkpoint.channel_values];
  const channel = Object.keys({ ...left, ...right }).find(
    (name) => Object.hasOwn(left, name) !== Object.hasOwn(right, name) || !isDeepStrictEqual(left[name], right[name]),
  );
  if (channel !== undefined) return { part: `the value of channel ${JSON.stringify(channel)}`, channel };
  const parts: [string, unknown, unknown][] = [
    ["v", wanted.checkpoint.v, checkpoint.v],
    ["ts", wanted.checkpoint.ts, checkpoint.ts],
    ["channel_versions", wanted.checkpoint.channel_versions, checkpoint.channel_versions],
    ["versions_seen", wanted.checkpoint.versions_seen, checkpoint.versions_seen],
    ["metadata", wanted.metadata, found.metadata],
    ["the parent", wanted.parentId, found.parentConfig?.configurable?.["checkpoint_id"]],
  ];
  const part = parts.find(([, ours, theirs]) => !isDeepStrictEqual(ours, theirs));
  return part && { part: part[0] };
}

/** Writes by task: the special ones by kind, then the others in their order. No saver promises more order than that. */
function byTask(writes: readonly CheckpointPendingWrite[]): Map<string, [channel: string, value: unknown][]> {
  const tasks = new Map<string, [string, unknown][]>();
  for (const [taskId, channel, value] of writes) push(tasks, taskId, [channel, value]);
  for (const own of tasks.values()) own.sort(([left], [right]) => rank(left) - rank(right));
  return tasks;
}

const rank = (channel: string): number => (Object.hasOwn(WRITES_IDX_MAP, channel) ? (WRITES_IDX_MAP[channel] ?? 0) : 0);

/** The tasks of the source whose writes are missing, incomplete or different in the target. */
export function tasksToWrite(wanted: OfficialTuple, found: CheckpointTuple | undefined): Map<string, [string, unknown][]> {
  const present = byTask(found?.pendingWrites ?? []);
  return new Map([...byTask(wanted.writes)].filter(([taskId, writes]) => !isDeepStrictEqual(writes, present.get(taskId))));
}

/** A write that the target has and the source doesn't: the thread continued from this checkpoint there. */
export function writesAdded(wanted: OfficialTuple, found: CheckpointTuple): boolean {
  const known = byTask(wanted.writes);
  return (found.pendingWrites ?? []).some(
    ([taskId, channel, value]) => !known.get(taskId)?.some((write) => isDeepStrictEqual(write, [channel, value])),
  );
}

export function writesDiffer(wanted: OfficialTuple, found: CheckpointTuple): Difference | undefined {
  const [lacking] = tasksToWrite(wanted, found).values();
  const known = byTask(wanted.writes);
  const added = (found.pendingWrites ?? []).find(([taskId]) => !known.has(taskId));
  const channel = lacking?.[0]?.[0] ?? added?.[1];
  return channel === undefined
    ? undefined
    : { part: `the pending writes, to channel ${JSON.stringify(channel)} and others,`, channel };
}
