import { TurnsError } from "../../errors";
import { corrupted } from "../checksum";
import type {
  CheckpointHead,
  CheckpointQuery,
  LastRun,
  NewCheckpoint,
  NewValue,
  Pointer,
  Remembered,
  SavedCheckpoint,
  Segment,
  StoredCheckpoint,
  StoredValue,
} from "../store";
import { ChunkReader, storeChunk, storeChunks } from "./chunks";
import { placeList, readList } from "./lists";
import { isSame, type Manifest, manifestText } from "./manifest";
import { insertSnapshot, type Row, SNAPSHOT_COLUMNS, toHead, toLiveHead } from "./snapshot-rows";
import { refuseBack } from "./paging";
import type { Sql } from "./sql";
import { runsAreSaved } from "./effect-orphans";
import { claimTask, lastRunTask } from "./tasks";
import { threadIdOf, type ThreadKey, threadKey } from "./thread-keys";
import { enterThread, isThere } from "./tombstones";
import { turnApart } from "./turn-apart";
import { insertThought } from "./turns";
import { verifyHeads, verifyParent, wholeThread } from "./whole-thread";
import { liveWrites } from "./writes";

const COLUMNS = SNAPSHOT_COLUMNS;
const LIVE = "superseded_by IS NULL";
/** Of the versions of a checkpoint the one with the greatest seq counts; that the others are superseded is verified, not relied upon. */
const BY_ID = `SELECT ${COLUMNS} FROM langgraph_snapshots WHERE thread = ? AND checkpoint_ns = ? AND checkpoint_id = ? ORDER BY seq DESC LIMIT 1`;
const BY_SEQ = `SELECT ${COLUMNS} FROM langgraph_snapshots WHERE seq = ? AND ${LIVE}`;
const LATEST = `SELECT ${COLUMNS} FROM langgraph_snapshots WHERE thread = ? AND checkpoint_ns = ? ORDER BY checkpoint_id DESC, seq DESC LIMIT 1`;
/**
 * From the head back to the input it came of. CROSS JOIN keeps the order: each parent is one look-up. What was done on the grounds of a
 * checkpoint led on (`led`) to the next one, unless that is a fork; of an update only if nothing else had come of the checkpoint yet.
 * A chain of parents that is longer than the thread has no end, or a damaged index gives its links twice.
 */
const LAST_BRANCH = `WITH RECURSIVE branch(id, parent, source, seq, depth, next, next_seq) AS (
  SELECT * FROM (SELECT checkpoint_id, parent_checkpoint_id, source, seq, 0, NULL, NULL FROM langgraph_snapshots
    WHERE thread = ?1 AND checkpoint_ns = '' AND ${LIVE} ORDER BY checkpoint_id DESC LIMIT 1)
  UNION ALL SELECT s.checkpoint_id, s.parent_checkpoint_id, s.source, s.seq, depth + 1, branch.source, branch.seq
    FROM branch CROSS JOIN langgraph_snapshots AS s
    ON s.thread = ?1 AND s.checkpoint_ns = '' AND s.checkpoint_id = branch.parent AND s.${LIVE}
    WHERE branch.source <> 'input' LIMIT (SELECT count(*) FROM langgraph_snapshots WHERE thread = ?1))
  SELECT id, parent, source, seq, next IS NULL OR next = 'loop' OR (next = 'update' AND NOT EXISTS (
      SELECT 1 FROM langgraph_snapshots AS o WHERE o.thread = ?1 AND o.checkpoint_ns = '' AND o.parent_checkpoint_id = branch.id
        AND o.checkpoint_id > branch.id AND o.seq < next_seq)) AS led
    FROM branch ORDER BY depth`;
const EARLIER = `SELECT ${COLUMNS} FROM langgraph_snapshots WHERE thread = ? AND seq < ? AND ${LIVE} ORDER BY seq DESC LIMIT 64`;
const SUPERSEDE =
  "UPDATE langgraph_snapshots SET superseded_by = ? WHERE thread = ? AND checkpoint_ns = ? AND checkpoint_id = ? AND superseded_by IS NULL";

