import { corrupted } from "../checksum";
import { CHUNK_ROWS, SNAPSHOT_ROWS } from "../rows";
import type { Pointer } from "../store";
import { ChunkReader } from "../ops/values";
import { CopiedDigests, type ListPointer } from "./copied-digests";
import type { CopyPath, RowWrites } from "./copy-path";
import { type Manifest, toHead } from "../ops/heads";
import { withReferences } from "./references";
import type { ThreadKey } from "../thread-state";

/** How the contents of a thread become those of its copy. */
export interface Translation {
  /** Texts of writes and turns. */
  text(text: string): string;
  channels(channels: Manifest): Manifest;
}

/** Of rows that refer to no values. */
export const AS_IT_IS: Translation = { text: (text) => text, channels: (channels) => channels };

/** Copies the parts of values. @returns how the rest is to be copied. @throws {TurnsError} CHECKPOINT_CORRUPTED */
export function* copyChunks(path: CopyPath): RowWrites<Translation> {
  return yield* path.to.sealing.encrypted ? copySealedChunks(path) : copyPlainChunks(path);
}

/** Without encryption equal contents have equal addresses on every thread: chunks are copied as they are. */
function* copyPlainChunks(path: CopyPath): RowWrites<Translation> {
  const { to, target } = path;
  for (const { seq, address, body } of path.rows(CHUNK_ROWS)) {
    yield () => to.insert(target, CHUNK_ROWS, { seq: path.seq(seq), address, body: body as string });
  }
  const moved = (pointer: Pointer): Pointer => (pointer.kind === "list" ? { ...pointer, list: path.seq(pointer.list) } : pointer);
  return { text: (text) => text, channels: (channels) => withPointers(channels, moved) };
}

/**
 * With encryption a thread has keys of its own, also for addresses: chunks are sealed again, and whatever names an address is
 * rewritten. What is copied is verified, or the copy would vouch for what somebody else has changed.
 */
function* copySealedChunks(path: CopyPath): RowWrites<Translation> {
  const { from, to, source, target } = path;
  const addresses = new Map<string, string>();
  const contents = (old: string): string => {
    const reader = new ChunkReader(from, source, { chunk: (other) => other !== old, elements: () => 0 });
    return withReferences(from.now(reader.read(old)) ?? "", address);
  };
  const address = (old: string): string => {
    const known = addresses.get(old);
    if (known !== undefined) return known;
    const now = to.sealing.address(target.threadId, contents(old));
    addresses.set(old, now);
    return now;
  };
  for (const { seq, address: old } of path.rows(CHUNK_ROWS)) {
    const text = contents(old);
    const now = addresses.get(old) ?? to.sealing.address(target.threadId, text);
    addresses.set(old, now);
    yield () => to.insert(target, CHUNK_ROWS, { seq: path.seq(seq), address: now, body: text });
  }
  const known = (old: string): string => addresses.get(old) ?? missing(source, old);
  const digests = yield* CopiedDigests.read(path, yield* listPointers(path));
  const moved = (pointer: Pointer): Pointer => {
    if (pointer.kind === "inline") return pointer;
    if (pointer.kind === "whole") return { ...pointer, address: known(pointer.address) };
    return { ...pointer, list: path.seq(pointer.list), digest: digests.of(pointer) };
  };
  return { text: (text) => withReferences(text, known), channels: (channels) => withPointers(channels, moved) };
}

/** Every list value of the source, whose digest the copy needs. */
function* listPointers(path: CopyPath): RowWrites<ListPointer[]> {
  const { from, source } = path;
  const lists: ListPointer[] = [];
  for (const row of path.rows(SNAPSHOT_ROWS)) {
    const { channels } = toHead(from, source.threadId, row);
    for (const { pointer } of channels.values()) if (pointer?.kind === "list") lists.push(pointer);
    yield;
  }
  return lists;
}

function withPointers(channels: Manifest, moved: (pointer: Pointer) => Pointer): Manifest {
  return new Map(
    [...channels].map(([channel, { version, pointer }]) => [channel, { version, pointer: pointer && moved(pointer) }]),
  );
}

function missing(source: ThreadKey, address: string): never {
  const { threadId } = source;
  throw corrupted(`a part of a value of thread ${threadId}`, `a chunk with address ${address.slice(0, 12)}…`, "none", {
    threadId,
    address,
  });
}
