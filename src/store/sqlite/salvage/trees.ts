import type { Pages } from "./pages";
import { type RawValue, recordOf, Unreadable, varint } from "./records";

/** A row as it stands in a table's tree. */
export interface TreeRow {
  /** Undefined in a table without rowids. */
  rowid: number | undefined;
  values: RawValue[];
}
/** A page, or a row on it, that could not be read. */
export interface Gap {
  page: number;
  why: string;
}

const [INTERIOR_INDEX, INTERIOR_TABLE, LEAF_INDEX, LEAF_TABLE] = [2, 5, 10, 13];

/** Which root each page is below, by the pointer map, which knows also what is below a page that is damaged. */
export function owners(pages: Pages): ReadonlyMap<number, readonly number[]> {
  if (!pages.mapped) return new Map();
  const known = new Map<number, number>();
  const owned = new Map<number, number[]>();
  for (let page = 3; page <= pages.count; page += 1) {
    const root = rootOf(pages, page, known);
    if (root === 0) continue;
    const list = owned.get(root);
    if (list === undefined) owned.set(root, [page]);
    else list.push(page);
  }
  return owned;
}

function rootOf(pages: Pages, page: number, known: Map<number, number>): number {
  const way: number[] = [];
  let at = page;
  let root = 0;
  for (;;) {
    const before = known.get(at);
    if (before !== undefined) {
      root = before;
      break;
    }
    if (at === 1) {
      root = 1;
      break;
    }
    const use = pages.use(at);
    if (use === undefined || use.type === "free" || use.type === "overflow" || way.length > 50) break;
    way.push(at);
    if (use.type === "root") {
      root = at;
      break;
    }
    at = use.parent;
  }
  // The schema's own tree begins at page 1, which no map has.
  for (const one of way) known.set(one, root);
  return root;
}

/**
 * All rows of a table that can be read: from its root down, and on every page that the pointer map has below that root, so that a
 * damaged page costs its own rows alone.
 *
 * @param owned the pages that the pointer map has below the root
 */
export function* rowsBelow(pages: Pages, root: number, owned: readonly number[], gaps: Gap[]): Generator<TreeRow> {
  const seen = new Set<number>();
  const below = new Set(owned);
  const todo = [root, ...owned].reverse();
  for (let page = todo.pop(); page !== undefined; page = todo.pop()) {
    if (seen.has(page)) continue;
    seen.add(page);
    // A damaged pointer may lead to a page that was given up, with rows that were deleted.
    if (page !== root && !below.has(page) && pages.use(page) !== undefined) {
      gaps.push({ page, why: "its pointer and the pointer map contradict each other" });
      continue;
    }
    const bytes = page >= 1 && page <= pages.count ? pages.read(page) : undefined;
    if (bytes === undefined) {
      gaps.push({ page, why: "the file ends before it, or it cannot be read" });
      continue;
    }
    yield* rowsOn(pages, page, bytes, todo, gaps);
  }
}

function* rowsOn(pages: Pages, page: number, bytes: Buffer, todo: number[], gaps: Gap[]): Generator<TreeRow> {
  const begin = page === 1 ? 100 : 0;
  const type = bytes[begin] ?? 0;
  const isLeaf = type === LEAF_INDEX || type === LEAF_TABLE;
  const isInterior = type === INTERIOR_INDEX || type === INTERIOR_TABLE;
  const cells = bytes.readUInt16BE(begin + 3);
  const pointers = begin + (isLeaf ? 8 : 12);
  if ((!isLeaf && !isInterior) || pointers + 2 * cells > pages.usable) {
    gaps.push({ page, why: "it is none of a table" });
    return;
  }
  for (let index = 0; index < cells; index += 1) {
    try {
      const at = bytes.readUInt16BE(pointers + 2 * index);
      if (at < pointers + 2 * cells || at >= pages.usable) throw new Unreadable("a row outside of the page");
      if (isInterior) todo.push(bytes.readUInt32BE(at));
      if (type !== INTERIOR_TABLE) yield rowAt(pages, bytes, isInterior ? at + 4 : at, type === LEAF_TABLE);
    } catch (error) {
      gaps.push({ page, why: error instanceof Unreadable ? error.message : "a row that does not fit its page" });
    }
  }
  if (isInterior) todo.push(bytes.readUInt32BE(begin + 8));
}

function rowAt(pages: Pages, bytes: Buffer, at: number, isTable: boolean): TreeRow {
  const [size, behind] = varint(bytes, at);
  let begin = behind;
  let rowid: number | undefined;
  if (isTable) [rowid, begin] = varint(bytes, behind);
  if (rowid !== undefined && !Number.isSafeInteger(rowid)) throw new Unreadable("a row number too large");
  return { rowid, values: recordOf(payloadAt(pages, bytes, begin, size, isTable), pages.texts) };
}

/** What does not fit the page goes on in a chain of others. */
function payloadAt(pages: Pages, bytes: Buffer, begin: number, size: number, isTable: boolean): Buffer {
  const { usable } = pages;
  if (size > usable * pages.count) throw new Unreadable("a row longer than the file");
  const most = isTable ? usable - 35 : Math.floor(((usable - 12) * 64) / 255) - 23;
  const least = Math.floor(((usable - 12) * 32) / 255) - 23;
  const middle = least + ((size - least) % (usable - 4));
  const local = size <= most ? size : middle <= most ? middle : least;
  if (begin + local > usable) throw new Unreadable("a row that leaves its page");
  const parts = [bytes.subarray(begin, begin + local)];
  if (local === size) return parts[0] as Buffer;
  let next = bytes.readUInt32BE(begin + local);
  for (let left = size - local; left > 0; left -= usable - 4) {
    const page = next >= 2 && next <= pages.count ? pages.read(next) : undefined;
    if (page === undefined) throw new Unreadable(`a row that goes on at page ${next}, which cannot be read`);
    parts.push(page.subarray(4, 4 + Math.min(left, usable - 4)));
    next = page.readUInt32BE(0);
  }
  return Buffer.concat(parts);
}
