import type { Sql } from "./sql";

/** Writes one row of a copy. What it writes was read before, so it can be repeated after a transaction that was rolled back. */
export type RowWrite = () => void;
/** Reads a thread row by row and yields how each is written; nothing, where there is only an opportunity to pause. */
export type RowWrites<T = void> = Generator<RowWrite | undefined, T, void>;
/** Reads, and yields where there is an opportunity to pause. */
export type Pauses<T> = Generator<undefined, T, void>;

type Key = string | number;

/** Rows that may have large contents. */
const ROWS_PER_PAGE = 50;
/** Below every number that SQLite stores exactly for us. */
export const FROM_START = Number.MIN_SAFE_INTEGER;

/**
 * Rows in the order of a key, read in pages: a cursor would stay open while others write.
 *
 * @param select binds the owner of the rows (`?1`), the key of the last row of the page before (`?2`) and the length of a page (`?3`)
 * @param last below every key
 */
export function* pagedRows<T>(
  from: Sql,
  select: string,
  owner: number,
  keyOf: (row: T) => Key,
  last: Key = FROM_START,
  length = ROWS_PER_PAGE,
): Generator<T, void, void> {
  for (let key = last; ;) {
    const page = from.now(from.all<T>(select, owner, key, length));
    yield* page;
    const end = page.at(-1);
    if (end === undefined || page.length < length) return;
    key = keyOf(end);
  }
}
