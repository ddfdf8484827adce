import { isAscii } from "node:buffer";
import { chunkAddresses, chunkTag } from "../../codec";
import { corrupted } from "../refusals";
import { textFor } from "../dialect";
import { type Program, question, type Statement } from "../program";
import { CHUNK_ROWS, ITEM_ROWS, LIST_ROWS } from "../rows";
import type { Session } from "../session";
import { aboutThread } from "./thread-rows";
import type { Chunk, ListPointer, Remembered, PackedList, Pointer, Segment, StoredValue } from "../store";
import { STORED, type ThreadState } from "../thread-state";

/** Every text with a reference contains this. */
export const REFERENCE = chunkTag("").split(",")[0]?.slice(1) ?? "";

const INSERT = `${CHUNK_ROWS.insert} ON CONFLICT (thread, address) DO NOTHING`;
/** A chunk needs no identity: its address is a keyed hash of its contents, and proves them when it is read. */
const IDENTITY = CHUNK_ROWS.identity({});
const SEQ = "SELECT seq FROM langgraph_chunks WHERE thread = ? AND address = ?";
const BODY = "SELECT body FROM langgraph_chunks WHERE thread = ? AND address = ?";

/** {@link Rows.insert} of an element whose chunk is found by its address. */
const INSERT_BY_ADDRESS = `INSERT INTO langgraph_items (list, pos, seq, chunk)
  SELECT ?1, ?2, ?3, seq FROM langgraph_chunks WHERE thread = ?4 AND address = ?5`;

/** Stores a chunk unless the thread has it already. @returns its seq; {@link STORED} if that can't be known without waiting */
export function* storeChunk(session: Session, key: ThreadState, chunk: Chunk): Program<number> {
  const { chunks } = key.facts;
  const known = chunks.get(chunk.address);
  if (known !== undefined) return known;
  if (session.engine.buffers) {
    const row = { seq: key.nextSeq(), address: chunk.address, body: chunk.text };
    yield* session.run(INSERT, ...CHUNK_ROWS.values(session.sealing, key, row));
    chunks.set(chunk.address, STORED);
    return STORED;
  }
  const stored = key.facts.wasChunkNew ? undefined : yield* session.get<{ seq: number }>(SEQ, key.thread, chunk.address);
  const seq = stored?.seq ?? (yield* insertChunk(session, key, chunk));
  if (stored !== undefined) key.facts.wasChunkNew = false;
  chunks.set(chunk.address, seq);
  return seq;
}

/** Keeps an existing chunk as it is. */
function* insertChunk(session: Session, key: ThreadState, chunk: Chunk): Program<number> {
  const seq = key.nextSeq();
  const row = { seq, address: chunk.address, body: chunk.text };
  const isNew = (yield* session.changes(INSERT, ...CHUNK_ROWS.values(session.sealing, key, row))) > 0;
  key.facts.wasChunkNew = isNew;
  if (isNew) return seq;
  return (yield* session.get<{ seq: number }>(SEQ, key.thread, chunk.address))?.seq ?? seq;
}

/** {@link storeChunk} that waits. */
function* seqOfChunk(session: Session, key: ThreadState, chunk: Chunk): Program<number> {
  const known = yield* storeChunk(session, key, chunk);
  if (known !== STORED) return known;
  const seq = (yield* session.get<{ seq: number }>(SEQ, key.thread, chunk.address))?.seq ?? STORED;
  key.facts.chunks.set(chunk.address, seq);
  return seq;
}

export function* storeChunks(session: Session, key: ThreadState, chunks: readonly Chunk[]): Program<void> {
  for (const chunk of chunks) yield* storeChunk(session, key, chunk);
}

export function openBody(session: Session, threadId: string, body: string | Uint8Array): string {
  return session.sealing.open(threadId, IDENTITY, body);
}

/** Whose values are read. */
export type ThreadPlace = Pick<ThreadState, "thread" | "threadId">;

/** A chunk as it is stored. */
export interface StoredChunk extends Body {
  address: string;
}
interface Body {
  body: string | Uint8Array;
}

/** Collects chunks by address. Each is read once, and verified against its address. */
export class ChunkReader {
  readonly texts = new Map<string, string>();
  readonly #session: Session;
  readonly #key: ThreadPlace;
  readonly #remembered: Remembered | undefined;
  readonly #read: Map<string, StoredChunk>;

  /** @param read chunks that were read already */
  constructor(session: Session, key: ThreadPlace, remembered?: Remembered, read: readonly StoredChunk[] = []) {
    this.#session = session;
    this.#key = key;
    this.#remembered = remembered;
    this.#read = new Map(read.map((chunk) => [chunk.address, chunk]));
  }

