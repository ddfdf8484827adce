import { SNAPSHOT_ROWS } from "../rows";
import { TurnsError } from "../../errors";
import { corrupted } from "../checksum";
import { ofThread } from "../spans";
import type {
  ChannelVersion,
  CheckpointHead,
  CheckpointQuery,
  EarlyOutcome,
  LastRun,
  ListedHead,
  NewCheckpoint,
  NewValue,
  PackedValue,
  Pointer,
  Remembered,
  SavedCheckpoint,
  Segment,
  StoredCheckpoint,
  StoredValue,
} from "../store";
import { ChunkReader, storeChunk, storeChunks } from "./chunks";
import { insertRow } from "./insert-row";
import { placeList, placeOf, readList } from "./lists";
import { leadsTo, type Manifest, manifestText } from "./manifest";
import { type RawSnapshot, toLiveHead } from "./snapshot-rows";
import { refuseBack } from "./paging";
import { anyOf, mapped } from "../program";
import type { Program, Sql } from "./sql";
import { runsAreSaved } from "./effect-orphans";
import { claimTask, lastRunTask } from "./tasks";
import { countedThread } from "./thread-counts";
import type { ThreadKey } from "./thread-key";
import { threadIdOf, threadKey } from "./thread-keys";
import { BY_ID, headOf, knownHead, rememberHead, savedBefore } from "./heads";
import { enterThread, isThere } from "./tombstones";
import { type SavedApart, turnApart } from "./turn-apart";
import { insertThought, settleAction } from "./turns";
import { liveWrites } from "./writes";

const LIVE = "superseded_by IS NULL";
const BY_SEQ = SNAPSHOT_ROWS.select(`WHERE seq = ? AND ${LIVE}`);
/** The newest checkpoint of a namespace is the one that was first saved last. Ids are times, and prove nothing: clocks are set. */
const LATEST = SNAPSHOT_ROWS.select("WHERE thread = ? AND checkpoint_ns = ? ORDER BY position DESC, seq DESC LIMIT 1");
/**
 * From the head back to the input it came of. CROSS JOIN keeps the order: each parent is one look-up. What was done on the grounds of a
 * checkpoint led on (`led`) to the next one, unless that is a fork; of an update only if nothing else had come of the checkpoint yet.
 * A chain of parents that is longer than the thread has no end, or a damaged index gives its links twice.
 */
const LAST_BRANCH = `WITH RECURSIVE branch(id, position, parent, source, seq, depth, next, next_seq) AS (
  SELECT * FROM (SELECT checkpoint_id, position, parent_checkpoint_id, source, seq, 0, NULL, NULL FROM langgraph_snapshots
    WHERE thread = ?1 AND checkpoint_ns = '' AND ${LIVE} ORDER BY position DESC LIMIT 1)
  UNION ALL SELECT s.checkpoint_id, s.position, s.parent_checkpoint_id, s.source, s.seq, depth + 1, branch.source, branch.seq
    FROM branch CROSS JOIN langgraph_snapshots AS s
    ON s.thread = ?1 AND s.checkpoint_ns = '' AND s.checkpoint_id = branch.parent AND s.${LIVE}
    WHERE branch.source <> 'input' LIMIT (SELECT count(*) FROM langgraph_snapshots WHERE thread = ?1 AND checkpoint_ns = ''))
  SELECT id, parent, source, seq, next IS NULL OR next = 'loop' OR (next = 'update' AND NOT EXISTS (
      SELECT 1 FROM langgraph_snapshots AS o WHERE o.thread = ?1 AND o.checkpoint_ns = '' AND o.parent_checkpoint_id = branch.id
        AND o.position > branch.position AND o.seq < next_seq)) AS led
    FROM branch ORDER BY depth`;
const SUPERSEDE =
  "UPDATE langgraph_snapshots SET superseded_by = ? WHERE thread = ? AND checkpoint_ns = ? AND checkpoint_id = ? AND superseded_by IS NULL";
