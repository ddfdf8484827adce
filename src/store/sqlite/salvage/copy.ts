import type { Sql } from "../sql";
import type { Pages } from "./pages";
import { countOf, type SourceRow, sourceRows, type SourceTable, type TableGap } from "./tables";

/** What `langgraph_threads` counted of a thread in the source, by its number. */
export interface CountedRows {
  snapshots: number;
  writes: number;
  turns: number;
  effects: number;
  others: number;
}
/** A row that could not be taken along, by its table and key. */
export interface RefusedRow {
  table: string;
  where: Readonly<Record<string, string | number | null>>;
  why: string;
}

export interface Copied {
  /** By table. */
  rows: ReadonlyMap<string, number>;
  counted: ReadonlyMap<number, CountedRows>;
  refused: readonly RefusedRow[];
  /** The greatest number of the sequence that any row has. */
  newest: number;
}

/** Marks of processes that are gone, and what is written anew. */
const LEFT = new Set(["langgraph_runs", "langgraph_migrations", "langgraph_sequence"]);
/** Rows that are in memory at once. */
const BATCH = 500;

/** Writes all rows that can be read into a new file, whatever they say: they are judged there. */
export async function copyRows(pages: Pages, tables: readonly SourceTable[], sql: Sql, gaps: TableGap[]): Promise<Copied> {
  const rows = new Map<string, number>();
  const counted = new Map<number, CountedRows>();
  const refused: RefusedRow[] = [];
  let newest = 0;
  // Threads last: until they are there, no trigger counts.
  const order = [
    ...tables.filter(({ name }) => name !== "langgraph_threads"),
    ...tables.filter(({ name }) => name === "langgraph_threads"),
  ];
  for (const table of order) {
    const source = sourceRows(pages, table, gaps);
    if (table.name === "langgraph_sequence") for (const row of source) newest = Math.max(newest, sequenceOf(row));
    if (LEFT.has(table.name)) continue;
    let [copied, read] = [0, 0];
    for (let batch = take(source); batch.length > 0; batch = take(source)) {
      sql.db
        .transaction(() => {
          for (const row of batch) {
            newest = Math.max(newest, Number(row["seq"] ?? 0), table.name === "langgraph_threads" ? Number(row["thread"]) : 0);
            if (table.name === "langgraph_threads") counted.set(Number(row["thread"]), countedOf(row));
            const why = insert(sql, table, row);
            if (why === undefined) copied += 1;
            else refused.push({ table: table.name, where: keyOf(table, row), why });
          }
        })
        .immediate();
      read += batch.length;
      await new Promise((resolve) => setImmediate(resolve));
    }
    const indexed = countOf(pages, table);
    if (indexed > read) gaps.push({ table: table.name, page: table.root, why: `${indexed - read} rows are in its index alone` });
    rows.set(table.name, copied);
  }
  return { rows, counted, refused, newest };
}

function take(rows: Iterator<SourceRow>): SourceRow[] {
  const batch: SourceRow[] = [];
  while (batch.length < BATCH) {
    const next = rows.next();
    if (next.done === true) break;
    batch.push(next.value);
  }
  return batch;
}

/** @returns why the row could not be written: what is unique is there already, or a value is none that the table allows */
function insert(sql: Sql, table: SourceTable, row: SourceRow): string | undefined {
  const columns = Object.keys(row);
  const text = `INSERT INTO ${table.name} (${columns.join(", ")}) VALUES (${columns.map(() => "?").join(", ")})`;
  try {
    sql.now(sql.run(text, ...columns.map((column) => row[column] ?? null)));
    return undefined;
  } catch (error) {
    const code = (error as { code?: unknown }).code;
    if (typeof code === "string" && code.startsWith("SQLITE_CONSTRAINT"))
      return "it contradicts another row, or what its table allows";
    throw error;
  }
}

function keyOf(table: SourceTable, row: SourceRow): RefusedRow["where"] {
  const keys = table.columns.filter(({ pk }) => pk > 0).map(({ name }) => name);
  return Object.fromEntries(keys.map((key) => [key, plain(row[key])]));
}

function plain(value: SourceRow[string] | undefined): string | number | null {
  return typeof value === "string" || typeof value === "number" ? value : null;
}

function countedOf(row: SourceRow): CountedRows {
  const count = (kind: keyof CountedRows): number => Number(row[kind]);
  return {
    snapshots: count("snapshots"),
    writes: count("writes"),
    turns: count("turns"),
    effects: count("effects"),
    others: count("others"),
  };
}

function sequenceOf({ value, mirror }: SourceRow): number {
  return typeof value === "number" && mirror === -value ? value : 0;
}