  /** Takes a chunk that was read together with others. @returns what its text refers to; nothing if it's damaged, which {@link read} tells */
  take(chunk: StoredChunk): readonly string[] {
    this.#read.set(chunk.address, chunk);
    try {
      const text = this.#verified(chunk.address, chunk);
      this.texts.set(chunk.address, text);
      return chunkAddresses(text);
    } catch {
      return [];
    }
  }

  /** The chunk's text; {@link texts} then has everything it refers to. Undefined if the reader remembers it. */
  *read(address: string): Program<string | undefined> {
    if (this.#remembered?.chunk(address) === true) return undefined;
    const known = this.texts.get(address);
    if (known !== undefined) return known;
    const text = yield* this.#taken(address);
    yield* this.readFrom(text);
    return text;
  }

  /**
   * Reads what a text refers to, directly and indirectly. It doesn't recurse, because a forged chain may be longer than the stack
   * is deep.
   */
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
    const row = this.#read.get(address) ?? (yield* this.#session.get<Body>(BODY, this.#key.thread, address));
    return this.#verified(address, row);
  }

  #verified(address: string, row: Body | undefined): string {
    const { threadId } = this.#key;
    const what = `a part of a value of thread ${threadId}`;
    if (row === undefined) throw corrupted(what, `a chunk with address ${address.slice(0, 12)}…`, "none", { threadId, address });
    const text = openBody(this.#session, threadId, row.body);
    const found = this.#session.sealing.address(threadId, text);
    if (found === address) return text;
    throw corrupted(what, `contents with address ${address.slice(0, 12)}…`, `contents with ${found.slice(0, 12)}…`, {
      threadId,
      address,
    });
  }
}

export function* readChunks(
  session: Session,
  threadId: string,
  addresses: readonly string[],
): Program<ReadonlyMap<string, string>> {
  const asked = (thread: number): Statement[] => addresses.map((address) => question("one", BODY, thread, address));
  const texts = yield* aboutThread(session, threadId, asked, function* (key) {
    const reader = new ChunkReader(session, key);
    for (const address of addresses) yield* reader.read(address);
    return reader.texts;
  });
  return texts ?? new Map<string, string>();
}

const PATH = `WITH RECURSIVE path(list, base, start, upto) AS (
    SELECT seq, base, keep, CAST(?3 AS BIGINT) FROM langgraph_lists WHERE seq = ?1 AND thread = ?2
    UNION ALL
    SELECT b.seq, b.base, b.keep, CASE WHEN path.start < path.upto THEN path.start ELSE path.upto END FROM path CROSS JOIN langgraph_lists AS b
      WHERE b.seq = path.base AND b.seq < path.list AND path.start > 0
  )`;
const SEGMENTS = `${PATH} SELECT list, start, upto FROM path`;
/** A list that branched off no other: asking that first spares most connections the preparation of the recursion. */
const WHOLE = 'SELECT seq AS list, 0 AS "from" FROM langgraph_lists WHERE seq = ? AND thread = ? AND base IS NULL AND keep = 0';
const ITEMS = `langgraph_items AS i CROSS JOIN langgraph_chunks AS c
  WHERE i.list = ? AND i.pos >= ? AND i.pos < ? AND c.seq = i.chunk ORDER BY i.pos`;
const BODIES = `SELECT c.body FROM ${ITEMS}`;
/** One long text is far cheaper than many rows. */
const LISTED = textFor(
  ({ listed }) => `SELECT count(*), ${listed("body")} FROM (SELECT c.body AS body FROM ${ITEMS}) AS stretch`,
);
/** {@link SEGMENTS}, each with its elements from an index on: how many they are, a colon, and {@link LISTED}. */
const WITH_ELEMENTS = textFor(
  ({ listed }) => `${PATH} SELECT list, start, upto, (SELECT count(*) || ':' || coalesce(${listed("body")}, '[]')
    FROM (SELECT c.body AS body FROM langgraph_items AS i CROSS JOIN langgraph_chunks AS c
      WHERE i.list = path.list AND i.pos >= path.start AND i.pos >= ?4 AND i.pos < path.upto AND c.seq = i.chunk
      ORDER BY i.pos) AS stretch) FROM path`,
);
/** How many elements are read at once, because texts have a maximum length. */
const READ_MAX = 4_096;
const ADDRESSES = `SELECT c.address FROM ${ITEMS}`;
const FOLLOWING = "SELECT chunk FROM langgraph_items WHERE list = ? AND pos >= ? AND pos < ? ORDER BY pos";

