import { corrupted } from "../checksum";
import type { Pointer } from "../store";
import { ChunkReader } from "./chunks";
import { CopiedDigests, type ListPointer } from "./copied-digests";
import type { CopiedSeqs } from "./copied-seqs";
import { pagedRows, type RowWrites } from "./copy-rows";
import { CHUNK_IDENTITY } from "./identities";
import type { Manifest } from "./manifest";
import { withReferences } from "./references";
import type { Sql } from "./sql";
import type { ThreadKey } from "./thread-keys";

/** How the contents of a thread become those of its copy. */
export interface Translation {
  /** Texts of writes and turns. */
  text(text: string): string;
  channels(channels: Manifest): Manifest;
}

/** From where to where, and under which numbers. */
export interface CopyPath {
  from: Sql;
  to: Sql;
  source: ThreadKey;
  target: ThreadKey;
  seqs: CopiedSeqs;
}
interface StoredChunk {
  seq: number;
  address: string;
  body: string | Uint8Array;
}

const CHUNKS = "SELECT seq, address, body FROM langgraph_chunks WHERE thread = ?1 AND address > ?2 ORDER BY address LIMIT ?3";
const INSERT = "INSERT INTO langgraph_chunks (seq, thread, address, body) VALUES (?, ?, ?, ?)";

/** Without encryption equal contents have equal addresses on every thread: chunks are copied as they are. */
export function* copyPlainChunks({ from, to, source, target, seqs }: CopyPath): RowWrites<Translation> {
  for (const { seq, address, body } of chunksOf(from, source)) {
    yield () => to.now(to.run(INSERT, seqs.of(seq), target.thread, address, body));
  }
  const moved = (pointer: Pointer): Pointer => (pointer.kind === "list" ? { ...pointer, list: seqs.of(pointer.list) } : pointer);
  return { text: (text) => text, channels: (channels) => withPointers(channels, moved) };
}

/**
 * With encryption a thread has keys of its own, also for addresses: chunks are sealed again, and whatever names an address is
 * rewritten. What is copied is verified, or the copy would vouch for what somebody else has changed.
 *
 * @param lists pointers to lists, whose digests the copy needs
 * @throws {TurnsError} CHECKPOINT_CORRUPTED
 */
export function* copySealedChunks(path: CopyPath, lists: readonly ListPointer[]): RowWrites<Translation> {
  const { from, to, source, target, seqs } = path;
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
  for (const { seq, address: old } of chunksOf(from, source)) {
    const text = contents(old);
    const now = addresses.get(old) ?? to.sealing.address(target.threadId, text);
    addresses.set(old, now);
    yield () => to.now(to.run(INSERT, seqs.of(seq), target.thread, now, to.sealing.seal(target.threadId, CHUNK_IDENTITY, text)));
  }
  const known = (old: string): string => addresses.get(old) ?? missing(source, old);
  const digests = yield* CopiedDigests.read(from, source, target, lists);
  const moved = (pointer: Pointer): Pointer => {
    if (pointer.kind === "inline") return pointer;
    if (pointer.kind === "whole") return { ...pointer, address: known(pointer.address) };
    return { ...pointer, list: seqs.of(pointer.list), digest: digests.of(pointer) };
  };
  return { text: (text) => withReferences(text, known), channels: (channels) => withPointers(channels, moved) };
}

function chunksOf(from: Sql, { thread }: ThreadKey): Iterable<StoredChunk> {
  return pagedRows<StoredChunk>(from, CHUNKS, thread, (row) => row.address, "");
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
