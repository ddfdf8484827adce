import { chunkAddresses, chunkTag } from "../../codec";
import { finished } from "../../values/digest";
import { corrupted } from "../checksum";
import { CHUNK_ROWS, SNAPSHOT_ROWS } from "../rows";
import type { Pointer } from "../store";
import { ChunkReader } from "../ops/values";
import type { CopyPath, RowWrites } from "./copy-path";
import { ListDigests, type ListPointer } from "./list-digests";
import { type Manifest, toHead } from "../ops/heads";
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
  const digests = yield* copiedDigests(path);
  const moved = (pointer: Pointer): Pointer => {
    if (pointer.kind === "inline") return pointer;
    if (pointer.kind === "whole") return { ...pointer, address: known(pointer.address) };
    return { ...pointer, list: path.seq(pointer.list), digest: digests.get(digestKey(pointer)) ?? "" };
  };
  return { text: (text) => withReferences(text, known), channels: (channels) => withPointers(channels, moved) };
}

/** The digest that each list value of the source has in the copy, where addresses have other keys. @throws {TurnsError} CHECKPOINT_CORRUPTED */
function* copiedDigests(path: CopyPath): RowWrites<ReadonlyMap<string, string>> {
  const { from, to, source, target } = path;
  const digests = new ListDigests();
  const copied = new Map<string, string>();
  for (const row of path.rows(SNAPSHOT_ROWS)) {
    for (const { pointer } of toHead(from, source.threadId, row).channels.values()) {
      if (pointer?.kind !== "list" || copied.has(digestKey(pointer))) continue;
      let running = from.now(digests.of(from, source, pointer, () => true));
      for (; running === undefined; running = from.now(digests.of(from, source, pointer, () => true))) yield;
      if ("broken" in running || finished(running, (text) => from.sealing.address(source.threadId, text)) !== pointer.digest) {
        const { threadId } = source;
        const [expected, data] = [`the ${pointer.length} elements that were saved`, { threadId, list: pointer.list }];
        throw corrupted(`a list value of thread ${threadId}`, expected, "others", data);
      }
      copied.set(
        digestKey(pointer),
        finished(running, (text) => to.sealing.address(target.threadId, text)),
      );
    }
    yield;
  }
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

function missing(source: ThreadKey, address: string): never {
  const { threadId } = source;
  throw corrupted(`a part of a value of thread ${threadId}`, `a chunk with address ${address.slice(0, 12)}…`, "none", {
    threadId,
    address,
  });
}

const REFERENCE = /\{"~":"chunk","v":"([\w-]{43})"\}/g;

/**
 * The text with every reference leading elsewhere. Data can look like a reference and is none, and only the codec can tell: each
 * candidate is given a number for an address, and what the codec then finds are the references.
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
