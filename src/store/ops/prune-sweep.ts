import { chunkAddresses } from "../../codec";
import { textFor } from "../dialect";
import { answered, type Program, question, type Statement } from "../program";
import { type AnyRows, EFFECT_ROWS, SNAPSHOT_ROWS, TURN_ROWS, WRITE_ROWS } from "../rows";
import type { Session } from "../session";
import { type AnyRow, archivedRow, openedRow, type References, referencesOf, rowsNamed } from "./row-references";
import { malformed } from "./stored-json";
import type { PrunePlan, SweepPlan } from "../store";
import { ARCHIVE, CHUNKS, ITEMS, LISTS } from "../tables";
import type { ThreadState } from "../thread-state";
import { eachRow, IN_PART, partsOf } from "./paging";
import { aboutThread, outdate, threadKey } from "./thread-rows";
import { openBody, REFERENCE } from "./values";

const DELETE_CHUNKS = `DELETE FROM langgraph_chunks WHERE +thread = ? AND seq ${IN_PART}`;
/** From the end, so that at any time the rest is a shorter list. */
const DELETE_ITEMS = `DELETE FROM langgraph_items WHERE list = ?1 AND pos IN
  (SELECT pos FROM langgraph_items WHERE list = ?1 AND pos >= ?2 ORDER BY pos DESC LIMIT ?3)`;
const HAS_ITEMS = "SELECT 1 FROM langgraph_items WHERE list = ? AND pos >= ? LIMIT 1";
const DELETE_LIST = "DELETE FROM langgraph_lists WHERE seq = ? AND thread = ?";
/** A row of its own, plus the pages that its body fills at SQLite's usual page size. */
const TO_READ = `SELECT coalesce(sum(pages), 0) AS pages FROM (SELECT 1 + octet_length(body) / 4096 AS pages
  FROM langgraph_chunks WHERE thread = ? LIMIT ?) AS examined`;

/** How much was pruned from a thread since it was last swept. */
export function* unswept(session: Session, threadId: string): Program<number> {
  const key = yield* threadKey(session, threadId);
  return key === undefined ? 0 : key.row.unswept;
}

/**
 * About how many pages a sweep would read.
 * @param limit examines at most this many values
 */
export function* pagesToSweep(session: Session, threadId: string, limit: number): Program<number> {
  const key = yield* threadKey(session, threadId);
  return (key && (yield* session.get<{ pages: number }>(TO_READ, key.thread, limit))?.pages) ?? 0;
}

/**
 * Finds the values that nothing refers to any more.
 *
 * @param without rows to be treated as already removed, to tell what a prune would sweep
 */
export function* sweepPlan(session: Session, threadId: string, without: PrunePlan | undefined): Program<SweepPlan | undefined> {
  const asked = (thread: number): Statement[] => [question("arrays", ARCHIVES, threadId), question("arrays", LISTS_OF, thread)];
  return yield* aboutThread(session, threadId, asked, (key) => planOf(session, key, without));
}

function* planOf(session: Session, key: ThreadState, without: PrunePlan | undefined): Program<SweepPlan> {
  const { chunks, lists } = yield* unneededOf(session, key, without);
  // Newest first: a chunk is stored after those that it refers to, and must not outlive them if the sweep stops halfway.
  chunks.sort((left, right) => right - left);
  return { threadId: key.threadId, chunks, lists, unswept: key.row.unswept, stamp: key.stamp };
}

/**
 * Deletes up to `limit` rows of a plan, lists first. If the thread has changed since the plan was made, it plans again. With the
 * last row the thread counts as swept, up to what had been pruned when the plan was made.
 *
 * @returns how many chunks were deleted, and what is left of the plan
 */
export function* sweepBatch(session: Session, plan: SweepPlan, limit: number): Program<{ chunks: number; rest: SweepPlan }> {
  const key = yield* threadKey(session, plan.threadId);
  if (key === undefined) return { chunks: 0, rest: { ...plan, chunks: [], lists: [], unswept: 0 } };
  const current = key.stamp === plan.stamp ? plan : yield* planOf(session, key, undefined);
  const lists = [...current.lists];
  let left = limit;
  while (left > 0 && lists[0] !== undefined) {
    const { list, from, whole } = lists[0];
    const items = yield* session.changes(DELETE_ITEMS, list, from, left);
    if (items >= left) break;
    if (whole) yield* session.run(DELETE_LIST, list, key.thread);
    lists.shift();
    left -= items + 1;
  }
  const chunks = lists.length > 0 ? [] : current.chunks.slice(0, Math.max(1, left));
  const deleted = yield* session.changesTogether(
    partsOf(chunks).map((part) => question("count", DELETE_CHUNKS, key.thread, ...part)),
  );
  const swept = deleted.reduce((sum, count) => sum + count, 0);
  if (current.chunks.length + current.lists.length > 0) outdate(key);
  const rest = { ...current, lists, chunks: current.chunks.slice(chunks.length), stamp: key.stamp };
  if (rest.chunks.length + lists.length > 0) return { chunks: swept, rest };
  key.change({ unswept: Math.max(0, key.row.unswept - current.unswept) });
  return { chunks: swept, rest: { ...rest, unswept: 0 } };
}

