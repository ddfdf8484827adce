import { dump } from "../support/s1-tools";

/** How much is in a file, by table. */
export interface Contents {
  rows: Record<string, number>;
  /** Length of all texts and bytes, and eight for every number. */
  bytes: number;
  /** All texts there are. */
  texts: readonly string[];
}

export function contentsOf(path: string): Contents {
  const tables = dump(path);
  const cells = Object.values(tables).flatMap((rows) => rows.flatMap((row) => Object.values(row as object)));
  return {
    rows: Object.fromEntries(Object.entries(tables).map(([table, rows]) => [table.replace("langgraph_", ""), rows.length])),
    bytes: cells.reduce((total: number, cell: unknown) => total + sizeOf(cell), 0),
    texts: cells.filter((cell): cell is string => typeof cell === "string"),
  };
}

/** What came since, without the tables in which nothing did. */
export function growth(before: Contents, after: Contents): { rows: Record<string, number>; bytes: number } {
  const tables = Object.keys(after.rows).map((table): [string, number] => [
    table,
    after.rows[table]! - (before.rows[table] ?? 0),
  ]);
  return { rows: Object.fromEntries(tables.filter(([, count]) => count !== 0)), bytes: after.bytes - before.bytes };
}

function sizeOf(cell: unknown): number {
  if (typeof cell === "string") return Buffer.byteLength(cell);
  return cell instanceof Uint8Array ? cell.length : cell === null ? 0 : 8;
}
