import { corrupted } from "../checksum";

type Key = string | number;

/**
 * Where a page of the file is damaged, what is read in the order of an index may lead back to what has been read, and whoever goes on from
 * the last row would never come to an end.
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
