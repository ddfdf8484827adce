import { z } from "zod";

/** Where a list begins, and how much of it to read. */
export interface PageOptions<C extends string | number = number> {
  /** The `cursor` of the previous page: only later items are returned. */
  after?: C | undefined;
  /** The maximum number of items. Default: all. */
  limit?: number | undefined;
}

/** A list or a page of it: an array that also says where the next page begins. */
export interface Page<T, C extends string | number = number> extends Array<T> {
  /** Pass it as `after` to read the next page. Undefined on the last page. */
  readonly cursor: C | undefined;
}

const limit = () => z.number().int().min(0).optional();
/** For lists whose cursor is a `seq`. */
export const seqPage = () => z.strictObject({ after: z.number().int().min(0).optional(), limit: limit() });
/** For lists whose cursor is an id or a name. */
export const textPage = () => z.strictObject({ after: z.string().optional(), limit: limit() });

/** How many rows to read for a page: one extra row tells whether there is another page. */
export function rowsFor(limit: number | undefined): number | undefined {
  return limit === undefined ? undefined : limit + 1;
}

/** @param rows the rows after `after`: {@link rowsFor} of them, or more */
export function pageOf<T, C extends string | number>(
  rows: readonly T[],
  limit: number | undefined,
  cursorOf: (item: T) => C,
): Page<T, C> {
  const items = rows.slice(0, limit);
  const last = items.at(-1);
  const cursor = last === undefined || items.length === rows.length ? undefined : cursorOf(last);
  // Not enumerable, so that a page compares and serialises like a plain array.
  return Object.defineProperty(items, "cursor", { value: cursor }) as unknown as Page<T, C>;
}
