import { chunkAddresses } from "../../codec";
import { corrupted } from "../checksum";
import { CHUNK_ROWS } from "../rows";
import type { Chunk, Remembered } from "../store";
import type { Program } from "../program";
import type { Sql } from "../session";
import type { ThreadKey } from "../thread-state";
import { threadKey } from "./thread-keys";

const INSERT = `${CHUNK_ROWS.insert} ON CONFLICT (thread, address) DO NOTHING`;
/** A chunk needs none: its address is a keyed hash of its contents, and proves them when it is read. */
const IDENTITY = CHUNK_ROWS.identity({});
const SEQ = "SELECT seq FROM langgraph_chunks WHERE thread = ? AND address = ?";
const BODY = "SELECT body FROM langgraph_chunks WHERE thread = ? AND address = ?";

/** Stores a chunk unless the thread has it already. @returns its seq */
export function* storeChunk(sql: Sql, key: ThreadKey, chunk: Chunk): Program<number> {
  const { chunks } = key.facts;
  const known = chunks.get(chunk.address);
  if (known !== undefined) return known;
  const isLikelyNew = chunk.isNew === true || key.facts.wasChunkNew;
  const stored = isLikelyNew ? undefined : yield* sql.get<{ seq: number }>(SEQ, key.thread, chunk.address);
  const seq = stored?.seq ?? (yield* insertChunk(sql, key, chunk));
  if (stored !== undefined) key.facts.wasChunkNew = false;
  chunks.set(chunk.address, seq);
  return seq;
}

/** One that is there after all stays as it is. */
function* insertChunk(sql: Sql, key: ThreadKey, chunk: Chunk): Program<number> {
  const seq = key.nextSeq();
  const row = { seq, address: chunk.address, body: chunk.text() };
  const isNew = (yield* sql.run(INSERT, ...CHUNK_ROWS.values(sql.sealing, key, row))) > 0;
  key.facts.wasChunkNew = isNew;
  if (isNew) return seq;
  return (yield* sql.get<{ seq: number }>(SEQ, key.thread, chunk.address))?.seq ?? seq;
}

export function* storeChunks(sql: Sql, key: ThreadKey, chunks: readonly Chunk[]): Program<void> {
  for (const chunk of chunks) yield* storeChunk(sql, key, chunk);
}

export function openBody(sql: Sql, threadId: string, body: string | Uint8Array): string {
  return sql.sealing.open(threadId, IDENTITY, body);
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
  *read(address: string): Program<string | undefined> {
    if (this.#remembered?.chunk(address) === true) return undefined;
    const known = this.texts.get(address);
    if (known !== undefined) return known;
    const text = yield* this.#taken(address);
    yield* this.readFrom(text);
    return text;
  }

  /** Reads what a text refers to, and what that refers to; not by recursion, since a forged chain may be longer than a stack is deep. */
  *readFrom(text: string): Program<void> {
    const waiting = chunkAddresses(text);
    for (let address = waiting.pop(); address !== undefined; address = waiting.pop()) {
      if (this.#remembered?.chunk(address) === true || this.texts.has(address)) continue;
      for (const next of chunkAddresses(yield* this.#taken(address))) waiting.push(next);
    }
  }

  *#taken(address: string): Program<string> {
    const text = yield* this.#load(address);
    this.texts.set(address, text);
    return text;
  }

  *#load(address: string): Program<string> {
    const { threadId, thread } = this.#key;
    const row = yield* this.#sql.get<{ body: string | Uint8Array }>(BODY, thread, address);
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

export function* readChunks(sql: Sql, threadId: string, addresses: readonly string[]): Program<ReadonlyMap<string, string>> {
  const key = yield* threadKey(sql, threadId);
  if (key === undefined || addresses.length === 0) return new Map();
  const reader = new ChunkReader(sql, key);
  for (const address of addresses) yield* reader.read(address);
  return reader.texts;
}
