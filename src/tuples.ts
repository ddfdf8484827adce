import {
  type ChannelVersions,
  type Checkpoint,
  type CheckpointMetadata,
  type CheckpointPendingWrite,
  type CheckpointTuple,
  type DeltaChannelHistory,
  maxChannelVersion,
  TASKS,
} from "@langchain/langgraph-checkpoint";
import type { RunnableConfig } from "@langchain/core/runnables";
import { decode } from "./codec";
import { TurnsError } from "./errors";
import type { Address } from "./run-config";
import type { CheckpointHead, Store, StoredCheckpoint, StoredWrite } from "./store/store";

/** LangGraph's next version of a channel. */
export type NextVersion = (current: number | undefined) => number;

export async function readTuple(store: Store, at: Address, nextVersion: NextVersion): Promise<CheckpointTuple | undefined> {
  const read = store.getCheckpoint(at.threadId, at.ns, at.checkpointId);
  const stored = read instanceof Promise ? await read : read;
  return stored === undefined ? undefined : toTuple(store, stored, nextVersion);
}

/** Every call decodes anew, so that no caller shares objects with another. */
export async function toTuple(store: Store, stored: StoredCheckpoint, nextVersion: NextVersion): Promise<CheckpointTuple> {
  const checkpoint = checkpointOf(stored);
  if (checkpoint.v < 4 && stored.parentId !== undefined) await migratePendingSends(store, stored, checkpoint, nextVersion);
  const tuple: CheckpointTuple = {
    config: configOf(stored, stored.checkpointId),
    checkpoint,
    metadata: metadataOf(stored),
    pendingWrites: stored.writes.map(toPendingWrite),
  };
  if (stored.parentId !== undefined) tuple.parentConfig = configOf(stored, stored.parentId);
  return tuple;
}

export function metadataOf(head: CheckpointHead): CheckpointMetadata {
  return decode(head.metadata) as CheckpointMetadata;
}

function checkpointOf(stored: StoredCheckpoint): Checkpoint {
  const body = decode(stored.body) as Partial<Omit<Checkpoint, "id" | "channel_values">> | null;
  if (body === null || typeof body !== "object" || typeof body.v !== "number" || body.channel_versions === undefined) {
    throw notACheckpoint(stored);
  }
  const values: Record<string, unknown> = {};
  for (const [channel, text] of stored.values) {
    Object.defineProperty(values, channel, { value: decode(text), enumerable: true, configurable: true, writable: true });
  }
  return {
    v: body.v,
    id: stored.checkpointId,
    ts: body.ts ?? "",
    channel_values: values,
    channel_versions: body.channel_versions,
    versions_seen: body.versions_seen ?? {},
  };
}

/** Before format 4 pending Sends were writes of the parent; newer LangGraph expects them in a channel. */
async function migratePendingSends(
  store: Store,
  stored: StoredCheckpoint,
  checkpoint: Checkpoint,
  nextVersion: NextVersion,
): Promise<void> {
  const parent = await store.getCheckpoint(stored.threadId, stored.ns, stored.parentId);
  checkpoint.channel_values[TASKS] = (parent?.writes ?? [])
    .filter((write) => write.channel === TASKS)
    .map((write) => decode(write.value));
  const versions: ChannelVersions = checkpoint.channel_versions;
  const known = Object.values(versions);
  versions[TASKS] = known.length > 0 ? maxChannelVersion(...known) : nextVersion(undefined);
}

export async function deltaHistoryOf(
  store: Store,
  at: Address,
  channels: readonly string[],
): Promise<Record<string, DeltaChannelHistory>> {
  if (channels.length === 0) return {};
  const checkpointId = at.checkpointId ?? (await store.getCheckpoint(at.threadId, at.ns, undefined))?.checkpointId;
  const history = checkpointId === undefined ? undefined : await store.deltaHistory(at.threadId, at.ns, checkpointId, channels);
  const result: Record<string, DeltaChannelHistory> = {};
  for (const channel of channels) {
    const writes = (history?.writes ?? []).filter((write) => write.channel === channel).map(toPendingWrite);
    const seed = history?.seeds.get(channel);
    result[channel] = seed === undefined ? { writes } : { writes, seed: decode(seed) };
  }
  return result;
}

function toPendingWrite(write: StoredWrite): CheckpointPendingWrite {
  return [write.nodeTaskId, write.channel, decode(write.value)];
}

function configOf(head: CheckpointHead, checkpointId: string): RunnableConfig {
  return { configurable: { thread_id: head.threadId, checkpoint_ns: head.ns, checkpoint_id: checkpointId } };
}

function notACheckpoint(stored: StoredCheckpoint): TurnsError {
  const { threadId, ns, checkpointId } = stored;
  return new TurnsError("STATE_INVARIANT_VIOLATED", {
    what: `checkpoint ${checkpointId} of thread ${threadId}`,
    expected: "a checkpoint with v and channel_versions",
    found: "a row without them",
    remedy: "It was not written by LangGraph; rewind to an earlier task.",
    data: { threadId, ns, checkpointId },
  });
}