const PAGE = 1_000;
/** Rows with their contents take more memory than their numbers. */
const CONTENTS_PAGE = 100;
/** The tables whose rows lead to values. For checkpoints, only the manifest does, and their metadata may be large. */
const REFERRING: readonly (readonly [rows: AnyRows, columns: string])[] = [
  [SNAPSHOT_ROWS, "seq, channels"],
  ...[WRITE_ROWS, TURN_ROWS, EFFECT_ROWS].map((rows) => [rows, rows.columns] as const),
];
const ARCHIVES = "SELECT DISTINCT rewind_id FROM langgraph_archive WHERE thread_id = ?";
const ARCHIVED_TABLES = [...REFERRING.map(([{ table }]) => table), CHUNKS, LISTS, ITEMS].map(({ name }) => name);
const ARCHIVED = `SELECT ordinal, tbl, row FROM langgraph_archive WHERE rewind_id = ? AND ordinal > ? AND change = 'deleted'
  AND tbl IN (${ARCHIVED_TABLES.map((name) => `'${name}'`).join(", ")}) ORDER BY ordinal LIMIT ${CONTENTS_PAGE}`;
const NOTES = textFor(
  ({ holds }) => `SELECT seq, address, CASE WHEN ${holds("body", "?2")} THEN 1 ELSE 0 END AS refers FROM langgraph_chunks
  WHERE thread = ?1 AND address > ?3 ORDER BY address LIMIT ${PAGE}`,
);
const BODY = "SELECT body FROM langgraph_chunks WHERE seq = ?";
const LISTS_OF = "SELECT seq, base, keep FROM langgraph_lists WHERE thread = ? ORDER BY seq DESC";
const ITEMS_BEFORE = "SELECT chunk FROM langgraph_items WHERE list = ? AND pos < ?";

/** Values that are needed: addresses of chunks, and the needed length of each list. */
class Marks {
  readonly addresses = new Set<string>();
  readonly lengths = new Map<number, number>();

  add({ texts, pointers }: References): void {
    for (const text of texts) for (const address of chunkAddresses(text)) this.addresses.add(address);
    for (const pointer of pointers) {
      if (pointer.kind === "whole") this.addresses.add(pointer.address);
      else this.lengthen(pointer.list, pointer.length);
    }
  }

  lengthen(list: number, length: number): void {
    this.lengths.set(list, Math.max(this.lengths.get(list) ?? 0, length));
  }
}

/**
 * The values of a thread that nothing refers to any more. It follows every reference of the rows that stay: manifests (superseded
 * ones too), pending writes, turns, effects, and rows that archives of rewinds may restore.
 */
function* unneededOf(
  session: Session,
  key: ThreadState,
  without: PrunePlan | undefined,
): Program<{ chunks: number[]; lists: SweepPlan["lists"] }> {
  const marks = new Marks();
  const notes = new Map<string, Note>();
  yield* session.sideBySide([...markStored(session, key, without, marks), readNotes(session, key, notes)]);
  const archives = (yield* session.rows<[string]>(ARCHIVES, key.threadId))
    .map(([id]) => id)
    .filter((id) => without?.archives.includes(id) !== true);
  const chunks = new Set<number>();
  for (const id of archives) yield* markArchived(session, key, id, marks, chunks);
  const lists = yield* unneededLists(session, key, marks);
  const [needless, have] = yield* session.sideBySide([
    unneededChunks(session, key, { marks, notes, numbered: [...chunks] }),
    haveItems(session, lists),
  ]);
  return { lists: lists.filter((_, at) => have[at] === true), chunks: needless };
}

/** Whether something of each list is to be deleted. */
function* haveItems(session: Session, lists: SweepPlan["lists"]): Program<boolean[]> {
  const found = yield* session.sideBySide(
    lists.map(({ list, from, whole }) => (whole ? answered({}) : session.get(HAS_ITEMS, list, from))),
  );
  return found.map((one) => one !== undefined);
}

