import { z } from "zod";

/** Where a list begins, and how much of it to read. */
export interface PageOptions<C extends string | number = number> {
  /** Only what comes behind this: the `cursor` of the page before. */
  after?: C | undefined;
  /** How many at most. Default: all. */
  limit?: number | undefined;
}

/** A list, or a page of one: an array that also says where the next page begins. */
export interface Page<T, C extends string | number = number> extends Array<T> {
  /** Pass it as `after` to read the next page; undefined on the last one. */
  readonly cursor: C | undefined;
}

const limit = () => z.number().int().min(0).optional();
/** Of lists whose cursor is a `seq`. */
export const seqPage = () => z.strictObject({ after: z.number().int().min(0).optional(), limit: limit() });
/** Of lists whose cursor is an id or a name. */
export const textPage = () => z.strictObject({ after: z.string().optional(), limit: limit() });

/** How many rows to read for a page: one more tells whether there is another page. */
export function rowsFor(limit: number | undefined): number | undefined {
  return limit === undefined ? undefined : limit + 1;
}

/** @param rows those behind `after`, up to {@link rowsFor} of them or more */
export function pageOf<T, C extends string | number>(
  rows: readonly T[],
  limit: number | undefined,
  cursorOf: (item: T) => C,
): Page<T, C> {
  const items = rows.slice(0, limit);
  const last = items.at(-1);
  const cursor = last === undefined || items.length === rows.length ? undefined : cursorOf(last);
  // Not enumerable: the page compares, and turns into JSON, as the array that it is.
  return Object.defineProperty(items, "cursor", { value: cursor }) as unknown as Page<T, C>;
}
