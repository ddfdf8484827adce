import { isDeepStrictEqual } from "node:util";

/** A difference between two JSON values. */
export interface Difference {
  /** Where: `items[2].text`. Empty for the value itself. */
  path: string;
  change: "added" | "removed" | "changed";
  /** Missing if it was added, or removed. */
  before?: unknown;
  after?: unknown;
}

/**
 * All differences between two JSON values, in the order of their keys. Elements with an `id` are compared with those of the same id,
 * unless an id is there twice or their order changed.
 */
export function differencesOf(before: unknown, after: unknown): Difference[] {
  const found: Difference[] = [];
  compare(before, after, "", found);
  return found;
}

function compare(before: unknown, after: unknown, path: string, found: Difference[]): void {
  if (isDeepStrictEqual(before, after)) return;
  if (Array.isArray(before) && Array.isArray(after)) return compareLists(before, after, path, found);
  if (isRecord(before) && isRecord(after)) return compareRecords(before, after, path, found);
  found.push({ path, change: "changed", before, after });
}

function compareRecords(
  before: Record<string, unknown>,
  after: Record<string, unknown>,
  path: string,
  found: Difference[],
): void {
  for (const key of new Set([...Object.keys(before), ...Object.keys(after)])) {
    const at = path === "" ? key : `${path}.${key}`;
    if (!Object.hasOwn(before, key)) found.push({ path: at, change: "added", after: after[key] });
    else if (!Object.hasOwn(after, key)) found.push({ path: at, change: "removed", before: before[key] });
    else compare(before[key], after[key], at, found);
  }
}

function compareLists(before: readonly unknown[], after: readonly unknown[], path: string, found: Difference[]): void {
  const [old, now] = [byId(before), byId(after)];
  if (old !== undefined && now !== undefined && inOneOrder(old, now)) {
    before.forEach((item, at) => {
      if (!now.has(idOf(item))) found.push({ path: `${path}[${at}]`, change: "removed", before: item });
    });
    after.forEach((item, at) => {
      if (old.has(idOf(item))) compare(old.get(idOf(item)), item, `${path}[${at}]`, found);
      else found.push({ path: `${path}[${at}]`, change: "added", after: item });
    });
    return;
  }
  for (let at = 0; at < Math.max(before.length, after.length); at += 1) {
    if (at >= before.length) found.push({ path: `${path}[${at}]`, change: "added", after: after[at] });
    else if (at >= after.length) found.push({ path: `${path}[${at}]`, change: "removed", before: before[at] });
    else compare(before[at], after[at], `${path}[${at}]`, found);
  }
}

/** Undefined if an element has no id, or two have the same. */
function byId(list: readonly unknown[]): Map<unknown, unknown> | undefined {
  const found = new Map(list.map((item) => [idOf(item), item]));
  return found.size === list.length && !found.has(undefined) ? found : undefined;
}

/** Whether the ids that are in both are in the same order. */
function inOneOrder(old: ReadonlyMap<unknown, unknown>, now: ReadonlyMap<unknown, unknown>): boolean {
  const kept = [...old.keys()].filter((id) => now.has(id));
  const left = [...now.keys()].filter((id) => old.has(id));
  return kept.every((id, at) => id === left[at]);
}

function idOf(item: unknown): unknown {
  const id = isRecord(item) ? item["id"] : undefined;
  return typeof id === "string" || typeof id === "number" ? id : undefined;
}

function isRecord(value: unknown): value is Record<string, unknown> {
  return typeof value === "object" && value !== null && !Array.isArray(value);
}