/** References of the thread's rows, except those of the plan: a program for each table. */
function markStored(session: Session, key: ThreadState, without: PrunePlan | undefined, marks: Marks): Program[] {
  return REFERRING.map(([rows, columns]) => {
    const { name: table, counted } = rows.table;
    const isPlanned = counted === "snapshots" || counted === "writes" || counted === "turns";
    const gone = new Set(isPlanned ? without?.units.flatMap((unit) => unit[counted]) : []);
    const query = `SELECT ${columns} FROM ${table} WHERE thread = ? AND seq > ? ORDER BY seq LIMIT ${CONTENTS_PAGE}`;
    const paged = { table, query, bound: [key.thread], key: "seq", begin: 0, limit: CONTENTS_PAGE };
    return eachRow<AnyRow>(session, paged, (raw) => {
      if (!gone.has(raw["seq"] as number)) marks.add(referencesIn(session, key, rows, raw));
      return undefined;
    });
  });
}

/**
 * References of the rows that taking a rewind back would restore. Elements name lists and chunks by number, and many of those are
 * older than what was rewound, so they are still there. An archive can be as large as the thread was.
 *
 * @param chunks gets the numbers of chunks
 */
function* markArchived(session: Session, key: ThreadState, rewindId: string, marks: Marks, chunks: Set<number>): Program {
  const paged = { table: ARCHIVE.name, query: ARCHIVED, bound: [rewindId], key: "ordinal", begin: 0, limit: CONTENTS_PAGE };
  yield* eachRow<{ tbl: string; row: string }>(session, paged, ({ tbl, row: text }) => {
    const row = archivedRow(text);
    if (tbl === LISTS.name) {
      if (row["base"] !== null) marks.lengthen(Number(row["base"]), Number(row["keep"]));
    } else if (tbl === ITEMS.name) chunks.add(Number(row["chunk"]));
    else marks.add(referencesIn(session, key, rowsNamed(tbl) as AnyRows, row));
    return undefined;
  });
}

/** The references aren't verified here: chunks are verified by their addresses on reading, manifests with their checkpoints. */
function referencesIn(session: Session, { threadId }: ThreadState, rows: AnyRows, raw: AnyRow): References {
  if (rows.table === SNAPSHOT_ROWS.table) return referencesOf(rows.table, raw);
  if (rows.table !== CHUNKS) return referencesOf(rows.table, openedRow(session, rows, threadId, raw));
  const { body } = raw;
  if (typeof body !== "string" && !(body instanceof Uint8Array)) throw malformed("an archived value", "a chunk with a body");
  return { texts: [openBody(session, threadId, body)], pointers: [] };
}

/** A base is older than what builds on it, so one pass from the newest list finds all. */
function* unneededLists(session: Session, { thread }: ThreadState, marks: Marks): Program<SweepPlan["lists"]> {
  return (yield* session.rows<[number, number | null, number]>(LISTS_OF, thread)).map(([list, base, keep]) => {
    const length = marks.lengths.get(list);
    if (length === undefined) return { list, from: 0, whole: true };
    if (base !== null) marks.lengthen(base, Math.min(keep, length));
    return { list, from: length, whole: false };
  });
}

/** A chunk, and whether it refers to others. */
interface Note {
  seq: number;
  refers: number;
}

/** @param notes gets all chunks of the thread, by address */
function* readNotes(session: Session, { thread }: ThreadState, notes: Map<string, Note>): Program {
  const bound = [thread, REFERENCE];
  const paged = { table: CHUNKS.name, query: NOTES(session), bound, key: "address", begin: "", limit: PAGE };
  yield* eachRow<Note & { address: string }>(session, paged, ({ address, seq, refers }) => {
    notes.set(address, { seq, refers });
    return undefined;
  });
}

/** So many bodies are in memory together. */
const BODIES = 16;

/** @param needed.numbered chunks that are needed by number, besides those of the marks */
function* unneededChunks(
  session: Session,
  key: ThreadState,
  { marks, notes, numbered }: { marks: Marks; notes: Map<string, Note>; numbered: readonly number[] },
): Program<number[]> {
  const bySeq = new Map([...notes].map(([address, { seq }]) => [seq, address]));
  const waiting = [...marks.addresses, ...numbered.map((chunk) => bySeq.get(chunk) ?? "")];
  const items = yield* session.sideBySide(
    [...marks.lengths].map(([list, length]) => session.rows<[number]>(ITEMS_BEFORE, list, length)),
  );
  for (const [chunk] of items.flat()) waiting.push(bySeq.get(chunk) ?? "");
  const referring: number[] = [];
  while (waiting.length + referring.length > 0) {
    for (let address = waiting.pop(); address !== undefined; address = waiting.pop()) {
      const note = notes.get(address);
      notes.delete(address);
      if (note?.refers === 1) referring.push(note.seq);
    }
    const rows = yield* session.sideBySide(
      referring.splice(0, BODIES).map((seq) => session.get<{ body: string | Uint8Array }>(BODY, seq)),
    );
    for (const row of rows) if (row !== undefined) waiting.push(...chunkAddresses(openBody(session, key.threadId, row.body)));
  }
  return [...notes.values()].map(({ seq }) => seq);
}
