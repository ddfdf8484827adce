import type { ChannelVersion, CheckpointHead, PackedValue, Pointer } from "../store";

export type Manifest = CheckpointHead["channels"];

/** JSON of a manifest; see `langgraph_snapshots.channels` in the schema. Inline values are codec text, which is JSON. */
export function manifestText(manifest: Manifest): string {
  const entries = [...manifest].map(([channel, entry]) => `${JSON.stringify(channel)}:${entryText(entry)}`);
  return `{${entries.join(",")}}`;
}

function entryText({ version, pointer }: { version: ChannelVersion; pointer: Pointer | undefined }): string {
  const text = JSON.stringify(version);
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

export function parseManifest(text: string): Manifest {
  const manifest = new Map<string, { version: ChannelVersion; pointer: Pointer | undefined }>();
  for (const [channel, entry] of Object.entries(JSON.parse(text) as Record<string, unknown>)) {
    if (!Array.isArray(entry)) manifest.set(channel, { version: entry as ChannelVersion, pointer: undefined });
    else manifest.set(channel, { version: entry[0] as ChannelVersion, pointer: pointerOf(entry) });
  }
  return manifest;
}

function pointerOf(entry: readonly unknown[]): Pointer {
  const [, kind, first, length, digest] = entry;
  if (kind === 0) return { kind: "inline", text: JSON.stringify(first) };
  if (kind === 1) return { kind: "whole", address: first as string };
  return { kind: "list", list: first as number, length: length as number, digest: digest as string };
}

/** Whether a pointer leads to exactly this value. */
export function isSame(pointer: Pointer, packed: PackedValue): boolean {
  if (pointer.kind === "inline") return packed.kind === "inline" && packed.text === pointer.text;
  if (pointer.kind === "whole") return packed.kind === "whole" && packed.chunk.address === pointer.address;
  return packed.kind === "list" && packed.length === pointer.length && packed.digest === pointer.digest;
}