/**
 * Finds the longest prefix of the list that is stored already, in what the caller remembers or in the list that the channel had
 * before. The rest is stored at the end of that list or, if that list continued differently, in a new list that branches off.
 *
 * @param before the channel's value in the parent checkpoint
 */
export function* placeList(
  session: Session,
  key: ThreadState,
  packed: PackedList,
  before: Pointer | undefined,
): Program<readonly Segment[]> {
  const { segments, keep } = rememberedPrefix(key, packed) ?? (yield* storedPrefix(session, key, packed, before));
  const owner = segments.at(-1);
  if (owner === undefined) return [yield* newList(session, key, packed, undefined, 0)];
  if (key.facts.lists.get(owner.list) === keep) {
    yield* appendItems(session, key, packed, owner.list, keep);
    return segments;
  }
  const following = yield* session.rows<[number]>(FOLLOWING, owner.list, keep, packed.length);
  let at = keep;
  for (const [chunk] of following) {
    if ((yield* seqOfChunk(session, key, packed.chunk(at))) !== chunk) break;
    at += 1;
  }
  if (at === packed.length) return segments;
  if (at < keep + following.length) return [...segments, yield* newList(session, key, packed, owner.list, at)];
  yield* appendItems(session, key, packed, owner.list, at);
  return segments;
}

/** The location of a list that is completely stored. */
export function* placeOf(
  session: Session,
  key: ThreadState,
  packed: PackedList,
  pointer: ListPointer,
): Program<readonly Segment[]> {
  const known = rememberedPrefix(key, packed);
  if (known?.keep === packed.length) return known.segments;
  return (yield* segmentsOf(session, key, pointer)).map(({ list, from }) => ({ list, from }));
}

function rememberedPrefix(key: ThreadState, packed: PackedList): { segments: readonly Segment[]; keep: number } | undefined {
  return packed.known?.generation === key.generation ? packed.known : undefined;
}

function* storedPrefix(
  session: Session,
  key: ThreadState,
  packed: PackedList,
  before: Pointer | undefined,
): Program<{ segments: readonly Segment[]; keep: number }> {
  if (before?.kind !== "list") return { segments: [], keep: 0 };
  const segments = yield* segmentsOf(session, key, before);
  let keep = 0;
  search: for (const { list, from, upto } of segments) {
    for (const [address] of yield* session.rows<[string]>(ADDRESSES, list, from, upto)) {
      if (keep >= packed.length || packed.address(keep) !== address) break search;
      keep += 1;
    }
  }
  return { segments: segments.filter(({ from }) => from < keep).map(({ list, from }) => ({ list, from })), keep };
}

function* newList(
  session: Session,
  key: ThreadState,
  packed: PackedList,
  base: number | undefined,
  keep: number,
): Program<Segment> {
  const list = key.nextSeq();
  yield* session.insert(key, LIST_ROWS, { seq: list, base, keep });
  yield* appendItems(session, key, packed, list, keep);
  return { list, from: keep };
}

function* appendItems(session: Session, key: ThreadState, packed: PackedList, list: number, from: number): Program<void> {
  for (let pos = from; pos < packed.length; pos += 1) {
    const stored = packed.chunk(pos);
    const chunk = yield* storeChunk(session, key, stored);
    const seq = key.nextSeq();
    if (chunk !== STORED) yield* session.insert(key, ITEM_ROWS, { list, pos, seq, chunk });
    else yield* session.run(INSERT_BY_ADDRESS, list, pos, seq, key.thread, stored.address);
  }
  key.facts.lists.set(list, packed.length);
}

/** Reads the elements that the reader doesn't remember. The caller verifies the complete list by its digest. */
export function* readList(
  session: Session,
  key: ThreadPlace,
  pointer: ListPointer,
  remembered: Remembered,
): Program<StoredValue> {
  const from = remembered.elements(pointer.list, pointer.length, pointer.digest);
  if (from >= pointer.length) return knownList(pointer);
  const isShort = pointer.length - from <= READ_MAX && !session.sealing.encrypted;
  if (isShort && session.engine.sendsTogether === true) return yield* readAtOnce(session, key, pointer, from);
  const stretches: string[] = [];
  let found = 0;
  const segments = yield* segmentsOf(session, key, pointer);
  for (const { list, from: start, upto } of segments) {
    for (let at = Math.max(start, from); at < upto; at += READ_MAX) {
      for (const stretch of yield* readStretches(session, key, list, at, Math.min(at + READ_MAX, upto))) {
        found += stretch.length;
        if (stretch.length > 0) stretches.push(stretch.json);
      }
    }
  }
  if (found !== pointer.length - from) throw incomplete(key, pointer, from + found);
  return { ...pointer, segments: segments.map(({ list, from: start }) => ({ list, from: start })), from, stretches };
}

