import { corrupted } from "../refusals";
import type { MoveCursor, MovedKind, MovedLists, MovedRow } from "../moves";
import { mapped, type Program } from "../program";
import { ALL_ROWS, type AnyRows, ARCHIVED_ROWS } from "../rows";
import type { Session } from "../session";
import { firstSeq, SPAN } from "../spans";
import { ALL_TABLES, ARCHIVE, CHUNKS, type Column, fieldOf, RUNS, rowsOfThread, type Table, THREAD_TABLES } from "../tables";
import { type ArchivedRow, verifyArchived } from "./archive";
import { parseManifest } from "./heads";
import { ListsOfThread } from "./move-lists";
import { manifestText } from "./put-checkpoint";
import { type AnyRow, archivedRow, archivedText, openedRow, rowsNamed } from "./row-references";
import { threadOrSignpost } from "./thread-rows";

/** Rows may have large contents. */
const PAGE = 64;

/** The tables in the order in which their rows are written: what others refer to comes first. */
const BY_NUMBER: readonly Table[] = [...THREAD_TABLES].reverse();
/** Tables with few rows per thread that know only the thread's id. A run doesn't move. */
const BY_ID: readonly Table[] = ALL_TABLES.filter(
  (table) =>
    table.ofThread !== undefined &&
    "column" in table.ofThread &&
    table.ofThread.column === "thread_id" &&
    table !== RUNS &&
    table !== ARCHIVE,
);
/** What moves with a thread, besides its own row and its tombstone. */
export const MOVED: readonly Table[] = [...BY_NUMBER, ARCHIVE, ...BY_ID];

/** A thread under its number here. */
interface Numbered {
  threadId: string;
  thread: number;
}

const OF_ARCHIVE = ARCHIVED_ROWS.select(`WHERE rewind_id = ? AND ordinal > ? ORDER BY ordinal LIMIT ${PAGE}`);
const NEXT_ARCHIVE = "SELECT min(rewind_id) AS id FROM langgraph_archive WHERE thread_id = ? AND rewind_id > ?";

interface Page {
  rows: MovedRow[];
  next: MoveCursor | undefined;
}

interface Step {
  rows: AnyRows;
  query: string;
  by: readonly string[];
}

const STEPS: readonly Step[] = BY_NUMBER.map((table) => {
  const by =
    table.name === "langgraph_items" || table.columns["seq"] === undefined
      ? table.key.filter((name) => name !== "thread")
      : ["seq"];
  const rows = rowsOf(table);
  // A table with one row per thread.
  if (by.length === 0) return { rows, by, query: rows.select(`WHERE ${rowsOfThread(table)}`) };
  const behind = `(${by.join(", ")}) > (${by.map((_, at) => `?${at + 2}`).join(", ")})`;
  const order = `ORDER BY ${by.join(", ")} LIMIT ${PAGE}`;
  return { rows, by, query: rows.select(`WHERE ${rowsOfThread(table)} AND ${behind} ${order}`) };
});

function rowsOf(table: Table): AnyRows {
  const rows = ALL_ROWS.find((one) => one.table === table);
  if (rows === undefined) throw new Error(`${table.name} has no rows`);
  return rows;
}

/** Where the values are, and where the archives of rewinds begin. */
const STEP_OF_VALUES = BY_NUMBER.findIndex(({ name }) => name === CHUNKS.name);
const STEP_OF_ARCHIVES = BY_NUMBER.length;

/**
 * Some rows of a thread, opened and verified.
 *
 * @param cursor where to continue; or only the values, or only the archives of rewinds
 * @param lists adds digests of what its manifest leads to
 * @returns the rows, and where to continue; undefined behind the last one
 * @throws {TurnsError} CHECKPOINT_CORRUPTED
 */
export function* rowsToMove(
  session: Session,
  at: Numbered,
  cursor: MoveCursor = { step: 0, after: [] },
  lists?: MovedLists,
): Program<{ rows: MovedRow[]; next: MoveCursor | undefined }> {
  const step = STEPS[cursor.step];
  const { rows, next } = step === undefined ? yield* archivedPage(session, at, cursor) : yield* pageOf(session, at, step, cursor);
  const key = lists && (yield* threadOrSignpost(session, at.threadId));
  if (!(lists instanceof ListsOfThread) || key === undefined) return { rows, next };
  const withLists = yield* mapped(rows, function* (row) {
    return { ...row, lists: yield* lists.of(session, key, row) };
  });
  return { rows: withLists, next };
}

/** {@link rowsToMove} of the values, or of the archives, alone. */
export function* partToMove(
  session: Session,
  at: Numbered,
  part: MovedKind,
  cursor?: MoveCursor,
): Program<{ rows: MovedRow[]; next: MoveCursor | undefined }> {
  const step = part === "values" ? STEP_OF_VALUES : STEP_OF_ARCHIVES;
  const { rows, next } = yield* rowsToMove(session, at, cursor ?? { step, after: [] });
  return { rows, next: next?.step === step ? next : undefined };
}

function* pageOf(session: Session, at: Numbered, { rows, query, by }: Step, { step, after }: MoveCursor): Program<Page> {
  const raws = yield* session.all<AnyRow>(query, at.thread, ...(after.length === 0 ? startOf(rows.table, by) : after));
  const last = raws.at(-1);
  const isFull = last !== undefined && raws.length === PAGE;
  return {
    rows: raws.map((raw) => rowToMove(session, rows, at, raw)),
    next: isFull ? { step, after: by.map((column) => last[column] as string | number) } : { step: step + 1, after: [] },
  };
}

