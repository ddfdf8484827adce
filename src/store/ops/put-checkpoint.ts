import { anyOf, type Program } from "../program";
import { SNAPSHOT_ROWS } from "../rows";
import type { Session } from "../session";
import type {
  ChannelEntry,
  CheckpointHead,
  EarlyOutcome,
  LostTurn,
  NewCheckpoint,
  PackedValue,
  Pointer,
  SavedCheckpoint,
  Segment,
  TurnRow,
} from "../store";
import { type ThreadState, type KnownHead, headKey } from "../thread-state";
import { runsAreSaved } from "./effect-orphans";
import { type Manifest, type RawSnapshot, BY_ID, toLiveHead } from "./heads";
import { claimTask, enterThread, isThere, parentRewound } from "./thread-rows";
import { insertThought, type SavedApart, settleAction, turnApart } from "./turns";
import { storeChunk, storeChunks, placeList, placeOf } from "./values";

export const LIVE = "superseded_by IS NULL";
const SUPERSEDE =
  "UPDATE langgraph_snapshots SET superseded_by = ? WHERE thread = ? AND checkpoint_ns = ? AND checkpoint_id = ? AND superseded_by IS NULL";
const HAS_CHILD = "SELECT 1 FROM langgraph_snapshots WHERE thread = ? AND checkpoint_ns = ? AND parent_checkpoint_id = ? LIMIT 1";
const HAS_WRITES = `SELECT 1 FROM langgraph_writes
  WHERE thread = ? AND checkpoint_ns = ? AND checkpoint_id = ? AND node_task_id = ? AND superseded_by IS NULL LIMIT 1`;

