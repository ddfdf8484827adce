import { chunkAddresses, chunkTag } from "../../codec";
import { finished } from "../../values/memory";
import { corrupted } from "../refusals";
import type { Program } from "../program";
import { CHUNK_ROWS, SNAPSHOT_ROWS } from "../rows";
import { copiedSeq, type CopyPath, eachSourceRow } from "./copy-path";
import { ListDigests } from "./list-digests";
import type { ListPointer, Pointer } from "../store";
import type { ThreadState } from "../thread-state";
import { type Manifest, toHead } from "./heads";
import { ChunkReader } from "./values";

/** How the contents of a thread are translated for its copy. */
export interface Translation {
  /** Texts of writes and turns. */
  text(text: string): string;
  channels(channels: Manifest): Manifest;
}

/** For rows that refer to no values. */
export const AS_IT_IS: Translation = { text: (text) => text, channels: (channels) => channels };

/**
 * Copies the parts of values.
 * @returns how to copy the rest
 * @throws {TurnsError} CHECKPOINT_CORRUPTED
 */
export function* copyChunks(path: CopyPath): Program<Translation> {
  return yield* path.to.sealing.encrypted ? copySealedChunks(path) : copyPlainChunks(path);
}

/** Without encryption, equal contents have equal addresses on every thread, so chunks are copied as they are. */
function* copyPlainChunks(path: CopyPath): Program<Translation> {
  yield* eachSourceRow(path, CHUNK_ROWS, ({ seq, address, body }) => copyChunk(path, seq, address, body as string));
  const moved = (pointer: Pointer): Pointer =>
    pointer.kind === "list" ? { ...pointer, list: copiedSeq(path, pointer.list) } : pointer;
  return { text: (text) => text, channels: (channels) => withPointers(channels, moved) };
}

function* copyChunk(path: CopyPath, seq: number, address: string, body: string): Program {
  const row = { seq: copiedSeq(path, seq), address, body };
  yield* path.write(() => path.to.insert(path.target, CHUNK_ROWS, row));
}

/**
 * With encryption a thread has its own keys, also for addresses: chunks are sealed again, and every mention of an address is
 * rewritten. Everything copied is verified; otherwise the copy would vouch for somebody else's changes.
 */
function* copySealedChunks(path: CopyPath): Program<Translation> {
  const { from, to, source, target } = path;
  const addresses = new Map<string, string>();
  const known = (old: string): string => addresses.get(old) ?? missing(source, old);
  const contents = function* (old: string): Program<string> {
    const reader = new ChunkReader(from, source, { chunk: (other) => other !== old, elements: () => 0 });
    const text = (yield* reader.read(old)) ?? "";
    for (const other of chunkAddresses(text)) if (!addresses.has(other)) yield* contents(other);
    const copy = withReferences(text, known);
    addresses.set(old, to.sealing.address(target.threadId, copy));
    return copy;
  };
  yield* eachSourceRow(path, CHUNK_ROWS, function* ({ seq, address }) {
    const text = yield* contents(address);
    yield* copyChunk(path, seq, known(address), text);
  });
  const digests = yield* copiedDigests(path);
  const moved = (pointer: Pointer): Pointer => {
    if (pointer.kind === "inline") return pointer;
    if (pointer.kind === "whole") return { ...pointer, address: known(pointer.address) };
    return { ...pointer, list: copiedSeq(path, pointer.list), digest: digests.get(digestKey(pointer)) ?? "" };
  };
  return { text: (text) => withReferences(text, known), channels: (channels) => withPointers(channels, moved) };
}

/**
 * The digest of each list value of the source as the copy has it, where addresses have other keys.
 * @throws {TurnsError} CHECKPOINT_CORRUPTED
 */
function* copiedDigests(path: CopyPath): Program<ReadonlyMap<string, string>> {
  const { from, to, source, target } = path;
  const { threadId } = source;
  const digests = new ListDigests();
  const copied = new Map<string, string>();
  yield* eachSourceRow(path, SNAPSHOT_ROWS, function* (row) {
    for (const { pointer } of toHead(from, threadId, row).channels.values()) {
      if (pointer?.kind !== "list" || copied.has(digestKey(pointer))) continue;
      const running = yield* digests.of(from, source, pointer, () => false);
      const isWhole = running !== undefined && !("broken" in running);
      if (!isWhole || finished(running, (text) => from.sealing.address(threadId, text)) !== pointer.digest) {
        const [expected, data] = [`the ${pointer.length} elements that were saved`, { threadId, list: pointer.list }];
        throw corrupted(`a list value of thread ${threadId}`, expected, "others", data);
      }
      const now = finished(running, (text) => to.sealing.address(target.threadId, text));
      copied.set(digestKey(pointer), now);
    }
  });
  return copied;
}

function digestKey({ list, length, digest }: ListPointer): string {
  return `${list} ${length} ${digest}`;
}

function withPointers(channels: Manifest, moved: (pointer: Pointer) => Pointer): Manifest {
  return new Map(
    [...channels].map(([channel, { version, pointer }]) => [channel, { version, pointer: pointer && moved(pointer) }]),
  );
}

function missing(source: ThreadState, address: string): never {
  const { threadId } = source;
  throw corrupted(`a part of a value of thread ${threadId}`, `a chunk with address ${address.slice(0, 12)}…`, "none", {
    threadId,
    address,
  });
}

const REFERENCE = /\{"~":"chunk","v":"([\w-]{43})"\}/g;

/**
 * Replaces the addresses of all references in a text. Data can look like a reference, and only the codec can tell. So each
 * candidate gets a number for an address; those that the codec then finds are references.
 *
 * @param translate from the old address to the new one
 * @throws {TurnsError} UNDECODABLE_VALUE
 */
export function withReferences(text: string, translate: (address: string) => string): string {
  let count = 0;
  const numbered = text.replace(REFERENCE, () => chunkTag(numberAddress(count++)));
  if (count === 0) return text;
  const found = new Set(chunkAddresses(numbered));
  let index = 0;
  return text.replace(REFERENCE, (candidate, address: string) =>
    found.has(numberAddress(index++)) ? chunkTag(translate(address)) : candidate,
  );
}

function numberAddress(index: number): string {
  return String(index).padStart(43, "0");
}
