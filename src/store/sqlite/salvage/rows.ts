import type { TextDecoder } from "node:util";
import { push } from "../../../push";
import type { SqliteSession } from "../engine";
import type { Pages } from "./pages";

interface Column {
  name: string;
  type: string;
  notnull: number;
  pk: number;
}

export interface SourceTable {
  name: string;
  columns: readonly Column[];
  /** The column that is the rowid, which no record contains; undefined if there is none. */
  alias: string | undefined;
  withoutRowid: boolean;
  root: number;
  owned: readonly number[];
  /** The tree of the index of its own key, which has each of its rows, if there is one. */
  index: { root: number; owned: readonly number[] } | undefined;
}
/** A page or a row that couldn't be read, and its table. */
export interface TableGap extends Gap {
  table: string;
}
export type SourceRow = Record<string, RawValue>;

const NAMES = "SELECT name, rootpage, sql FROM sqlite_schema WHERE type = 'table' AND name LIKE 'langgraph\\_%' ESCAPE '\\'";

/**
 * The tables of a file, as this version of the schema has them.
 *
 * @param fresh a file that was just created. If the source no longer tells where a table begins, the table is looked for where
 *   the fresh file has it; that is right unless other tables were created first. Everything read from there has to verify like all
 *   other rows.
 */
export function tablesOf(pages: Pages, fresh: SqliteSession, gaps: TableGap[]): { tables: SourceTable[]; isOurs: boolean } {
  const ownGaps: Gap[] = [];
  const roots = new Map<string, number>();
  const indexes = new Map<string, number>();
  const pagesBelow = owners(pages);
  for (const { values } of rowsBelow(pages, 1, pagesBelow.get(1) ?? [], ownGaps)) {
    const [type, name, table, root] = values;
    const isOfAll = type === "index" && String(name).startsWith("sqlite_autoindex_");
    if (isOfAll && typeof table === "string" && typeof root === "number") indexes.set(table, root);
    if (type === "table" && typeof name === "string" && typeof root === "number") roots.set(name, root);
  }
  gaps.push(...ownGaps.map((gap) => ({ ...gap, table: "sqlite_schema" })));
  const expected = fresh.now(fresh.all<{ name: string; rootpage: number; sql: string }>(NAMES));
  const known = expected.filter(({ name }) => roots.has(name)).length;
  const tables = expected.map(({ name, rootpage, sql }) => {
    const columns = fresh.now(fresh.all<Column>("SELECT name, type, [notnull], pk FROM pragma_table_info(?) ORDER BY cid", name));
    const withoutRowid = /WITHOUT ROWID/i.test(sql);
    const keys = columns.filter(({ pk }) => pk > 0);
    const alias = !withoutRowid && keys.length === 1 && keys[0]?.type === "INTEGER" ? keys[0].name : undefined;
    const root = roots.get(name) ?? rootpage;
    const indexRoot = indexes.get(name);
    const index = indexRoot === undefined ? undefined : { root: indexRoot, owned: pagesBelow.get(indexRoot) ?? [] };
    return { name, columns, alias, withoutRowid, root, owned: pagesBelow.get(root) ?? [], index };
  });
  return { tables, isOurs: known > 1 || ownGaps.length > 0 };
}

/** The rows of a table that have its form. If `rowid` isn't the alias of a column, it is added as a column of its own. */
export function* sourceRows(pages: Pages, table: SourceTable, gaps: TableGap[]): Generator<SourceRow> {
  const ownGaps: Gap[] = [];
  for (const row of rowsBelow(pages, table.root, table.owned, ownGaps)) {
    const named = rowOf(table, row);
    if (named !== undefined) yield named;
    else ownGaps.push({ page: 0, why: `a row that has not the form of ${table.name}` });
  }
  gaps.push(...ownGaps.map((gap) => ({ ...gap, table: table.name })));
}

/**
 * How many rows an index has. Needed for rows that would vanish without a trace, because nothing else counts or references them.
 */
export function countOf(pages: Pages, { index }: SourceTable): number {
  let count = 0;
  if (index !== undefined) for (const _ of rowsBelow(pages, index.root, index.owned, [])) count += 1;
  return count;
}

function rowOf(table: SourceTable, { rowid, values }: TreeRow): SourceRow | undefined {
  const columns = table.withoutRowid ? storedOrder(table.columns) : table.columns;
  if (values.length !== columns.length || (rowid === undefined) !== table.withoutRowid) return undefined;
  const row: SourceRow = {};
  if (rowid !== undefined && table.alias === undefined) row["rowid"] = rowid;
  for (const [index, column] of columns.entries()) {
    const value = column.name === table.alias ? (rowid ?? null) : (values[index] ?? null);
    if (!fits(value, column)) return undefined;
    row[column.name] = value;
  }
  return row;
}

