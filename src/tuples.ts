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
import { decode, Serialized } from "./codec";
import { describe, TurnsError } from "./errors";
import type { Address } from "./run-config";
import { corrupted } from "./store/refusals";
import { loaded, loadedRecord, type UserSerde } from "./serde";
import {
  type CheckpointHead,
  type DeltaHistory,
  type FoundAtStart,
  NOTHING_REMEMBERED,
  type ReadParts,
  type Remembered,
  type Store,
  type StoredCheckpoint,
  type StoredWrites,
  type WantedWrites,
} from "./store/store";
import { StaleMemory, type Values } from "./values";
import { withoutVisit } from "./visits";

/** LangGraph's next version of a channel. */
export type NextVersion = (current: number | undefined) => number;

/** What reading needs besides the row itself. */
export interface TupleParts {
  store: Store;
  values: Values;
  serde: UserSerde | undefined;
  nextVersion: NextVersion;
}

/** @param start what a run that starts has found, if this is its read of the newest checkpoint */
export async function readTuple(parts: TupleParts, at: Address, start?: FoundAtStart): Promise<CheckpointTuple | undefined> {
  if (parts.serde !== undefined) await parts.serde.settled();
  return freshly(parts.values, at.threadId, async (remembered) => {
    const read = start?.checkpoint(remembered) ?? parts.store.getCheckpoint(at.threadId, at.ns, at.checkpointId, remembered);
    const stored = read instanceof Promise ? await read : read;
    return stored === undefined ? undefined : toTuple(parts, stored, true, remembered);
  });
}

/** Reads a listed checkpoint; undefined if it was deleted meanwhile. */
export async function readListed(
  parts: TupleParts,
  head: CheckpointHead,
  wanted: WantedWrites = "all",
): Promise<CheckpointTuple | undefined> {
  return freshly(parts.values, head.threadId, async (remembered) => {
    const stored = await parts.store.hydrate(head, remembered, wanted);
    return stored === undefined ? undefined : toTuple(parts, stored, false, remembered);
  });
}

/** Reads listed checkpoints of one thread together, and makes each tuple when it's asked for. See {@link readListed}. */
export async function* readPage(
  parts: TupleParts,
  heads: readonly CheckpointHead[],
): AsyncGenerator<CheckpointTuple | undefined> {
  const [first] = heads;
  if (first === undefined) return;
  if (heads.length === 1) {
    yield readListed(parts, first);
    return;
  }
  const remembered = parts.values.remembered(first.threadId);
  const page = await readTogether(parts, heads, remembered);
  for (const [index, stored] of page.entries()) {
    const head = heads[index] as CheckpointHead;
    if (stored === undefined) yield undefined;
    else yield (stored === "unread" ? undefined : await remade(parts, stored, remembered)) ?? readListed(parts, head);
  }
  yield* readPage(parts, heads.slice(page.length));
}

/** Where a page can't be read as a whole, for instance within the time that the server gives a statement, each is read by itself. */
async function readTogether(parts: TupleParts, heads: readonly CheckpointHead[], remembered: Remembered) {
  try {
    return await parts.store.hydratePage(heads, remembered);
  } catch (error) {
    if (!TurnsError.is(error) || ["STORE_UNAVAILABLE", "STORE_BUSY", "STORE_CLOSED"].includes(error.code)) throw error;
    return heads.map(() => "unread" as const);
  }
}

/** Undefined if the cached values turn out to be outdated. */
async function remade(parts: TupleParts, stored: StoredCheckpoint, remembered: Remembered): Promise<CheckpointTuple | undefined> {
  try {
    return await toTuple(parts, stored, false, remembered);
  } catch (error) {
    if (error instanceof StaleMemory) return undefined;
    throw error;
  }
}

/** Reads again without the cache if the cached values turn out to be outdated (another process rewound the thread). */
export async function freshly<T>(values: Values, threadId: string, read: (remembered: Remembered) => Promise<T>): Promise<T> {
  try {
    return await read(values.remembered(threadId));
  } catch (error) {
    if (!(error instanceof StaleMemory)) throw error;
    values.forget(threadId);
    return read(NOTHING_REMEMBERED);
  }
}

