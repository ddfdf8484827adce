import { TurnsError } from "../../errors";
import { anyOf, mapped, type Program } from "../program";
import { SNAPSHOT_ROWS } from "../rows";
import type { Session } from "../session";
import { enterThread, isThere } from "./tombstones";
import type { ChannelEntry, EarlyOutcome, NewCheckpoint, PackedValue, Pointer, SavedCheckpoint, Segment } from "../store";
import type { ThreadState } from "../thread-state";
import { runsAreSaved } from "./effect-orphans";
import { knownHead, rememberHead, savedBefore, leadsTo, type Manifest, manifestText } from "./heads";
import { claimTask } from "./tasks";
import { type SavedApart, turnApart } from "./turn-changes";
import { insertThought, settleAction } from "./turns";
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
    lease: checkpoint.lease,
  });
  yield* claimTask(session, key, checkpoint.claim, checkpoint.createdAt);
  const seq = key.nextSeq();
  const { head: known, writes } = yield* savedBefore(session, key, ns, checkpointId);
  // With durability "exit" LangGraph saves a checkpoint again with itself as parent; kept, that row would be a cycle.
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
  yield* runsAreSaved(session, key, checkpoint);
  session.heads.add(checkpoint);
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
    turnApart(session, { nodeName: thought.nodeName, turnType: "Thought" }, insertThought(session, thought)),
  );
  const settled = yield* mapped(checkpoint.outcomes, (outcome) => settleEarly(session, key, checkpoint, outcome));
  const lost = [...planned, ...settled].flatMap((saved) => saved?.lost ?? []);
  return { seq, generation: key.generation, placed, actions: settled.flatMap((saved) => saved?.turn ?? []), lost };
}

/**
 * A save that goes on from what a rewind has removed would undo the rewind, and nobody would notice: an attached run keeps a rewind away,
 * others don't. What a prune has removed may be gone on from, and what never was in this file: a rewind leaves no child without its parent.
 *
 * @throws {TurnsError} CHECKPOINT_NOT_FOUND
 */
function* refuseRewound(session: Session, { thread, threadId, row }: ThreadState, ns: string, parentId: string): Program {
  if (row.epoch === 0 || row.prunedSeq > 0 || (yield* session.get(HAS_CHILD, thread, ns, parentId)) !== undefined) return;
  throw new TurnsError("CHECKPOINT_NOT_FOUND", {
    what: `a checkpoint of thread ${JSON.stringify(threadId)}`,
    expected: `its parent ${parentId} to be there`,
    found: "a thread that was rewound to before it",
    remedy:
      "Nothing was saved. End the run that is still at work, and call invoke again without a checkpoint_id: it goes on from the thread's newest checkpoint.",
    data: { threadId, parentId },
  });
}

/** The Action of a task whose writes came before its checkpoint. @returns undefined if the writes aren't there, or are no task's */
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
 * Stores the values that are new. A value is carried over if the parent, or an earlier version of the checkpoint, has the same content;
 * versions prove nothing. LangGraph applies pending writes without raising any (1.4.17), forks share versions for different values, and
 * nodes change values in place.
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
  for (const channel of new Set([...Object.keys(versions), ...values.keys()])) {
    const version = Object.hasOwn(versions, channel) ? versions[channel] : undefined;
    const packed = values.get(channel);
    const before = parent.get(channel);
    const last = earlier.get(channel);
    let pointer: Pointer | undefined;
    if (packed !== undefined) {
      pointer = carriedOver(packed, before?.pointer, last?.pointer);
      if (pointer?.kind === "list" && packed.kind === "list") placed.set(channel, yield* placeOf(session, key, packed, pointer));
      pointer ??= yield* storeValue(session, key, channel, packed, before?.pointer ?? last?.pointer, placed);
    } else if (checkpoint.parentId === checkpoint.checkpointId && version !== undefined && version === last?.version) {
      // LangGraph leaves a delta channel's snapshot out when it saves a checkpoint again (durability "exit"), and what it would be
      // rebuilt from isn't stored then; the same version of the same checkpoint still has the value it had.
      pointer = last.pointer;
    }
    const isSame = before !== undefined && before.pointer === pointer && before.version === version;
    manifest.set(channel, isSame ? before : { version, pointer });
  }
  return manifest;
}

/**
 * In an encrypted database no value stands in the manifest, which stays readable for the queries that follow versions: what would be small
 * enough becomes a chunk of its own.
 */
function packedOf({ sealing }: Session, { threadId, values }: NewCheckpoint): ReadonlyMap<string, PackedValue> {
  if (!sealing.encrypted) return values.packed;
  const packed = new Map(values.packed);
  for (const [channel, value] of packed) {
    if (value.kind !== "inline") continue;
    const { text } = value;
    packed.set(channel, { kind: "whole", chunk: { address: sealing.address(threadId, text), text: () => text }, parts: [] });
  }
  return packed;
}

/** The pointer in the parent, or in the checkpoint's earlier version, that leads to the value. */
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