const HAS_WRITES = `SELECT 1 FROM langgraph_writes
  WHERE thread = ? AND checkpoint_ns = ? AND checkpoint_id = ? AND node_task_id = ? AND superseded_by IS NULL LIMIT 1`;

export function* putCheckpoint(sql: Sql, checkpoint: NewCheckpoint): Program<SavedCheckpoint> {
  const { threadId, ns, checkpointId } = checkpoint;
  const begins = ns === "" && checkpoint.parentId === undefined;
  const key = yield* enterThread(sql, threadId, checkpoint.createdAt, {
    begins,
    *belongs(on) {
      return checkpoint.parentId === undefined
        ? yield* anyOf(Object.entries(checkpoint.above), ([outer, id]) => isThere(sql, on, outer, id))
        : yield* isThere(sql, on, ns, checkpoint.parentId);
    },
    refersTo: checkpoint.parentId ?? checkpoint.above[""],
    sawDeletion: checkpoint.sawDeletion,
    lease: checkpoint.lease,
  });
  yield* claimTask(sql, key, checkpoint.claim, checkpoint.createdAt);
  const seq = key.nextSeq();
  const { head: known, writes } = yield* savedBefore(sql, key, ns, checkpointId);
  // With durability "exit" LangGraph saves a checkpoint again with itself as parent; kept, that row would be a cycle.
  const parentId = checkpoint.parentId === checkpointId ? known?.parentId : checkpoint.parentId;
  const placed = new Map<string, readonly Segment[]>();
  const manifest = yield* manifestOf(sql, key, checkpoint, parentId, known?.channels ?? new Map(), placed);
  if (known !== undefined) yield* sql.run(SUPERSEDE, seq, key.thread, ns, checkpointId);
  yield* insertRow(sql, key, SNAPSHOT_ROWS, {
    seq,
    ns,
    checkpointId,
    position: known?.position ?? seq,
    supersededBy: undefined,
    parentId,
    source: checkpoint.source,
    step: checkpoint.step,
    runId: checkpoint.runId,
    createdAt: Date.parse(checkpoint.createdAt),
    delta: checkpoint.delta.length === 0 ? undefined : JSON.stringify(checkpoint.delta),
    body: checkpoint.body,
    channels: manifestText(manifest),
    metadata: checkpoint.metadata,
  });
  yield* runsAreSaved(sql, key, checkpoint);
  sql.heads.add(checkpoint);
  rememberHead(key, {
    ns,
    checkpointId,
    position: known?.position ?? seq,
    parentId,
    step: checkpoint.step,
    channels: manifest,
    writes,
  });
  const planned = yield* mapped(checkpoint.planned, (thought) =>
    turnApart(sql, { nodeName: thought.nodeName, turnType: "Thought" }, insertThought(sql, thought)),
  );
  const settled = yield* mapped(checkpoint.outcomes, (outcome) => settleEarly(sql, key, checkpoint, outcome));
  const lost = [...planned, ...settled].flatMap((saved) => saved?.lost ?? []);
  return { seq, generation: key.generation, placed, actions: settled.flatMap((saved) => saved?.turn ?? []), lost };
}

/** The Action of a task whose writes came before its checkpoint. @returns undefined if the writes aren't there, or are no task's */
function* settleEarly(
  sql: Sql,
  key: ThreadKey,
  { ns, checkpointId }: NewCheckpoint,
  outcome: EarlyOutcome,
): Program<SavedApart | undefined> {
  if ((yield* sql.get(HAS_WRITES, key.thread, ns, checkpointId, outcome.nodeTaskId)) === undefined) return undefined;
  return yield* settleAction(sql, key, outcome, outcome.settle);
}

/**
 * Stores the values that are new. A value is carried over if the parent, or an earlier version of the checkpoint, has the same content;
 * versions prove nothing. LangGraph applies pending writes without raising any (1.4.17), forks share versions for different values, and
 * nodes change values in place.
 */