/** Every call decodes again, so that no two callers share objects. */
async function toTuple(
  parts: TupleParts,
  stored: StoredCheckpoint,
  newest: boolean,
  remembered: Remembered,
): Promise<CheckpointTuple> {
  const checkpoint = checkpointOf(parts.values, stored, newest);
  if (checkpoint.v < 4 && stored.parentId !== undefined) await migratePendingSends(parts, stored, checkpoint, remembered);
  const tuple: CheckpointTuple = {
    config: configOf(stored, stored.checkpointId),
    checkpoint,
    metadata: await metadataOf(parts, stored),
    pendingWrites: await pendingWritesOf(parts, stored),
  };
  await loadedRecord(parts.serde, checkpoint.channel_values);
  if (stored.parentId !== undefined) tuple.parentConfig = configOf(stored, stored.parentId);
  return tuple;
}

export async function metadataOf({ serde }: TupleParts, head: CheckpointHead): Promise<CheckpointMetadata> {
  const metadata = await loaded(serde, decode(head.metadata));
  if (typeof metadata !== "object" || metadata === null) throw notACheckpoint(head, "metadata", "none");
  return withoutVisit(metadata as CheckpointMetadata);
}

function checkpointOf(values: Values, stored: StoredCheckpoint, newest: boolean): Checkpoint {
  const body = decode(stored.body) as Partial<Checkpoint> | null;
  if (body === null || typeof body !== "object" || typeof body.v !== "number") {
    throw notACheckpoint(stored, "a checkpoint with v", "a row without it");
  }
  const seen: unknown = body.versions_seen ?? {};
  if (typeof (body.ts ?? "") !== "string" || !isRecord(seen) || !Object.values(seen).every(isRecord)) {
    throw notACheckpoint(stored, "a checkpoint with a time and the versions that nodes have seen", "something else");
  }
  const versions: ChannelVersions = {};
  for (const [channel, { version }] of stored.channels) {
    if (version === undefined) continue;
    Object.defineProperty(versions, channel, { value: version, enumerable: true, configurable: true, writable: true });
  }
  return {
    v: body.v,
    id: stored.checkpointId,
    ts: body.ts ?? "",
    channel_values: values.values(stored, stored, newest),
    channel_versions: versions,
    versions_seen: body.versions_seen ?? {},
  };
}

/** Before format 4, pending Sends were writes of the parent. Newer LangGraph expects them in a channel. */
async function migratePendingSends(
  parts: TupleParts,
  stored: StoredCheckpoint,
  checkpoint: Checkpoint,
  remembered: Remembered,
): Promise<void> {
  const { store, nextVersion } = parts;
  const parent = await store.getCheckpoint(stored.threadId, stored.ns, stored.parentId, remembered);
  const writes = parent === undefined ? [] : await pendingWritesOf(parts, parent);
  const sends = writes.filter(([, channel]) => channel === TASKS);
  checkpoint.channel_values[TASKS] = Array.from(sends, ([, , value]) => value);
  const versions: ChannelVersions = checkpoint.channel_versions;
  const known = Object.values(versions);
  versions[TASKS] = known.length > 0 ? maxChannelVersion(...known) : nextVersion(undefined);
}

export async function deltaHistoryOf(
  parts: TupleParts,
  at: Address,
  channels: readonly string[],
): Promise<Record<string, DeltaChannelHistory>> {
  if (channels.length === 0) return {};
  const { store, values } = parts;
  if (parts.serde !== undefined) await parts.serde.settled();
  return freshly(values, at.threadId, async (remembered) => {
    const newest = at.checkpointId ?? (await store.getCheckpoint(at.threadId, at.ns, undefined, remembered))?.checkpointId;
    const history = newest === undefined ? undefined : await store.deltaHistory(at.threadId, at.ns, newest, channels, remembered);
    const result: Record<string, DeltaChannelHistory> = {};
    for (const channel of channels) {
      if (history === undefined) result[channel] = { writes: [] };
      else result[channel] = await channelHistory(parts, at, channel, history);
    }
    return result;
  });
}

