import { corrupted } from "../refusals";
import type { Program } from "../program";
import { SNAPSHOT_ROWS } from "../rows";
import type { Session } from "../session";
import { malformed, storedRecord } from "./stored-json";
import type { ChannelEntry, ChannelVersion, CheckpointHead, PackedValue, Pointer } from "../store";
import type { RawOf, SNAPSHOTS } from "../tables";
import { headKey, type KnownHead, type ThreadState } from "../thread-state";

export type Manifest = CheckpointHead["channels"];

const WHAT = "the channels of a checkpoint";

/** JSON of a manifest; see `langgraph_snapshots.channels` in the schema. Inline values are codec text, which is JSON. */
export function manifestText(manifest: Manifest): string {
  const entries = [...manifest].map(([channel, entry]) => `${JSON.stringify(channel)}:${entryText(entry)}`);
  return `{${entries.join(",")}}`;
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

/** @throws {TurnsError} CHECKPOINT_CORRUPTED */
export function parseManifest(text: string): Manifest {
  const manifest = new Map<string, ChannelEntry>();
  for (const [channel, entry] of Object.entries(storedRecord(text, WHAT))) {
    if (!Array.isArray(entry)) manifest.set(channel, { version: versionOf(entry), pointer: undefined });
    else manifest.set(channel, { version: entry[0] === null ? undefined : versionOf(entry[0]), pointer: pointerOf(entry) });
  }
  return manifest;
}

function versionOf(version: unknown): ChannelVersion {
  if (typeof version === "string" || Number.isFinite(version)) return version as ChannelVersion;
  throw malformed(WHAT, "versions of channels");
}

function pointerOf([, kind, first, length, digest]: readonly unknown[]): Pointer {
  if (kind === 0 && first !== undefined) return { kind: "inline", text: JSON.stringify(first) };
  if (kind === 1 && typeof first === "string") return { kind: "whole", address: first };
  if (kind === 2 && isCount(first) && isCount(length) && typeof digest === "string") {
    return { kind: "list", list: first, length, digest };
  }
  throw malformed(WHAT, "what leads to values");
}

function isCount(value: unknown): value is number {
  return Number.isSafeInteger(value) && (value as number) >= 0;
}

/** Whether a pointer leads to exactly this value. */
export function leadsTo(pointer: Pointer, packed: PackedValue): boolean {
  if (pointer.kind === "inline") return packed.kind === "inline" && packed.text === pointer.text;
  if (pointer.kind === "whole") return packed.kind === "whole" && packed.chunk.address === pointer.address;
  return packed.kind === "list" && packed.length === pointer.length && packed.digest === pointer.digest;
}

/** Whether two pointers, of one thread, lead to the same content. */
export function isSameContent(left: Pointer | undefined, right: Pointer | undefined): boolean {
  if (left === undefined || right === undefined) return left === right;
  if (left.kind === "inline") return right.kind === "inline" && right.text === left.text;
  if (left.kind === "whole") return right.kind === "whole" && right.address === left.address;
  return right.kind === "list" && right.length === left.length && right.digest === left.digest;
}

export type RawSnapshot = RawOf<typeof SNAPSHOTS>;

/** A row, verified. */
export function toHead(session: Session, threadId: string, raw: RawSnapshot): CheckpointHead {
  const row = SNAPSHOT_ROWS.parse(session.sealing, threadId, raw);
  return { ...row, threadId, channels: parseManifest(row.channels) };
}

/** The row that counts as its checkpoint's newest version, verified: none supersedes it. */
export function toLiveHead(session: Session, threadId: string, row: RawSnapshot): CheckpointHead {
  const head = toHead(session, threadId, row);
  if (row.superseded_by === null) return head;
  const { ns, checkpointId } = head;
  throw corrupted(`checkpoint ${checkpointId} of thread ${threadId}`, "its newest version", "one that is marked as superseded", {
    threadId,
    ns,
    checkpointId,
  });
}

/** Of the versions of a checkpoint the one with the greatest seq counts; that the others are superseded is verified, not relied upon. */
export const BY_ID = SNAPSHOT_ROWS.select(
  "WHERE thread = ? AND checkpoint_ns = ? AND checkpoint_id = ? ORDER BY seq DESC LIMIT 1",
);

const GREATEST_ID = `SELECT max(id) AS id FROM (
    SELECT max(checkpoint_id) AS id FROM langgraph_snapshots WHERE thread = ?1 AND checkpoint_ns = ?2
    UNION ALL SELECT max(checkpoint_id) FROM langgraph_writes WHERE thread = ?1 AND checkpoint_ns = ?2)`;

/** What saves know of a checkpoint: remembered, or read. */
export function* knownHead(session: Session, key: ThreadState, ns: string, checkpointId: string): Program<KnownHead | undefined> {
  const remembered = key.facts.heads.get(headKey(ns, checkpointId));
  if (remembered !== undefined) return remembered;
  const row = yield* session.get<RawSnapshot>(BY_ID, key.thread, ns, checkpointId);
  if (row === undefined) return undefined;
  const { position, parentId, step, channels } = toLiveHead(session, key.threadId, row);
  return rememberHead(key, {
    ...{ ns, checkpointId, position, parentId, step, channels },
    ...{ writes: undefined, turns: undefined, isSaved: false },
  });
}

/** What is there already of a checkpoint that is about to be saved. */
export interface SavedBefore {
  /** Its last version. */
  head: KnownHead | undefined;
  /** {@link KnownHead.writes}: a checkpoint may have writes before it is saved. */
  writes: KnownHead["writes"];
}

/** Mostly nothing, and nothing is read: the checkpoint's id is greater than all that its namespace has had. */
export function* savedBefore(session: Session, key: ThreadState, ns: string, checkpointId: string): Program<SavedBefore> {
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

/** A checkpoint that may not have been saved yet gets writes. */
export function writtenEarly({ facts: { greatestIds } }: ThreadState, ns: string, checkpointId: string): void {
  const greatest = greatestIds.get(ns);
  if (greatest === null || (greatest !== undefined && isGreater(checkpointId, greatest))) greatestIds.set(ns, checkpointId);
}

/** In the order of SQLite, which compares bytes. */
function isGreater(left: string, right: string): boolean {
  return Buffer.compare(Buffer.from(left), Buffer.from(right)) > 0;
}

export function rememberHead({ facts }: ThreadState, head: KnownHead): KnownHead {
  facts.heads.set(headKey(head.ns, head.checkpointId), head);
  return head;
}

/** What new values go on from is verified as what is read: a damaged row must not be built upon. */
export function* headOf(
  session: Session,
  key: ThreadState,
  ns: string,
  checkpointId: string,
): Program<CheckpointHead | undefined> {
  const row = yield* session.get<RawSnapshot>(BY_ID, key.thread, ns, checkpointId);
  return row === undefined ? undefined : toLiveHead(session, key.threadId, row);
}