function* manifestOf(
  sql: Sql,
  key: ThreadKey,
  checkpoint: NewCheckpoint,
  parentId: string | undefined,
  earlier: Manifest,
  placed: Map<string, readonly Segment[]>,
): Program<Manifest> {
  const parent: Manifest =
    (parentId === undefined ? undefined : yield* knownHead(sql, key, checkpoint.ns, parentId))?.channels ?? new Map();
  const pointers = new Map<string, Pointer>();
  for (const value of checkpoint.values) {
    const before = [parent, earlier].flatMap((manifest) => manifest.get(value.channel)?.pointer ?? []);
    pointers.set(value.channel, yield* pointerTo(sql, key, value, before, placed));
  }
  // LangGraph leaves a delta channel's snapshot out when it saves a checkpoint again (durability "exit"), and what it would be
  // rebuilt from isn't stored then; the same version of the same checkpoint still has the value it had.
  if (checkpoint.parentId === checkpoint.checkpointId) {
    for (const [channel, { version, pointer }] of earlier) {
      if (pointer === undefined || version === undefined || pointers.has(channel)) continue;
      if (checkpoint.versions[channel] === version) pointers.set(channel, pointer);
    }
  }
  const channels = new Set([...Object.keys(checkpoint.versions), ...pointers.keys()]);
  return new Map(
    [...channels].map((channel) => [channel, { version: versionIn(checkpoint, channel), pointer: pointers.get(channel) }]),
  );
}

function versionIn({ versions }: NewCheckpoint, channel: string): ChannelVersion | undefined {
  return Object.hasOwn(versions, channel) ? versions[channel] : undefined;
}

/** @param before what the channel holds in the parent and in the checkpoint's earlier version */
function* pointerTo(
  sql: Sql,
  key: ThreadKey,
  value: NewValue,
  before: readonly Pointer[],
  placed: Map<string, readonly Segment[]>,
): Program<Pointer> {
  const known = before.find((pointer) => pointer.kind === "whole" && pointer.address === value.address);
  if (known !== undefined) return known;
  const packed = value.packed();
  const carried = before.find((pointer) => leadsTo(pointer, packed));
  if (carried === undefined) return yield* storeValue(sql, key, value.channel, packed, before[0], placed);
  if (carried.kind === "list" && packed.kind === "list") placed.set(value.channel, yield* placeOf(sql, key, packed, carried));
  return carried;
}

function* storeValue(
  sql: Sql,
  key: ThreadKey,
  channel: string,
  packed: PackedValue,
  before: Pointer | undefined,
  placed: Map<string, readonly Segment[]>,
): Program<Pointer> {
  if (packed.kind === "inline") return { kind: "inline", text: packed.text };
  if (packed.kind === "whole") {
    yield* storeChunks(sql, key, packed.parts);
    yield* storeChunk(sql, key, packed.chunk);
    return { kind: "whole", address: packed.chunk.address };
  }
  const segments = yield* placeList(sql, key, packed, before);
  placed.set(channel, segments);
  return { kind: "list", list: segments.at(-1)?.list ?? 0, length: packed.length, digest: packed.digest };
}

export function* lastRun(sql: Sql, threadId: string): Program<LastRun | undefined> {
  const key = yield* countedThread(sql, threadId);
  if (key === undefined) return undefined;
  const task = yield* lastRunTask(sql, key);
  const branch = yield* sql.all<{ id: string; parent: string | null; source: string; seq: number; led: number }>(
    LAST_BRANCH,
    key.thread,
  );
  const damage = yield* damageOf(verifyBranch(sql, key, branch));
  const first = branch.at(-1);
  const input = first?.source === "input" ? first : undefined;
  if (task === undefined && first === undefined) return undefined;
  let behind = 0;
  const changes = branch.flatMap(({ id, parent, source, seq, led }) => {
    behind += led;
    return source === "update" || source === "fork" ? [{ id, parentId: parent ?? undefined, seq, behind }] : [];
  });
  return {
    taskId: task?.taskId,
    graphId: task?.graphId,
    inputId: input?.id,
    sinceSeq: input?.seq ?? task?.seq ?? first?.seq ?? 0,
    branch: branch.filter(({ led }) => led === 1).map(({ id }) => id),
    changes,
    damage,
  };
}