async function channelHistory(
  { values, serde }: TupleParts,
  at: Address,
  channel: string,
  history: DeltaHistory,
): Promise<DeltaChannelHistory> {
  const written = history.writes
    .filter((write) => write.channel === channel)
    .flatMap((write) => entriesOf(values, at.threadId, write, history));
  const writes = await loadedWrites(
    serde,
    written.filter((write) => write[1] === channel),
  );
  const seed = history.seeds.get(channel);
  if (seed === undefined) return { writes };
  const seeds = { ...history, values: new Map([[channel, seed]]) };
  return { writes, seed: await loaded(serde, values.values(at, seeds, false)[channel]) };
}

/** What a node task asked, or the answers that it had got by then. */
export interface Asked {
  seq: number;
  ns: string;
  checkpointId: string;
  nodeTaskId: string;
  taskPath: string;
  channel: string;
  value: unknown;
}

/** {@link Store.asked}, decoded. */
export async function readAsked({ store, values, serde }: TupleParts, threadId: string, sinceSeq: number): Promise<Asked[]> {
  if (serde !== undefined) await serde.settled();
  return freshly(values, threadId, async (remembered) => {
    const { writes, ...parts } = await store.asked(threadId, sinceSeq, remembered);
    const read = writes.map(async (write) => {
      const { seq, ns, checkpointId, taskPath } = write;
      const entries = await loadedWrites(serde, entriesOf(values, threadId, write, parts));
      return entries.map(([nodeTaskId, channel, value]) => ({ seq, ns, checkpointId, nodeTaskId, taskPath, channel, value }));
    });
    return (await Promise.all(read)).flat();
  });
}

/** In the order LangGraph asks of a saver: by task path, task id and index. */
async function pendingWritesOf({ values, serde }: TupleParts, stored: StoredCheckpoint): Promise<CheckpointPendingWrite[]> {
  return loadedWrites(
    serde,
    stored.writes.flatMap((write) => entriesOf(values, stored.threadId, write, stored)),
  );
}

async function loadedWrites(serde: UserSerde | undefined, writes: CheckpointPendingWrite[]): Promise<CheckpointPendingWrite[]> {
  for (const write of writes) if (write[2] instanceof Serialized) write[2] = await loaded(serde, write[2]);
  return writes;
}

function entriesOf(values: Values, threadId: string, write: StoredWrites, parts: ReadParts): CheckpointPendingWrite[] {
  const entries = values.decoded(threadId, write.entries, parts) as [number, string, unknown][];
  if (!Array.isArray(entries) || !entries.every((entry) => Array.isArray(entry) && typeof entry[1] === "string")) {
    throw corrupted(`pending writes of thread ${threadId}`, "a list of channels and values", "something else", { threadId });
  }
  return entries.map(([, channel, value]) => [write.nodeTaskId, channel, value]);
}

function configOf(head: CheckpointHead, checkpointId: string): RunnableConfig {
  return { configurable: { thread_id: head.threadId, checkpoint_ns: head.ns, checkpoint_id: checkpointId } };
}

function isRecord(value: unknown): value is Record<string, unknown> {
  return typeof value === "object" && value !== null;
}

function notACheckpoint(head: CheckpointHead, expected: string, found: string): TurnsError {
  const { threadId, ns, checkpointId } = head;
  return new TurnsError("STATE_INVARIANT_VIOLATED", {
    problem: `Checkpoint ${checkpointId} of thread ${describe(threadId)} isn't one of LangGraph's: ${expected} expected, ${found} found.`,
    remedy: "It was not written by LangGraph; rewind to an earlier task.",
    data: { threadId, checkpointNs: ns, checkpointId },
  });
}