function* archivedPage(
  session: Session,
  at: Numbered,
  { step, after: [rewindId = "", ordinal = -1] }: MoveCursor,
): Program<Page> {
  const rows = yield* session.all<ArchivedRow>(OF_ARCHIVE, rewindId, ordinal);
  const moved = rows.map((row) => archivedToMove(session, at, row));
  const last = rows.at(-1);
  if (last !== undefined && rows.length === PAGE) return { rows: moved, next: { step, after: [rewindId, last.ordinal] } };
  const other = (yield* session.get<{ id: string | null }>(NEXT_ARCHIVE, at.threadId, rewindId))?.id;
  return { rows: moved, next: typeof other === "string" ? { step, after: [other, -1] } : undefined };
}

function startOf(table: Table, by: readonly string[]): (string | number)[] {
  return by.map((column) => (table.columns[column]?.type === "text" ? "" : Number.MIN_SAFE_INTEGER));
}

/** The thread's rows in tables that know only its id. */
export function* smallRowsToMove(session: Session, at: Numbered): Program<MovedRow[]> {
  const found: MovedRow[] = [];
  for (const table of BY_ID) {
    const rows = rowsOf(table);
    for (const raw of yield* session.all<AnyRow>(
      rows.select(`WHERE thread_id = ? ORDER BY ${table.key.join(", ")}`),
      at.threadId,
    ))
      found.push(rowToMove(session, rows, at, raw));
  }
  return found;
}

function rowToMove(session: Session, rows: AnyRows, at: Numbered, raw: AnyRow): MovedRow {
  const fields = openedRow(session, rows, at.threadId, raw);
  return { table: rows.table.name, fields: renumbered(rows.table, fields, (seq) => fromStart(at, seq)) };
}

function archivedToMove(session: Session, at: Numbered, archived: ArchivedRow): MovedRow {
  verifyArchived(session, archived);
  const { rewind_id: rewindId, ordinal, change, tbl } = archived;
  const rows = rowsNamed(tbl);
  if (rows === undefined)
    throw corrupted(`the archive of rewind ${rewindId}`, "rows of tables that there are", `one of ${tbl}`, { rewindId });
  return { ...rowToMove(session, rows, at, archivedRow(archived.row)), archived: { rewindId, ordinal, change } };
}

/**
 * Writes rows of {@link rowsToMove} under another number, sealed with the keys of this database.
 * @param at the thread here
 */
export function* saveMovedRows(session: Session, at: Numbered, moved: readonly MovedRow[]): Program {
  const stored = new Map<string, readonly string[]>();
  for (const { table, fields, archived } of moved) {
    const rows = rowsNamed(table) as AnyRows;
    const values = rows.values(session.sealing, at, renumbered(rows.table, fields, (seq) => fromNumber(at, seq)) as never);
    if (archived === undefined) yield* session.run(rows.insert, ...values);
    else {
      const described = Object.keys(rows.table.columns);
      // Without those that somebody else has added here.
      const columns =
        stored.get(table) ?? (yield* session.engine.columnsOf(table)).filter((column) => described.includes(column));
      stored.set(table, columns);
      const row = Object.fromEntries(columns.map((column) => [column, values[described.indexOf(column)] ?? null]));
      const { threadId } = at;
      const kept = { ...archived, threadId, tbl: table, row: archivedText(row) };
      yield* session.run(ARCHIVED_ROWS.insert, ...ARCHIVED_ROWS.values(session.sealing, { thread: null, threadId }, kept));
    }
  }
}

/** The fields of a row with each number of a row changed, also where a manifest leads to lists. */
function renumbered(table: Table, fields: MovedRow["fields"], change: (seq: number) => number): MovedRow["fields"] {
  const changed: Record<string, unknown> = { ...fields };
  for (const [name, column] of Object.entries<Column>(table.columns)) {
    const field = fieldOf(name, column) ?? name;
    if (changed[field] === undefined) continue;
    if (column.seqOf !== undefined) changed[field] = change(changed[field] as number);
    else if (column.refers === "manifest") changed[field] = renumberedManifest(changed[field] as string, change);
  }
  return changed;
}

function renumberedManifest(text: string, change: (seq: number) => number): string {
  const manifest = [...parseManifest(text)].map(
    ([channel, { version, pointer }]) =>
      [channel, { version, pointer: pointer?.kind === "list" ? { ...pointer, list: change(pointer.list) } : pointer }] as const,
  );
  return manifestText(new Map(manifest));
}

/** Behind every number of a thread: 0 isn't a place. */
const NOWHERE = -SPAN;

/** @throws {TurnsError} CHECKPOINT_CORRUPTED for a seq of another thread */
function fromStart({ threadId, thread }: Numbered, seq: number): number {
  if (seq === 0) return NOWHERE;
  const count = seq - firstSeq(thread);
  if (count >= -1 && count < SPAN) return count;
  throw corrupted(`thread ${threadId}`, "references to rows of its own", `one to row ${seq}`, { threadId });
}

function fromNumber({ thread }: Numbered, count: number): number {
  return count === NOWHERE ? 0 : firstSeq(thread) + count;
}