/** A table without rowids stores its key first. */
function storedOrder(columns: readonly Column[]): Column[] {
  const keys = columns.filter(({ pk }) => pk > 0).toSorted((left, right) => left.pk - right.pk);
  return [...keys, ...columns.filter(({ pk }) => pk === 0)];
}

function fits(value: RawValue, { type, notnull }: Column): boolean {
  if (value === null) return notnull === 0;
  if (type === "INTEGER") return typeof value === "number" && Number.isInteger(value);
  return type === "TEXT" ? typeof value === "string" : true;
}

interface TreeRow {
  /** Undefined in a table without rowids. */
  rowid: number | undefined;
  values: RawValue[];
}
/** A page, or a row on it, that couldn't be read. */
interface Gap {
  page: number;
  why: string;
}

const [INTERIOR_INDEX, INTERIOR_TABLE, LEAF_INDEX, LEAF_TABLE] = [2, 5, 10, 13];

/** The root that each page is below, according to the pointer map. The map also knows what is below a damaged page. */
function owners(pages: Pages): ReadonlyMap<number, readonly number[]> {
  if (!pages.mapped) return new Map();
  const known = new Map<number, number>();
  const owned = new Map<number, number[]>();
  for (let page = 3; page <= pages.count; page += 1) {
    const root = rootOf(pages, page, known);
    if (root !== 0) push(owned, root, page);
  }
  return owned;
}

/** 0 for a page that is below none. The depth is limited, because a damaged chain of pointers may be endless. */
function rootOf(pages: Pages, page: number, known: Map<number, number>, depth = 0): number {
  // The schema's own tree begins at page 1, which isn't in the map.
  const before = page === 1 ? 1 : known.get(page);
  if (before !== undefined) return before;
  const use = depth > 50 ? undefined : pages.use(page);
  let root = 0;
  if (use?.type === "root") root = page;
  else if (use?.type === "tree") root = rootOf(pages, use.parent, known, depth + 1);
  known.set(page, root);
  return root;
}

/**
 * All readable rows of a table: from its root down, and on every page that the pointer map has below that root. So a damaged page
 * costs only its own rows.
 *
 * @param owned the pages that the pointer map has below the root
 */
function* rowsBelow(pages: Pages, root: number, owned: readonly number[], gaps: Gap[]): Generator<TreeRow> {
  const seen = new Set<number>();
  const below = new Set(owned);
  const todo = [root, ...owned].reverse();
  for (let page = todo.pop(); page !== undefined; page = todo.pop()) {
    if (seen.has(page)) continue;
    seen.add(page);
    // A damaged pointer may lead to an abandoned page with deleted rows.
    if (page !== root && !below.has(page) && pages.use(page) !== undefined) {
      gaps.push({ page, why: "its pointer and the pointer map contradict each other" });
      continue;
    }
    const bytes = page >= 1 && page <= pages.count ? pages.read(page) : undefined;
    if (bytes === undefined) {
      gaps.push({ page, why: "the file ends before it, or it cannot be read" });
      continue;
    }
    yield* rowsOn(pages, page, bytes, todo, gaps);
  }
}

function* rowsOn(pages: Pages, page: number, bytes: Buffer, todo: number[], gaps: Gap[]): Generator<TreeRow> {
  const begin = page === 1 ? 100 : 0;
  const type = bytes[begin] ?? 0;
  const isLeaf = type === LEAF_INDEX || type === LEAF_TABLE;
  const isInterior = type === INTERIOR_INDEX || type === INTERIOR_TABLE;
  const cells = bytes.readUInt16BE(begin + 3);
  const pointers = begin + (isLeaf ? 8 : 12);
  if ((!isLeaf && !isInterior) || pointers + 2 * cells > pages.usable) {
    gaps.push({ page, why: "it is none of a table" });
    return;
  }
  for (let index = 0; index < cells; index += 1) {
    try {
      const at = bytes.readUInt16BE(pointers + 2 * index);
      if (at < pointers + 2 * cells || at >= pages.usable) throw new Unreadable("a row outside of the page");
      if (isInterior) todo.push(bytes.readUInt32BE(at));
      if (type !== INTERIOR_TABLE) yield rowAt(pages, bytes, isInterior ? at + 4 : at, type === LEAF_TABLE);
    } catch (error) {
      gaps.push({ page, why: error instanceof Unreadable ? error.message : "a row that does not fit its page" });
    }
  }
  if (isInterior) todo.push(bytes.readUInt32BE(begin + 8));
}

