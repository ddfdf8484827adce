import type { ThreadCounts } from "../../thread-state";
import { NO_ROWS } from "../../ops/thread-rows";
import { THREADS_MAX } from "../../spans";
import type { SqliteSession } from "../engine";
import type { Pages } from "./pages";
import { countOf, type SourceRow, sourceRows, type SourceTable, type TableGap } from "./rows";
import { othersFirst } from "../../../timers";

export interface RefusedRow {
  table: string;
  where: Readonly<Record<string, string | number | null>>;
  why: string;
}

export interface Copied {
  rows: ReadonlyMap<string, number>;
  counted: ReadonlyMap<number, ThreadCounts>;
  refused: readonly RefusedRow[];
  /** How many threads the source has had, by its own record and by the numbers of its threads. */
  threads: number;
}

/** Marks of runs, which may have gone further in what is lost; and rows that every new file has. */
const LEFT = new Set(["langgraph_runs", "langgraph_migrations"]);
const BATCH = 500;

/** Writes all readable rows into a new file, no matter what they contain: they are judged there. */
export async function copyRows(
  pages: Pages,
  tables: readonly SourceTable[],
  session: SqliteSession,
  gaps: TableGap[],
): Promise<Copied> {
  const rows = new Map<string, number>();
  const counted = new Map<number, ThreadCounts>();
  const refused: RefusedRow[] = [];
  let threads = 0;
  for (const table of tables) {
    if (LEFT.has(table.name)) continue;
    const source = sourceRows(pages, table, gaps);
    let [copied, read] = [0, 0];
    for (let batch = take(source); batch.length > 0; batch = take(source)) {
      session.db
        .transaction(() => {
          for (const row of batch) {
            threads = Math.max(threads, threadsBy(table, row));
            if (isThreadCount(table, row)) continue;
            if (table.name === "langgraph_threads") counted.set(Number(row["thread"]), countedOf(row));
            const why = insert(session, table, row);
            if (why === undefined) copied += 1;
            else refused.push({ table: table.name, where: keyOf(table, row), why });
          }
        })
        .immediate();
      read += batch.length;
      await othersFirst();
    }
    const indexed = countOf(pages, table);
    if (indexed > read) gaps.push({ table: table.name, page: table.root, why: `${indexed - read} rows are in its index alone` });
    rows.set(table.name, copied);
  }
  return { rows, counted, refused, threads };
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

/** @returns why the row could not be written: its unique key exists already, or the table doesn't allow one of its values */
function insert(session: SqliteSession, table: SourceTable, row: SourceRow): string | undefined {
  const columns = Object.keys(row);
  const text = `INSERT INTO ${table.name} (${columns.join(", ")}) VALUES (${columns.map(() => "?").join(", ")})`;
  try {
    session.now(session.run(text, ...columns.map((column) => row[column] ?? null)));
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

function countedOf(row: SourceRow): ThreadCounts {
  const kinds = Object.keys(NO_ROWS) as (keyof ThreadCounts)[];
  return Object.fromEntries(kinds.map((kind) => [kind, Number(row[kind])])) as unknown as ThreadCounts;
}

/** A new file already has that row. */
function isThreadCount({ name }: SourceTable, row: SourceRow): boolean {
  return name === "langgraph_settings" && row["name"] === "threads";
}

/** The number of threads according to this row. A damaged number may be any. */
function threadsBy(table: SourceTable, row: SourceRow): number {
  const number = isThreadCount(table, row) ? row["value"] : table.name === "langgraph_threads" ? row["thread"] : 0;
  return Number.isInteger(number) && Number(number) <= THREADS_MAX ? Number(number) : 0;
}
