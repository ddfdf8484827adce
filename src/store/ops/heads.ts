import type { Program } from "../program";
import { corrupted } from "../refusals";
import { SNAPSHOT_ROWS } from "../rows";
import type { Session } from "../session";
import type { ChannelEntry, ChannelVersion, CheckpointHead, Pointer } from "../store";
import type { RawOf, SNAPSHOTS } from "../tables";
import type { ThreadState } from "../thread-state";
import { malformed, storedRecord } from "./stored-json";

export type Manifest = CheckpointHead["channels"];

const WHAT = "the channels of a checkpoint";

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

/** Whether two pointers of one thread lead to the same content. */
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

/** A row that should be its checkpoint's newest version: verified, and not superseded. */
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

/**
 * Of the versions of a checkpoint, the one with the greatest seq counts. That the others are superseded is verified, not relied
 * on.
 */
export const BY_ID = SNAPSHOT_ROWS.select(
  "WHERE thread = ? AND checkpoint_ns = ? AND checkpoint_id = ? ORDER BY seq DESC LIMIT 1",
);

/** The version that new values build on. It is verified like a read: nothing must build on a damaged row. */
export function* headOf(
  session: Session,
  key: ThreadState,
  ns: string,
  checkpointId: string,
): Program<CheckpointHead | undefined> {
  const row = yield* session.get<RawSnapshot>(BY_ID, key.thread, ns, checkpointId);
  return row === undefined ? undefined : toLiveHead(session, key.threadId, row);
}