function rowAt(pages: Pages, bytes: Buffer, at: number, isTable: boolean): TreeRow {
  const [size, behind] = varint(bytes, at);
  let begin = behind;
  let rowid: number | undefined;
  if (isTable) [rowid, begin] = varint(bytes, behind);
  if (rowid !== undefined && !Number.isSafeInteger(rowid)) throw new Unreadable("a row number too large");
  return { rowid, values: recordOf(payloadAt(pages, bytes, begin, size, isTable), pages.texts) };
}

/** A payload that doesn't fit the page continues in a chain of overflow pages. */
function payloadAt(pages: Pages, bytes: Buffer, begin: number, size: number, isTable: boolean): Buffer {
  const { usable } = pages;
  if (size > usable * pages.count) throw new Unreadable("a row longer than the file");
  const most = isTable ? usable - 35 : Math.floor(((usable - 12) * 64) / 255) - 23;
  const least = Math.floor(((usable - 12) * 32) / 255) - 23;
  const middle = least + ((size - least) % (usable - 4));
  const local = size <= most ? size : middle <= most ? middle : least;
  if (begin + local > usable) throw new Unreadable("a row that leaves its page");
  const parts = [bytes.subarray(begin, begin + local)];
  if (local === size) return parts[0] as Buffer;
  let next = bytes.readUInt32BE(begin + local);
  for (let left = size - local; left > 0; left -= usable - 4) {
    const page = next >= 2 && next <= pages.count ? pages.read(next) : undefined;
    if (page === undefined) throw new Unreadable(`a row that continues at page ${next}, which cannot be read`);
    parts.push(page.subarray(4, 4 + Math.min(left, usable - 4)));
    next = page.readUInt32BE(0);
  }
  return Buffer.concat(parts);
}

/** A value as SQLite keeps it. This package never writes integers that a number can't hold. */
type RawValue = number | string | Buffer | null;

/** Something doesn't read as it should; the message says why. */
class Unreadable extends Error {}

/**
 * Reads an integer of variable length.
 * @returns the integer, and where it ends
 */
function varint(bytes: Buffer, at: number): [value: number, end: number] {
  let value = 0;
  for (let index = 0; index < 9; index += 1) {
    const byte = bytes[at + index];
    if (byte === undefined) throw new Unreadable("a number that is cut off");
    if (index === 8) return [value * 256 + byte, at + 9];
    value = value * 128 + (byte & 0x7f);
    if (byte < 0x80) return [value, at + index + 1];
  }
  throw new Unreadable("a number without end");
}

/** The columns of a record. @throws {Unreadable} */
function recordOf(payload: Buffer, texts: TextDecoder): RawValue[] {
  const [headerEnd, first] = varint(payload, 0);
  if (headerEnd > payload.length || headerEnd < first) throw new Unreadable("a record whose header does not fit");
  const values: RawValue[] = [];
  let at = headerEnd;
  for (let place = first; place < headerEnd;) {
    const [type, end] = varint(payload, place);
    place = end;
    const [value, next] = valueOf(payload, at, type, texts);
    values.push(value);
    at = next;
  }
  if (at !== payload.length) throw new Unreadable("a record that is longer, or shorter, than it says");
  return values;
}

const INTEGER_BYTES = [0, 1, 2, 3, 4, 6, 8];

function valueOf(payload: Buffer, at: number, type: number, texts: TextDecoder): [RawValue, number] {
  const size = type >= 12 ? (type - (type % 2) - 12) / 2 : type === 7 ? 8 : (INTEGER_BYTES[type] ?? 0);
  const end = at + size;
  if (end > payload.length) throw new Unreadable("a record that is cut off");
  if (type === 0) return [null, end];
  if (type <= 6) return [integer(payload, at, size), end];
  if (type === 7) return [payload.readDoubleBE(at), end];
  if (type === 8 || type === 9) return [type - 8, end];
  if (type < 12) throw new Unreadable("a value of a type that there is not");
  const bytes = payload.subarray(at, end);
  if (type % 2 === 0) return [Buffer.from(bytes), end];
  try {
    return [texts.decode(bytes), end];
  } catch {
    throw new Unreadable("a text that is none");
  }
}

function integer(payload: Buffer, at: number, size: number): number {
  if (size <= 6) return payload.readIntBE(at, size);
  const value = payload.readBigInt64BE(at);
  if (value > BigInt(Number.MAX_SAFE_INTEGER) || value < BigInt(Number.MIN_SAFE_INTEGER))
    throw new Unreadable("a number too large");
  return Number(value);
}