export function* putCheckpoint(session: Session, checkpoint: NewCheckpoint): Program<SavedCheckpoint> {
  const { threadId, ns, checkpointId } = checkpoint;
  const begins = ns === "" && checkpoint.parentId === undefined;
  const key = yield* enterThread(session, threadId, checkpoint.createdAt, {
    begins,
    *belongs(on) {
      return checkpoint.parentId === undefined
        ? yield* anyOf(Object.entries(checkpoint.above), ([outer, id]) => isThere(session, on, outer, id))
        : yield* isThere(session, on, ns, checkpoint.parentId);
    },
    refersTo: checkpoint.parentId ?? checkpoint.above[""],
    sawDeletion: checkpoint.sawDeletion,
    sawEpoch: checkpoint.sawEpoch,
    lease: checkpoint.lease,
  });
  yield* claimTask(session, key, checkpoint.claim, checkpoint.createdAt);
  const seq = key.nextSeq();
  const hasTurns = key.row.turns > 0;
  const { head: known, writes } = yield* savedBefore(session, key, ns, checkpointId);
  // With durability "exit", LangGraph saves a checkpoint again with itself as parent. Stored like that, the row would be a cycle.
  const parentId = checkpoint.parentId === checkpointId ? known?.parentId : checkpoint.parentId;
  const parent = parentId === undefined ? undefined : yield* knownHead(session, key, ns, parentId);
  if (parentId !== undefined && parent === undefined && !checkpoint.mayHaveHoles)
    yield* refuseRewound(session, key, ns, parentId);
  const placed = new Map<string, readonly Segment[]>();
  const manifest = yield* manifestOf(
    session,
    key,
    checkpoint,
    parent?.channels ?? new Map(),
    known?.channels ?? new Map(),
    placed,
  );
  if (known !== undefined) yield* session.run(SUPERSEDE, seq, key.thread, ns, checkpointId);
  yield* session.insert(key, SNAPSHOT_ROWS, {
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
  if (checkpoint.graphRuns.some((run) => !session.savedRuns.has(run))) yield* runsAreSaved(session, key, checkpoint);
  rememberHead(key, {
    ns,
    checkpointId,
    position: known?.position ?? seq,
    parentId,
    step: checkpoint.step,
    channels: manifest,
    writes,
    // A run hands in a checkpoint before anything that starts from the next one. So nothing started from this one before its
    // parent was saved, or while the thread had no turns.
    turns: known === undefined && writes !== undefined && (parent?.isSaved === true || !hasTurns) ? new Set() : known?.turns,
    isSaved: true,
  });
  const actions: TurnRow[] = [];
  const lost: LostTurn[] = [];
  for (const thought of checkpoint.planned) {
    const of = { nodeName: thought.nodeName, turnType: "Thought" } as const;
    const saved = yield* turnApart(session, of, insertThought(session, thought));
    if (saved.lost !== undefined) lost.push(saved.lost);
  }
  const settled: (SavedApart | undefined)[] = [];
  for (const outcome of checkpoint.outcomes) settled.push(yield* settleEarly(session, key, checkpoint, outcome));
  for (const outcome of checkpoint.completed) settled.push(yield* settleAction(session, key, outcome, outcome.settle));
  for (const saved of settled) {
    if (saved?.turn !== undefined) actions.push(saved.turn);
    if (saved?.lost !== undefined) lost.push(saved.lost);
  }
  return { seq, generation: key.generation, placed, actions, lost };
}

/**
 * Refuses a save by hand onto a checkpoint that a rewind has removed. Nobody knows what its run saw, so the parent has to tell. A
 * parent that was pruned, or never was in this file, is allowed: a rewind leaves no child without its parent.
 *
 * @throws {TurnsError} CHECKPOINT_NOT_FOUND
 */
function* refuseRewound(session: Session, { thread, threadId, row }: ThreadState, ns: string, parentId: string): Program {
  if (row.epoch === 0 || row.prunedSeq > 0 || (yield* session.get(HAS_CHILD, thread, ns, parentId)) !== undefined) return;
  throw parentRewound(threadId, parentId);
}

/**
 * Settles the Action of a task whose writes came before its checkpoint.
 * @returns undefined if the writes aren't there, or belong to no task
 */
function* settleEarly(
  session: Session,
  key: ThreadState,
  { ns, checkpointId }: NewCheckpoint,
  outcome: EarlyOutcome,
): Program<SavedApart | undefined> {
  if ((yield* session.get(HAS_WRITES, key.thread, ns, checkpointId, outcome.nodeTaskId)) === undefined) return undefined;
  return yield* settleAction(session, key, outcome, outcome.settle);
}

/**
 * Stores the new values. A value is carried over if the parent, or an earlier version of the checkpoint, has the same content.
 * Versions prove nothing: LangGraph applies pending writes without raising any (1.4.17), forks share versions for different
 * values, and nodes change values in place.
 */
function* manifestOf(
  session: Session,
  key: ThreadState,
  checkpoint: NewCheckpoint,
  parent: Manifest,
  earlier: Manifest,
  placed: Map<string, readonly Segment[]>,
): Program<Manifest> {
  const { versions } = checkpoint;
  const values = packedOf(session, checkpoint);
  const manifest = new Map<string, ChannelEntry>();
  const channels = Object.keys(versions);
  const versioned = channels.length;
  let valued = 0;
  for (let at = 0; at < channels.length || valued < values.size; at += 1) {
    // What is left has no version.
    if (at === versioned) for (const other of values.keys()) if (!Object.hasOwn(versions, other)) channels.push(other);
    const channel = channels[at] as string;
    const version = at < versioned ? versions[channel] : undefined;
    const packed = values.get(channel);
    const before = parent.get(channel);
    const last = earlier.size === 0 ? undefined : earlier.get(channel);
    let pointer: Pointer | undefined;
    if (packed !== undefined) {
      valued += 1;
      pointer = carriedOver(packed, before?.pointer, last?.pointer);
      if (pointer?.kind === "list" && packed.kind === "list") placed.set(channel, yield* placeOf(session, key, packed, pointer));
      pointer ??= yield* storeValue(session, key, channel, packed, before?.pointer ?? last?.pointer, placed);
    } else if (checkpoint.parentId === checkpoint.checkpointId && version !== undefined && version === last?.version) {
      // LangGraph leaves out a delta channel's snapshot when it saves a checkpoint again (durability "exit"), and the writes to
      // rebuild it from aren't stored then. The same version of the same checkpoint still has the value.
      pointer = last.pointer;
    }
    const isSame = before !== undefined && before.pointer === pointer && before.version === version;
    manifest.set(channel, isSame ? before : { version, pointer });
  }
  return manifest;
}

/**
 * Replaces inline values by chunks in an encrypted database. The manifest stays readable there, for the queries that follow
 * versions, so no value may be in it.
 */
function packedOf({ sealing }: Session, { threadId, values }: NewCheckpoint): ReadonlyMap<string, PackedValue> {
  if (!sealing.encrypted) return values.packed;
  const packed = new Map(values.packed);
  for (const [channel, value] of packed) {
    if (value.kind !== "inline") continue;
    const { text } = value;
    packed.set(channel, { kind: "whole", chunk: { address: sealing.address(threadId, text), text }, parts: [] });
  }
  return packed;
}

/** The pointer in the parent, or in an earlier version of the checkpoint, that leads to the value. */
function carriedOver(packed: PackedValue, before: Pointer | undefined, earlier: Pointer | undefined): Pointer | undefined {
  if (before !== undefined && leadsTo(before, packed)) return before;
  return earlier !== undefined && leadsTo(earlier, packed) ? earlier : undefined;
}

function* storeValue(
  session: Session,
  key: ThreadState,
  channel: string,
  packed: PackedValue,
  before: Pointer | undefined,
  placed: Map<string, readonly Segment[]>,
): Program<Pointer> {
  if (packed.kind === "inline") return { kind: "inline", text: packed.text };
  if (packed.kind === "whole") {
    yield* storeChunks(session, key, packed.parts);
    yield* storeChunk(session, key, packed.chunk);
    return { kind: "whole", address: packed.chunk.address };
  }
  const segments = yield* placeList(session, key, packed, before);
  placed.set(channel, segments);
  return { kind: "list", list: segments.at(-1)?.list ?? 0, length: packed.length, digest: packed.digest };
}

/** JSON of a manifest; see `langgraph_snapshots.channels` in the schema. Inline values are codec text, which is JSON. */
export function manifestText(manifest: Manifest): string {
  let text = "";
  for (const [channel, entry] of manifest) {
    entry.text ??= `${JSON.stringify(channel)}:${entryText(entry)}`;
    text += text === "" ? entry.text : `,${entry.text}`;
  }
  return `{${text}}`;
}

function entryText({ version, pointer }: ChannelEntry): string {
  const text = version === undefined ? "null" : JSON.stringify(version);
  switch (pointer?.kind) {
    case undefined:
      return text;
    case "inline":
      return `[${text},0,${pointer.text}]`;
    case "whole":
      return `[${text},1,"${pointer.address}"]`;
    case "list":
      return `[${text},2,${pointer.list},${pointer.length},"${pointer.digest}"]`;
  }
}

/** Whether a pointer leads to exactly this value. */
function leadsTo(pointer: Pointer, packed: PackedValue): boolean {
  if (pointer.kind === "inline") return packed.kind === "inline" && packed.text === pointer.text;
  if (pointer.kind === "whole") return packed.kind === "whole" && packed.chunk.address === pointer.address;
  return packed.kind === "list" && packed.length === pointer.length && packed.digest === pointer.digest;
}

const GREATEST_ID = `SELECT max(id) AS id FROM (
    SELECT max(checkpoint_id) AS id FROM langgraph_snapshots WHERE thread = ?1 AND checkpoint_ns = ?2
    UNION ALL SELECT max(checkpoint_id) FROM langgraph_writes WHERE thread = ?1 AND checkpoint_ns = ?2) AS ids`;

/** What saves need to know of a checkpoint: remembered, or read. */
function* knownHead(session: Session, key: ThreadState, ns: string, checkpointId: string): Program<KnownHead | undefined> {
  const remembered = key.facts.heads.get(headKey(ns, checkpointId));
  if (remembered !== undefined) return remembered;
  const row = yield* session.get<RawSnapshot>(BY_ID, key.thread, ns, checkpointId);
  return row && rememberRead(key, toLiveHead(session, key.threadId, row));
}

/** Remembers a checkpoint that was read. */
export function rememberRead(
  key: ThreadState,
  { ns, checkpointId, position, parentId, step, channels }: CheckpointHead,
): KnownHead {
  return rememberHead(key, {
    ...{ ns, checkpointId, position, parentId, step, channels },
    ...{ writes: undefined, turns: undefined, isSaved: false },
  });
}

/** What is already stored of a checkpoint that is about to be saved. */
interface SavedBefore {
  head: KnownHead | undefined;
  /** {@link KnownHead.writes}: a checkpoint may have writes before it is saved. */
  writes: KnownHead["writes"];
}

/** Usually the checkpoint's id is greater than all earlier ids of its namespace; then nothing is stored, and nothing is read. */
function* savedBefore(session: Session, key: ThreadState, ns: string, checkpointId: string): Program<SavedBefore> {
  const { heads, greatestIds } = key.facts;
  const remembered = heads.get(headKey(ns, checkpointId));
  if (remembered !== undefined) return { head: remembered, writes: remembered.writes };
  let greatest = greatestIds.get(ns);
  if (greatest === undefined) {
    greatest = (yield* session.get<{ id: string | null }>(GREATEST_ID, key.thread, ns))?.id ?? null;
    greatestIds.set(ns, greatest);
  }
  if (greatest !== null && !isGreater(checkpointId, greatest)) {
    const head = yield* knownHead(session, key, ns, checkpointId);
    return { head, writes: head?.writes };
  }
  greatestIds.set(ns, checkpointId);
  return { head: undefined, writes: new Set() };
}

/** Notes that a checkpoint that may not be saved yet gets writes. */
export function writtenEarly({ facts: { greatestIds } }: ThreadState, ns: string, checkpointId: string): void {
  const greatest = greatestIds.get(ns);
  if (greatest === null || (greatest !== undefined && isGreater(checkpointId, greatest))) greatestIds.set(ns, checkpointId);
}

/** In SQLite's order, which compares bytes. */
function isGreater(left: string, right: string): boolean {
  return Buffer.compare(Buffer.from(left), Buffer.from(right)) > 0;
}

function rememberHead({ facts }: ThreadState, head: KnownHead): KnownHead {
  facts.heads.set(headKey(head.ns, head.checkpointId), head);
  return head;
}
