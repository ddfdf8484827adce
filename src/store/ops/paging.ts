import { corrupted } from "../refusals";
import type { Bound, Program } from "../program";
import type { Session } from "../session";

type Key = string | number;

/**
 * On a damaged page, an index may lead back to rows that were already read. A walk that continues from the last row would then
 * never finish.
 *
 * @throws {TurnsError} CHECKPOINT_CORRUPTED unless `next` is behind `last` in the order of the index
 */
export function refuseBack(table: string, last: Key, next: Key): void {
  if (isBehind(last, next)) return;
  throw corrupted(`an index of ${table}`, "rows in its order", "a row that comes before the last one", { table });
}

/** In SQLite's order: numbers before texts, texts by their bytes. */
export function isBehind(last: Key, next: unknown): boolean {
  if (typeof last === "number") return typeof next === "number" ? next > last : typeof next === "string";
  return typeof next === "string" && Buffer.compare(Buffer.from(next, "utf8"), Buffer.from(last, "utf8")) > 0;
}

/** How many values are bound at once. */
const PART = 64;
/** SQL: a column is one of a part's values; see {@link partsOf}. */
export const IN_PART = "IN (" + Array<string>(PART).fill("?").join(", ") + ")";

/** Splits lists of any length for statements with a fixed text. The last part is filled up with NULL, which equals nothing. */
export function partsOf(values: readonly number[]): (number | null)[][] {
  const parts = Math.ceil(values.length / PART);
  return Array.from({ length: parts }, (_, part) => Array.from({ length: PART }, (__, at) => values[part * PART + at] ?? null));
}

/** A query that is read a page at a time, so that not all of it is in memory at once. */
interface Paged {
  readonly table: string;
  /** In the order of `key`, behind the last value bound, up to `limit` rows. */
  readonly query: string;
  readonly bound: readonly Bound[];
  readonly key: string;
  readonly begin: Key;
  readonly limit: number;
}

/**
 * @param work may query the database itself
 * @throws {TurnsError} CHECKPOINT_CORRUPTED if the rows lead back
 */
export function* eachRow<R extends object>(session: Session, paged: Paged, work: (row: R) => Program | undefined): Program {
  const { table, query, bound, key, limit } = paged;
  for (let after = paged.begin; ;) {
    const rows = yield* session.all<R>(query, ...bound, after);
    for (const row of rows) {
      const asked = work(row);
      if (asked !== undefined) yield* asked;
    }
    const last = rows.at(-1) as Record<string, Key> | undefined;
    if (last === undefined || rows.length < limit) return;
    refuseBack(table, after, last[key] as Key);
    after = last[key] as Key;
  }
}