function* damageOf(verify: Program): Program<TurnsError | undefined> {
  try {
    yield* verify;
    return undefined;
  } catch (error) {
    if (TurnsError.is(error, "CHECKPOINT_CORRUPTED")) return error;
    throw error;
  }
}

/** The query goes by rows that it does not verify, and by which of them are superseded. @throws {TurnsError} CHECKPOINT_CORRUPTED */
function* verifyBranch(sql: Sql, key: ThreadKey, branch: readonly { id: string; source: string }[]): Program<void> {
  const latest = yield* sql.get<RawSnapshot>(LATEST, key.thread, "");
  const ids = new Set(branch.map(({ id }) => id));
  let head = latest && toLiveHead(sql, key.threadId, latest);
  while (head !== undefined && ids.delete(head.checkpointId)) {
    head = head.parentId === undefined ? undefined : yield* headOf(sql, key, "", head.parentId);
  }
  if (ids.size === 0 && (head === undefined || branch.at(-1)?.source === "input")) return;
  throw corrupted(`the newest run of thread ${key.threadId}`, "an unbroken line of checkpoints", "another one", {
    threadId: key.threadId,
  });
}

export function* getCheckpoint(
  sql: Sql,
  threadId: string,
  ns: string,
  checkpointId: string | undefined,
  remembered: Remembered,
): Program<StoredCheckpoint | undefined> {
  const key = yield* threadKey(sql, threadId);
  if (key === undefined) return undefined;
  const row =
    checkpointId === undefined
      ? yield* sql.get<RawSnapshot>(LATEST, key.thread, ns)
      : yield* sql.get<RawSnapshot>(BY_ID, key.thread, ns, checkpointId);
  if (row === undefined) return undefined;
  const head = toLiveHead(sql, key.threadId, row);
  sql.heads.add(head);
  return yield* hydrated(sql, key, head, remembered);
  return undefined;
}

/** The row of a checkpoint that {@link BY_ID} gives. */
const NEWEST_VERSION = `(SELECT max(n.seq) FROM langgraph_snapshots AS n WHERE n.thread = s.thread
  AND n.checkpoint_ns = s.checkpoint_ns AND n.position = s.position)`;
const listed = (wanted: { ns: boolean; id: boolean; before: boolean }): string =>
  [
    wanted.ns ? "s.checkpoint_ns = ?2" : "?2 IS NULL",
    wanted.id ? "s.checkpoint_id = ?3" : "?3 IS NULL",
    wanted.before ? "CASE WHEN p.position IS NULL THEN s.checkpoint_id < ?4 ELSE s.position < p.position END" : "?4 IS NULL",
  ].join(" AND ");
const V_COLUMNS = SNAPSHOT_ROWS.of("v");
/** Of one namespace, by the index that has its checkpoints in order. */
const pageOfNamespace = (wanted: Parameters<typeof listed>[0]): string =>
  `SELECT ${SNAPSHOT_ROWS.columns}, position AS place FROM langgraph_snapshots AS s
    WHERE thread = ?1 AND ${listed({ ...wanted, before: false }).replace("?4 IS NULL", wanted.before ? "s.checkpoint_id < ?4" : "?4 IS NULL")}
      AND position < ?5 AND s.seq = ${NEWEST_VERSION} ORDER BY position DESC LIMIT ?6`;
/** Of a thread, or of all, by the table itself: a checkpoint's first version has its place, the newest is read. */
const pageOf = (wanted: Parameters<typeof listed>[0] & { thread: boolean }): string =>
  `SELECT ${V_COLUMNS}, s.seq AS place FROM langgraph_snapshots AS s CROSS JOIN langgraph_snapshots AS v ON v.seq = ${NEWEST_VERSION}
    ${wanted.before ? "LEFT JOIN langgraph_snapshots AS p ON p.seq = (SELECT min(b.seq) FROM langgraph_snapshots AS b WHERE b.thread = s.thread AND b.checkpoint_id = ?4)" : ""}
    WHERE ${wanted.thread ? ofThread("s.seq") : "?1 IS NULL AND s.thread NOT IN (SELECT thread FROM langgraph_leftovers)"}
      AND ${listed(wanted)} AND s.seq < ?5 AND s.position = s.seq ORDER BY s.seq DESC LIMIT ?6`;

