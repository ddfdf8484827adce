import type { SqliteSql } from "../engine";
import type { Pages } from "./pages";
import type { RawValue } from "./records";
import { type Gap, owners, rowsBelow, type TreeRow } from "./trees";

interface Column {
  name: string;
  type: string;
  notnull: number;
  pk: number;
}

/** A table as its rows stand in a file. */
export interface SourceTable {
  name: string;
  columns: readonly Column[];
  /** The column that is the rowid and stands in no record; undefined if there is none. */
  alias: string | undefined;
  withoutRowid: boolean;
  root: number;
  owned: readonly number[];
  /** The tree of the index that each of its rows is in because it has a key of its own, if there is one. */
  index: { root: number; owned: readonly number[] } | undefined;
}
/** A page or a row that could not be read, and whose it is. */
export interface TableGap extends Gap {
  table: string;
}
export type SourceRow = Record<string, RawValue>;

const NAMES = "SELECT name, rootpage, sql FROM sqlite_schema WHERE type = 'table' AND name LIKE 'langgraph\\_%' ESCAPE '\\'";

/**
 * The tables of a file, as this version of the schema has them.
 *
 * @param fresh a file that was just created: where the source does not tell any more where a table begins, it began where that of a fresh
 *   file does, unless other tables were there first; what is read from there has to verify like everything else
 */
export function tablesOf(pages: Pages, fresh: SqliteSql, gaps: TableGap[]): { tables: SourceTable[]; isOurs: boolean } {
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

/** The rows of a table that have its form. `rowid` is among their columns where it is a column of no other name. */
export function* sourceRows(pages: Pages, table: SourceTable, gaps: TableGap[]): Generator<SourceRow> {
  const ownGaps: Gap[] = [];
  for (const row of rowsBelow(pages, table.root, table.owned, ownGaps)) {
    const named = rowOf(table, row);
    if (named !== undefined) yield named;
    else ownGaps.push({ page: 0, why: `a row that has not the form of ${table.name}` });
  }
  gaps.push(...ownGaps.map((gap) => ({ ...gap, table: table.name })));
}

/** Rows that went without a trace but for their place in an index: where nothing else counts them, or refers to them. */
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

/** A table without rowids keeps its key first. */
function storedOrder(columns: readonly Column[]): Column[] {
  const keys = columns.filter(({ pk }) => pk > 0).toSorted((left, right) => left.pk - right.pk);
  return [...keys, ...columns.filter(({ pk }) => pk === 0)];
}

function fits(value: RawValue, { type, notnull }: Column): boolean {
  if (value === null) return notnull === 0;
  if (type === "INTEGER") return typeof value === "number" && Number.isInteger(value);
  return type === "TEXT" ? typeof value === "string" : true;
}
