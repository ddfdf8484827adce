import type { ChannelEntry, ChannelVersion, CheckpointHead, PackedValue, Pointer } from "../store";
import { malformed, storedRecord } from "./stored-json";

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