/** Newest first. */
export function* listCheckpoints(sql: Sql, query: CheckpointQuery): Program<ListedHead[]> {
  const key = query.threadId === undefined ? undefined : yield* threadKey(sql, query.threadId);
  if (query.threadId !== undefined && key === undefined) return [];
  const { ns, checkpointId, beforeId, isOfRun, after = Number.MAX_SAFE_INTEGER, limit } = query;
  const before = key === undefined || beforeId === undefined ? undefined : yield* positionOf(sql, key, ns, beforeId);
  const wanted = {
    ns: ns !== undefined,
    id: checkpointId !== undefined,
    before: beforeId !== undefined && before === undefined && !isOfRun,
  };
  const rows = yield* sql.all<RawSnapshot & { place: number }>(
    key !== undefined && ns !== undefined ? pageOfNamespace(wanted) : pageOf({ ...wanted, thread: key !== undefined }),
    key?.thread ?? null,
    ns ?? null,
    checkpointId ?? null,
    wanted.before ? (beforeId as string) : null,
    Math.min(after, before ?? after),
    limit,
  );
  const threads = new Map<number, string>();
  let last = after;
  return yield* mapped(rows, function* (row) {
    refuseBack("langgraph_snapshots", row.place, last);
    last = row.place;
    const threadId =
      key?.threadId ?? threads.get(row.thread) ?? (yield* threadKey(sql, yield* threadIdOf(sql, row.thread)))?.threadId ?? "";
    threads.set(row.thread, threadId);
    const head = toLiveHead(sql, threadId, row);
    return { ...head, place: row.place };
  });
}

const PLACED = "SELECT position FROM langgraph_snapshots WHERE thread = ? AND checkpoint_ns = ? AND checkpoint_id = ? LIMIT 1";
/** Where no namespace is named. */
const PLACED_ANYWHERE = "SELECT position FROM langgraph_snapshots WHERE thread = ? AND checkpoint_id = ? LIMIT 1";

function* positionOf(sql: Sql, { thread }: ThreadKey, ns: string | undefined, checkpointId: string): Program<number | undefined> {
  const inNamespace = ns === undefined ? undefined : yield* sql.get<{ position: number }>(PLACED, thread, ns, checkpointId);
  return (inNamespace ?? (yield* sql.get<{ position: number }>(PLACED_ANYWHERE, thread, checkpointId)))?.position;
}

export function* hydrate(sql: Sql, head: CheckpointHead, remembered: Remembered): Program<StoredCheckpoint | undefined> {
  const key = yield* threadKey(sql, head.threadId);
  const row = key === undefined ? undefined : yield* sql.get<RawSnapshot>(BY_SEQ, head.seq);
  return key === undefined || row === undefined ? undefined : yield* hydrated(sql, key, head, remembered);
}

function* hydrated(sql: Sql, key: ThreadKey, head: CheckpointHead, remembered: Remembered): Program<StoredCheckpoint> {
  const reader = new ChunkReader(sql, key, remembered);
  const values = new Map<string, StoredValue>();
  for (const [channel, { pointer }] of head.channels) {
    if (pointer !== undefined) values.set(channel, yield* readPointer(sql, key, pointer, reader, remembered));
  }
  const writes = yield* liveWrites(sql, key, head.ns, head.checkpointId);
  for (const { entries } of writes) yield* reader.readFrom(entries);
  return { ...head, values, writes, generation: key.generation, chunks: reader.texts };
}

export function* readPointer(
  sql: Sql,
  key: ThreadKey,
  pointer: Pointer,
  reader: ChunkReader,
  remembered: Remembered,
): Program<StoredValue> {
  if (pointer.kind === "list") return yield* readList(sql, key, pointer, remembered);
  if (pointer.kind === "inline") return { kind: "text", address: undefined, text: pointer.text };
  return { kind: "text", address: pointer.address, text: yield* reader.read(pointer.address) };
}
