import type { VerifyCounts } from "../integrity";
import { firstSeq } from "../spans";
import type { Table } from "../tables";
import { isBehind } from "./paging";
import type { Program } from "../program";
import type { VerifyContext } from "./verify-context";

type Key = string | number;

/** One table, or one way of looking at it. */
export interface Phase {
  readonly table: string;
  /** Looks at some rows. @returns whether there are more */
  next(ctx: VerifyContext): Program<boolean>;
}

export interface TableWalk<R> {
  table: string;
  counts?: keyof VerifyCounts;
  /** Columns that tell the rows apart and that an index has in this order; `rowid` is selected as `at`. */
  keys: readonly string[];
  columns?: string;
  where?: string;
  bound?: readonly Key[];
  /** Key to begin behind; by default the walk begins with the first row. */
  begin?: readonly Key[];
  /** How many rows are in memory at once. */
  limit: number;
  /**
   * Looks at a row; without a program if it asks for nothing else.
   *
   * @returns true if the row was too much for one step; it comes again, and nothing may be on record of it yet
   */
  check: (ctx: VerifyContext, row: R) => Program<boolean | void> | void;
}

/** Goes through a table in the order of its keys, a few rows at a time. */
export function walk<R extends object>({
  table,
  counts,
  keys,
  columns = "*",
  where = "TRUE",
  bound = [],
  begin,
  limit,
  check,
}: TableWalk<R>): Phase {
  const order = `ORDER BY ${keys.join(", ")} LIMIT ${limit}`;
  const first = `SELECT ${columns} FROM ${table} WHERE ${where} ${order}`;
  const behind = keys.length === 1 ? `${keys[0]} > ?` : `(${keys.join(", ")}) > (${keys.map(() => "?").join(", ")})`;
  const following = `SELECT ${columns} FROM ${table} WHERE ${where} AND ${behind} ${order}`;
  let after = begin;
  return {
    table,
    *next(ctx) {
      const rows =
        after === undefined ? yield* ctx.sql.all<R>(first, ...bound) : yield* ctx.sql.all<R>(following, ...bound, ...after);
      for (const row of rows) {
        const at = keys.map((key) => (row as Record<string, Key>)[key === "rowid" ? "at" : key] as Key);
        if (after !== undefined && !isAhead(after, at)) {
          ctx.problem("unreadable", undefined, {}, "rows in the order of their keys", "one that comes before the last one");
          return false;
        }
        if (yield* checked(ctx, row)) return true;
        after = at;
        if (counts !== undefined) ctx.count(counts);
        if (ctx.isOver) return true;
      }
      return rows.length === limit;
    },
  };

  function* checked(ctx: VerifyContext, row: R): Program<boolean> {
    try {
      const asked = check(ctx, row);
      return asked !== undefined && (yield* asked) === true;
    } catch (error) {
      const where = Object.fromEntries(keys.map((key) => [key, (row as Record<string, Key>)[key] ?? null]));
      ctx.failed(error, undefined, where);
      return false;
    }
  }
}

/** The first column in which they differ decides. */
function isAhead(after: readonly Key[], at: readonly Key[]): boolean {
  const differs = after.findIndex((key, index) => key !== at[index]);
  return differs >= 0 && isBehind(after[differs] as Key, at[differs]);
}

/**
 * Goes through a table whose key is seq: all of it, or what is a thread's. That is its range, and rows that carry its number and are
 * elsewhere: the indexes give them for rows of the thread.
 */
export function walkSeqs<R extends { seq: number; thread: number }>(
  only: number | undefined,
  described: Table & { called: keyof VerifyCounts },
  rest: Pick<TableWalk<R>, "limit" | "check">,
): Phase[] {
  const { name: table, called: counts, byThread } = described;
  if (only === undefined) return [walk<R>({ ...rest, table, counts, keys: ["seq"] })];
  const [first, end] = [firstSeq(only), firstSeq(only + 1)];
  // A lower bound in `where` would compete with the key that the walk goes on behind.
  const inRange = walk<R>({ ...rest, table, counts, keys: ["seq"], begin: [first - 1], where: "seq < ?", bound: [end] });
  if (byThread === undefined) return [inRange];
  const elsewhere = `seq IN (SELECT seq FROM ${table} INDEXED BY ${byThread} WHERE thread = ? AND (seq < ? OR seq >= ?))`;
  return [inRange, walk<R>({ ...rest, table, counts, keys: ["seq"], where: elsewhere, bound: [only, first, end] })];
}
