import { chunkAddresses } from "../../codec";
import { corrupted } from "../checksum";
import type { Chunk, Remembered } from "../store";
import { CHUNK_IDENTITY } from "./identities";
import type { Sql } from "./sql";
import { type ThreadKey, threadKey } from "./thread-keys";

const INSERT = "INSERT INTO langgraph_chunks (seq, thread, address, body) VALUES (?, ?, ?, ?)";
const SEQ = "SELECT seq FROM langgraph_chunks WHERE thread = ? AND address = ?";
const BODY = "SELECT body FROM langgraph_chunks WHERE thread = ? AND address = ?";

/** Stores a chunk unless the thread has it already. @returns its seq */
export function storeChunk(sql: Sql, key: ThreadKey, chunk: Chunk): number {
  const stored = sql.get<{ seq: number }>(SEQ, key.thread, chunk.address);
  if (stored !== undefined) return stored.seq;
  const seq = sql.nextSeq();
  sql.run(INSERT, seq, key.thread, chunk.address, sql.sealing.seal(key.threadId, CHUNK_IDENTITY, chunk.text()));
  return seq;
}

export function storeChunks(sql: Sql, key: ThreadKey, chunks: readonly Chunk[]): void {
  for (const chunk of chunks) storeChunk(sql, key, chunk);
}

export function openBody(sql: Sql, threadId: string, body: string | Uint8Array): string {
  return sql.sealing.open(threadId, CHUNK_IDENTITY, body);
}

/** Collects chunks by address, each verified against it, and each read once. */
export class ChunkReader {
  readonly texts = new Map<string, string>();
  readonly #sql: Sql;
  readonly #key: ThreadKey;
  readonly #remembered: Remembered | undefined;

  constructor(sql: Sql, key: ThreadKey, remembered?: Remembered) {
    this.#sql = sql;
    this.#key = key;
    this.#remembered = remembered;
  }

  /** The chunk's text, and in {@link texts} what it refers to; undefined if the reader remembers it. */
  read(address: string): string | undefined {
    if (this.#remembered?.chunk(address) === true) return undefined;
    let text = this.texts.get(address);
    if (text === undefined) {
      text = this.#load(address);
      this.texts.set(address, text);
      this.readFrom(text);
    }
    return text;
  }

  /** Reads what a text refers to. */
  readFrom(text: string): void {
    for (const address of chunkAddresses(text)) this.read(address);
  }

  #load(address: string): string {
    const { threadId, thread } = this.#key;
    const row = this.#sql.get<{ body: string | Uint8Array }>(BODY, thread, address);
    const what = `a part of a value of thread ${threadId}`;
    if (row === undefined) throw corrupted(what, `a chunk with address ${address.slice(0, 12)}…`, "none", { threadId, address });
    const text = openBody(this.#sql, threadId, row.body);
    const found = this.#sql.sealing.address(threadId, text);
    if (found === address) return text;
    throw corrupted(what, `contents with address ${address.slice(0, 12)}…`, `contents with ${found.slice(0, 12)}…`, {
      threadId,
      address,
    });
  }
}

export function readChunks(sql: Sql, threadId: string, addresses: readonly string[]): ReadonlyMap<string, string> {
  const key = threadKey(sql, threadId);
  if (key === undefined || addresses.length === 0) return new Map();
  const reader = new ChunkReader(sql, key);
  for (const address of addresses) reader.read(address);
  return reader.texts;
}
