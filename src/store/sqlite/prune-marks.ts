import { chunkAddresses } from "../../codec";
import type { PrunePlan } from "../store";
import { openBody } from "../ops/values";
import { parseManifest } from "../ops/heads";
import { archivedNumbers, archivedTexts, archivesOf, REFERENCE, type Referring, storedTexts } from "./prune-texts";
import { refuseBack } from "./paging";
import type { Program } from "../program";
import type { Sql } from "../session";
import type { ThreadKey } from "../thread-state";

const PAGE = 1_000;
const CHUNKS = `SELECT seq, address, typeof(body) = 'blob' OR instr(body, ?4) > 0 FROM langgraph_chunks
  WHERE thread = ?1 AND address > ?2 ORDER BY address LIMIT ?3`;
const BODY = "SELECT body FROM langgraph_chunks WHERE seq = ?";
const LISTS = "SELECT seq, base, keep FROM langgraph_lists WHERE thread = ? ORDER BY seq DESC";
const ITEMS = "SELECT chunk FROM langgraph_items WHERE list = ? AND pos < ?";

interface ChunkNote {
  seq: number;
  refers: boolean;
}

/** What of a thread's values nothing refers to any more. */
export interface Unneeded {
  chunks: number[];
  /** Of each list the position from which its items go; 0 for the list as a whole, if it is not needed at all. */
  lists: { list: number; from: number; whole: boolean }[];
}

/**
 * Follows every reference from the rows that stay: manifests, superseded ones too, pending writes, turns, and what archives of rewinds
 * may bring back.
 *
 * @param without what is to be taken as gone already
 */
export function* unneededOf(sql: Sql, key: ThreadKey, without: PrunePlan | undefined): Program<Unneeded> {
  const lengths = new Map<number, number>();
  const addresses = new Set<string>();
  const mark = ({ kind, text }: Referring): void => {
    if (kind === "manifest") markManifest(text, lengths, addresses);
    else for (const address of chunkAddresses(text)) addresses.add(address);
  };
  const archives = yield* archivesOf(sql, key, without);
  yield* storedTexts(sql, key, without, mark);
  yield* archivedTexts(sql, key, archives, mark);
  const archived = yield* archivedNumbers(sql, archives);
  for (const { list, keep } of archived.bases) lengthen(lengths, list, keep);
  const lists = yield* listsOf(sql, key, lengths);
  return { lists, chunks: yield* chunksOf(sql, key, lengths, addresses, archived.chunks) };
}

function markManifest(text: string, lengths: Map<number, number>, addresses: Set<string>): void {
  for (const { pointer } of parseManifest(text).values()) {
    if (pointer?.kind === "whole") addresses.add(pointer.address);
    else if (pointer?.kind === "list") lengthen(lengths, pointer.list, pointer.length);
    else if (pointer !== undefined) for (const address of chunkAddresses(pointer.text)) addresses.add(address);
  }
}

function lengthen(lengths: Map<number, number>, list: number, length: number): void {
  lengths.set(list, Math.max(lengths.get(list) ?? 0, length));
}

/** A base is older than what builds on it, so one pass from the newest list on finds all. */
function* listsOf(sql: Sql, { thread }: ThreadKey, lengths: Map<number, number>): Program<Unneeded["lists"]> {
  return (yield* sql.rows<[number, number | null, number]>(LISTS, thread)).map(([list, base, keep]) => {
    const length = lengths.get(list);
    if (length === undefined) return { list, from: 0, whole: true };
    if (base !== null) lengthen(lengths, base, Math.min(keep, length));
    return { list, from: length, whole: false };
  });
}

/** @param numbered chunks that are needed by their numbers, besides those of the lists and of the addresses */
function* chunksOf(
  sql: Sql,
  key: ThreadKey,
  lengths: ReadonlyMap<number, number>,
  addresses: ReadonlySet<string>,
  numbered: readonly number[],
): Program<number[]> {
  const notes = yield* notesOf(sql, key);
  const bySeq = new Map([...notes].map(([address, { seq }]) => [seq, address]));
  const waiting = [...addresses, ...numbered.map((chunk) => bySeq.get(chunk) ?? "")];
  for (const [list, length] of lengths) {
    for (const [chunk] of yield* sql.rows<[number]>(ITEMS, list, length)) waiting.push(bySeq.get(chunk) ?? "");
  }
  for (let address = waiting.pop(); address !== undefined; address = waiting.pop()) {
    const note = notes.get(address);
    if (note === undefined) continue;
    notes.delete(address);
    if (note.refers) waiting.push(...(yield* referencesOf(sql, key, note.seq)));
  }
  return [...notes.values()].map(({ seq }) => seq);
}

function* notesOf(sql: Sql, { thread }: ThreadKey): Program<Map<string, ChunkNote>> {
  const notes = new Map<string, ChunkNote>();
  for (let after = ""; ;) {
    const page = yield* sql.rows<[number, string, number]>(CHUNKS, thread, after, PAGE, REFERENCE);
    for (const [seq, address, refers] of page) notes.set(address, { seq, refers: refers === 1 });
    const last = page.at(-1);
    if (last === undefined || page.length < PAGE) return notes;
    refuseBack("langgraph_chunks", after, last[1]);
    after = last[1];
  }
}

function* referencesOf(sql: Sql, { threadId }: ThreadKey, seq: number): Program<string[]> {
  const row = yield* sql.get<{ body: string | Uint8Array }>(BODY, seq);
  return row === undefined ? [] : chunkAddresses(openBody(sql, threadId, row.body));
}