export function putCheckpoint(sql: Sql, checkpoint: NewCheckpoint): SavedCheckpoint {
  const { threadId, ns, checkpointId } = checkpoint;
  const begins = ns === "" && checkpoint.parentId === undefined;
  const key = enterThread(sql, threadId, checkpoint.createdAt, {
    begins,
    belongs: (on) =>
      checkpoint.parentId === undefined
        ? Object.entries(checkpoint.above).some(([outer, id]) => isThere(sql, on, outer, id))
        : isThere(sql, on, ns, checkpoint.parentId),
    refersTo: checkpoint.parentId ?? checkpoint.above[""],
    saves: checkpointId,
    sawDeletion: checkpoint.sawDeletion,
    lease: checkpoint.lease,
  });
  claimTask(sql, key, checkpoint.claim, checkpoint.createdAt);
  const seq = sql.nextSeq();
  const known = headOf(sql, key, ns, checkpointId);
  // With durability "exit" LangGraph saves a checkpoint again with itself as parent; kept, that row would be a cycle.
  const parentId = checkpoint.parentId === checkpointId ? known?.parentId : checkpoint.parentId;
  const placed = new Map<string, readonly Segment[]>();
  const manifest = manifestOf(sql, key, checkpoint, parentId, known?.channels ?? new Map(), placed);
  if (known !== undefined) sql.run(SUPERSEDE, seq, key.thread, ns, checkpointId);
  insertSnapshot(sql, key, {
    seq,
    ns,
    checkpointId,
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
  runsAreSaved(sql, key, checkpoint);
  const planned = checkpoint.planned.map((thought) =>
    turnApart(sql, { nodeName: thought.nodeName, turnType: "Thought" }, () => insertThought(sql, thought)),
  );
  return { seq, generation: key.generation, placed, lost: planned.flatMap(({ lost }) => lost ?? []) };
}

/**
 * Stores the new values and finds the carried ones. A carried value is the parent's if its version is the same; versions alone
 * prove nothing across forks, so beyond the parent only equal content counts. What was never stored stays absent, unless the parent
 * itself is missing because its save failed: then LangGraph believes the value stored, and it is stored here.
 */
function manifestOf(
  sql: Sql,
  key: ThreadKey,
  checkpoint: NewCheckpoint,
  parentId: string | undefined,
  earlier: Manifest,
  placed: Map<string, readonly Segment[]>,
): Manifest {
  const { ns } = checkpoint;
  const parentHead = parentId === undefined ? undefined : headOf(sql, key, ns, parentId);
  const parent: Manifest = parentHead?.channels ?? new Map();
  const orphaned = parentId !== undefined && parentHead === undefined;
  const pointers = new Map<string, Pointer>();
  for (const value of checkpoint.values) {
    const inherited = withValue(parent, value.channel) ?? withValue(earlier, value.channel);
    const carried = value.isNew ? undefined : carriedPointer(sql, key, value, inherited);
    if (carried !== undefined) pointers.set(value.channel, carried);
    else if (value.isNew || orphaned || wasStored(sql, key, value)) {
      pointers.set(value.channel, storeValue(sql, key, value, inherited?.pointer, placed));
    }
  }
  // LangGraph leaves a delta channel's snapshot out when it saves a checkpoint again (durability "exit"), and what it would be
  // rebuilt from is not stored then; the same version of the same checkpoint still has the value it had.
  if (checkpoint.parentId === checkpoint.checkpointId) {
    for (const [channel, { version, pointer }] of earlier) {
      if (pointer !== undefined && !pointers.has(channel) && checkpoint.versions[channel] === version)
        pointers.set(channel, pointer);
    }
  }
  return new Map(
    Object.entries(checkpoint.versions).map(([channel, version]) => [channel, { version, pointer: pointers.get(channel) }]),
  );
}

/** What new values go on from is verified as what is read: a damaged row must not be built upon. */
export function headOf(sql: Sql, key: ThreadKey, ns: string, checkpointId: string): CheckpointHead | undefined {
  const row = sql.get<Row>(BY_ID, key.thread, ns, checkpointId);
  return row === undefined ? undefined : toLiveHead(sql, key.threadId, row);
}

function withValue(manifest: Manifest, channel: string): { version: number | string; pointer: Pointer } | undefined {
  const entry = manifest.get(channel);
  return entry?.pointer === undefined ? undefined : { version: entry.version, pointer: entry.pointer };
}

function storeValue(
  sql: Sql,
  key: ThreadKey,
  value: NewValue,
  before: Pointer | undefined,
  placed: Map<string, readonly Segment[]>,
): Pointer {
  const packed = value.packed();
  if (packed.kind === "inline") return { kind: "inline", text: packed.text };
  if (packed.kind === "whole") {
    storeChunks(sql, key, packed.parts);
    storeChunk(sql, key, packed.chunk);
    return { kind: "whole", address: packed.chunk.address };
  }
  const segments = placeList(sql, key, packed, before);
  placed.set(value.channel, segments);
  return { kind: "list", list: segments.at(-1)?.list ?? 0, length: packed.length, digest: packed.digest };
}

function carriedPointer(
  sql: Sql,
  key: ThreadKey,
  value: NewValue,
  inherited: { version: number | string; pointer: Pointer } | undefined,
): Pointer | undefined {
  if (inherited?.version === value.version) return inherited.pointer;
  if (!value.comparable) return undefined;
  const forms = value.forms();
  const isEqual = (pointer: Pointer): boolean => forms.some((form) => isSame(pointer, form));
  return inherited !== undefined && isEqual(inherited.pointer)
    ? inherited.pointer
    : findPointer(sql, key, (_, { pointer }) => pointer !== undefined && isEqual(pointer));
}

/**
 * What was never stored stays absent. But a value that is stored may come back as another text (from a serde, from another version of
 * the codec): if the thread has the channel at this version, the value is stored again rather than lost.
 */
function wasStored(sql: Sql, key: ThreadKey, value: NewValue): boolean {
  return findPointer(sql, key, (channel, { version }) => channel === value.channel && version === value.version) !== undefined;
}

/** Looks through the thread's checkpoints, newest first. Seldom needed: LangGraph's `__copy__`. */
function findPointer(
  sql: Sql,
  key: ThreadKey,
  isWanted: (channel: string, entry: { version: number | string; pointer: Pointer | undefined }) => boolean,
): Pointer | undefined {
  let before = Number.MAX_SAFE_INTEGER;
  for (;;) {
    const page = sql.all<Row>(EARLIER, key.thread, before);
    for (const row of page) {
      for (const [channel, entry] of toHead(sql, key.threadId, row).channels) {
        if (entry.pointer !== undefined && isWanted(channel, entry)) return entry.pointer;
      }
    }
    const last = page.at(-1);
    if (last === undefined) return undefined;
    refuseBack("langgraph_snapshots", last.seq, before);
    before = last.seq;
  }
}

export function lastRun(sql: Sql, threadId: string): LastRun | undefined {
  const key = wholeThread(sql, threadId);
  if (key === undefined) return undefined;
  const task = lastRunTask(sql, key);
  const branch = sql.all<{ id: string; parent: string | null; source: string; seq: number; led: number }>(
    LAST_BRANCH,
    key.thread,
  );
  const damage = damageOf(() => verifyBranch(sql, key, branch));
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

function damageOf(verify: () => void): TurnsError | undefined {
  try {
    verify();
    return undefined;
  } catch (error) {
    if (TurnsError.is(error, "CHECKPOINT_CORRUPTED")) return error;
    throw error;
  }
}

/** The query goes by rows that it does not verify, and by which of them are superseded. @throws {TurnsError} CHECKPOINT_CORRUPTED */
function verifyBranch(sql: Sql, key: ThreadKey, branch: readonly { id: string; source: string }[]): void {
  const latest = sql.get<Row>(LATEST, key.thread, "");
  const ids = new Set(branch.map(({ id }) => id));
  let head = latest && toLiveHead(sql, key.threadId, latest);
  while (head !== undefined && ids.delete(head.checkpointId)) {
    verifyParent(sql, key.thread, head);
    head = head.parentId === undefined ? undefined : headOf(sql, key, "", head.parentId);
  }
  if (ids.size === 0 && (head === undefined || branch.at(-1)?.source === "input")) return;
  throw corrupted(`the newest run of thread ${key.threadId}`, "an unbroken line of checkpoints", "another one", {
    threadId: key.threadId,
  });
}

export function getCheckpoint(
  sql: Sql,
  threadId: string,
  ns: string,
  checkpointId: string | undefined,
  remembered: Remembered,
): StoredCheckpoint | undefined {
  const key = wholeThread(sql, threadId);
  if (key === undefined) return undefined;
  const row =
    checkpointId === undefined ? sql.get<Row>(LATEST, key.thread, ns) : sql.get<Row>(BY_ID, key.thread, ns, checkpointId);
  if (row !== undefined) return hydrated(sql, key, toLiveHead(sql, key.threadId, row), remembered);
  if (checkpointId !== undefined) verifyHeads(sql, key);
  return undefined;
}

const LISTS = {
  ns: "(?2 IS NULL OR checkpoint_ns = ?2)",
  id: "(?3 IS NULL OR checkpoint_id = ?3)",
  before: "(?4 IS NULL OR checkpoint_id < ?4)",
};
/** As in {@link BY_ID}. */
const NEWEST_VERSION = `NOT EXISTS (SELECT 1 FROM langgraph_snapshots AS n WHERE n.thread = langgraph_snapshots.thread
  AND n.checkpoint_ns = langgraph_snapshots.checkpoint_ns AND n.checkpoint_id = langgraph_snapshots.checkpoint_id
  AND n.seq > langgraph_snapshots.seq)`;
/** Two texts, so that SQLite can use an index either way; threads are told apart by their number, which is as good an order as any. */
const PAGE_OF_THREAD = `SELECT ${COLUMNS} FROM langgraph_snapshots
  WHERE thread = ?1 AND ${LISTS.ns} AND ${LISTS.id} AND ${LISTS.before}
    AND (?5 IS NULL OR (checkpoint_id, checkpoint_ns) < (?5, ?7)) AND ?6 IS NOT NULL AND ${NEWEST_VERSION}
  ORDER BY checkpoint_id DESC, checkpoint_ns DESC LIMIT ?8`;
const PAGE_OF_ALL = `SELECT ${COLUMNS} FROM langgraph_snapshots
  WHERE ?1 IS NULL AND thread NOT IN (SELECT thread FROM langgraph_leftovers) AND ${LISTS.ns} AND ${LISTS.id} AND ${LISTS.before}
    AND (?5 IS NULL OR (checkpoint_id, thread, checkpoint_ns) < (?5, ?6, ?7)) AND ${NEWEST_VERSION}
  ORDER BY checkpoint_id DESC, thread DESC, checkpoint_ns DESC LIMIT ?8`;

export function listCheckpoints(sql: Sql, query: CheckpointQuery): CheckpointHead[] {
  const key = query.threadId === undefined ? undefined : wholeThread(sql, query.threadId);
  if (query.threadId !== undefined && key === undefined) return [];
  const after = query.after === undefined ? undefined : threadKey(sql, query.after.threadId);
  const rows = sql.all<Row>(
    key === undefined ? PAGE_OF_ALL : PAGE_OF_THREAD,
    key?.thread ?? null,
    query.ns ?? null,
    query.checkpointId ?? null,
    query.beforeId ?? null,
    query.after?.checkpointId ?? null,
    after?.thread ?? 0,
    query.after?.ns ?? null,
    query.limit,
  );
  const threads = new Map<number, string>();
  const last = query.after?.checkpointId;
  return rows.map((row) => {
    // Newest first; the same id may stand in several namespaces and threads.
    if (last !== undefined && row.checkpoint_id !== last) refuseBack("langgraph_snapshots", row.checkpoint_id, last);
    const threadId = key?.threadId ?? threads.get(row.thread) ?? wholeThread(sql, threadIdOf(sql, row.thread))?.threadId ?? "";
    threads.set(row.thread, threadId);
    const head = toLiveHead(sql, threadId, row);
    verifyParent(sql, row.thread, head);
    return head;
  });
}

export function hydrate(sql: Sql, head: CheckpointHead, remembered: Remembered): StoredCheckpoint | undefined {
  const key = threadKey(sql, head.threadId);
  const row = key === undefined ? undefined : sql.get<Row>(BY_SEQ, head.seq);
  return key === undefined || row === undefined ? undefined : hydrated(sql, key, head, remembered);
}

function hydrated(sql: Sql, key: ThreadKey, head: CheckpointHead, remembered: Remembered): StoredCheckpoint {
  const reader = new ChunkReader(sql, key, remembered);
  const values = new Map<string, StoredValue>();
  for (const [channel, { pointer }] of head.channels) {
    if (pointer !== undefined) values.set(channel, readPointer(sql, key, pointer, reader, remembered));
  }
  const writes = liveWrites(sql, key, head.ns, head.checkpointId);
  for (const { entries } of writes) reader.readFrom(entries);
  return { ...head, values, writes, generation: key.generation, chunks: reader.texts };
}

export function readPointer(
  sql: Sql,
  key: ThreadKey,
  pointer: Pointer,
  reader: ChunkReader,
  remembered: Remembered,
): StoredValue {
  if (pointer.kind === "list") return readList(sql, key, pointer, remembered);
  if (pointer.kind === "inline") return { kind: "text", address: undefined, text: pointer.text };
  return { kind: "text", address: pointer.address, text: reader.read(pointer.address) };
}