/** A list whose elements the reader remembers, all of them. */
export function knownList(pointer: ListPointer): StoredValue {
  return { ...pointer, segments: undefined, from: pointer.length, stretches: [] };
}

/** {@link readList} with one statement. */
function* readAtOnce(session: Session, key: ThreadPlace, pointer: ListPointer, from: number): Program<StoredValue> {
  const { list, length } = pointer;
  const rows = yield* session.rows<[number, number, number, string]>(WITH_ELEMENTS(session), list, key.thread, length, from);
  const path = rows.filter(([, start, upto]) => start < upto).reverse();
  const counted = path.map(([, , , text]) => [parseInt(text), text.slice(text.indexOf(":") + 1)] as const);
  const found = counted.reduce((sum, [count]) => sum + count, 0);
  if (found !== length - from) throw incomplete(key, pointer, from + found);
  const stretches = counted.filter(([count]) => count > 0).map(([, json]) => json);
  return { ...pointer, segments: path.map(([of, start]) => ({ list: of, from: start })), from, stretches };
}

type Json = string | Uint8Array;

/** JSON has no NUL, so in bytes one of the first two tells UTF-16: a handle that a caller brings may have made such a file. */
function jsonText(json: Json): string {
  if (typeof json === "string") return json;
  const bytes = Buffer.from(json.buffer, json.byteOffset, json.byteLength);
  const hasPairs = bytes.length % 2 === 0;
  if (hasPairs && bytes[0] === 0) return bytes.swap16().toString("utf16le");
  if (hasPairs && bytes[1] === 0) return bytes.toString("utf16le");
  return bytes.toString(isAscii(bytes) ? "latin1" : "utf8");
}

interface Stretch {
  length: number;
  /** Its elements as a JSON list. */
  json: string;
}

/** Texts have a maximum length, in SQLite and in JavaScript. A longer stretch is read in two halves. */
function* readStretches(session: Session, key: ThreadPlace, list: number, from: number, upto: number): Program<Stretch[]> {
  try {
    return [yield* readStretch(session, key, list, from, upto)];
  } catch (error) {
    if (upto - from < 2 || !isTooLong(error)) throw error;
    const middle = from + Math.floor((upto - from) / 2);
    return [
      ...(yield* readStretches(session, key, list, from, middle)),
      ...(yield* readStretches(session, key, list, middle, upto)),
    ];
  }
}

function isTooLong(error: unknown): boolean {
  const { code } = (error ?? {}) as { code?: unknown };
  return code === "SQLITE_TOOBIG" || code === "ERR_STRING_TOO_LONG" || error instanceof RangeError;
}

function* readStretch(session: Session, key: ThreadPlace, list: number, from: number, upto: number): Program<Stretch> {
  if (!session.sealing.encrypted) {
    const [[length, json] = [0, null]] = yield* session.rows<[number, Json | null]>(LISTED(session), list, from, upto);
    return { length, json: jsonText(json ?? "[]") };
  }
  const bodies = (yield* session.rows<[string | Uint8Array]>(BODIES, list, from, upto)).map(([body]) =>
    openBody(session, key.threadId, body),
  );
  return { length: bodies.length, json: `[${bodies.join(",")}]` };
}

/** The lists that a list consists of, from its first element on. `upto` is the end of each stretch. */
export function* segmentsOf(session: Session, key: ThreadPlace, pointer: ListPointer): Program<(Segment & { upto: number })[]> {
  if (pointer.length > 0 && session.engine.sendsTogether !== true) {
    const whole = yield* session.get<Segment>(WHOLE, pointer.list, key.thread);
    if (whole !== undefined) return [{ ...whole, upto: pointer.length }];
  }
  return (yield* session.rows<[number, number, number]>(SEGMENTS, pointer.list, key.thread, pointer.length))
    .map(([list, from, upto]) => ({ list, from, upto }))
    .filter(({ from, upto }) => from < upto)
    .reverse();
}

function incomplete(key: ThreadPlace, pointer: ListPointer, found: number): Error {
  return corrupted(`a list value of thread ${key.threadId}`, `${pointer.length} elements`, `${found}`, {
    threadId: key.threadId,
    list: pointer.list,
  });
}
