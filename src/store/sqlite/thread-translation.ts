import { corrupted } from "../checksum";
import type { CheckpointHead, Pointer } from "../store";
import { ChunkReader } from "./chunks";
import { CopiedDigests } from "./copied-digests";
import type { CopiedSeqs } from "./copied-seqs";
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

interface Copy {
  source: ThreadKey;
  target: ThreadKey;
  seqs: CopiedSeqs;
}

const COPY_CHUNKS = `INSERT INTO langgraph_chunks (seq, thread, address, body)
  SELECT s.new, ?1, c.address, c.body FROM langgraph_chunks AS c JOIN temp.langgraph_copied_seqs AS s ON s.old = c.seq
    WHERE c.thread = ?2`;
const CHUNKS = "SELECT seq, address FROM langgraph_chunks WHERE thread = ? ORDER BY seq";
const INSERT = "INSERT INTO langgraph_chunks (seq, thread, address, body) VALUES (?, ?, ?, ?)";

/** Without encryption equal contents have equal addresses on every thread: chunks are copied as they are. */
export function copyPlainChunks(sql: Sql, { source, target, seqs }: Copy): Translation {
  sql.run(COPY_CHUNKS, target.thread, source.thread);
  const moved = (pointer: Pointer): Pointer => (pointer.kind === "list" ? { ...pointer, list: seqs.of(pointer.list) } : pointer);
  return { text: (text) => text, channels: (channels) => withPointers(channels, moved) };
}

/**
 * With encryption a thread has keys of its own, also for addresses: chunks are sealed anew, and whatever names an address is
 * rewritten. What is copied is verified, or the copy would vouch for what somebody else has changed.
 *
 * @param heads the thread's checkpoints, whose lists need digests
 * @throws {TurnsError} CHECKPOINT_CORRUPTED
 */
export function copySealedChunks(sql: Sql, { source, target, seqs }: Copy, heads: readonly CheckpointHead[]): Translation {
  const addresses = new Map<string, string>();
  const contents = (from: string): string => {
    const reader = new ChunkReader(sql, source, { chunk: (other) => other !== from, elements: () => 0 });
    return withReferences(reader.read(from) ?? "", address);
  };
  const address = (from: string): string => {
    const known = addresses.get(from);
    if (known !== undefined) return known;
    const to = sql.sealing.address(target.threadId, contents(from));
    addresses.set(from, to);
    return to;
  };
  for (const { seq, address: from } of sql.all<{ seq: number; address: string }>(CHUNKS, source.thread)) {
    const text = contents(from);
    const to = addresses.get(from) ?? sql.sealing.address(target.threadId, text);
    addresses.set(from, to);
    sql.run(INSERT, seqs.of(seq), target.thread, to, sql.sealing.seal(target.threadId, CHUNK_IDENTITY, text));
  }
  const known = (from: string): string => addresses.get(from) ?? missing(source, from);
  const pointers = heads.flatMap(({ channels }) => [...channels.values()].map(({ pointer }) => pointer));
  const lists = pointers.filter((pointer) => pointer?.kind === "list");
  const digests = new CopiedDigests(sql, source, target, lists);
  const moved = (pointer: Pointer): Pointer => {
    if (pointer.kind === "inline") return pointer;
    if (pointer.kind === "whole") return { ...pointer, address: known(pointer.address) };
    return { ...pointer, list: seqs.of(pointer.list), digest: digests.of(pointer) };
  };
  return { text: (text) => withReferences(text, known), channels: (channels) => withPointers(channels, moved) };
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
