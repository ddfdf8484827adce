import { createHash, type Hash } from "node:crypto";
import { corrupted } from "../checksum";
import type { Pointer } from "../store";
import type { Sql } from "./sql";
import type { ThreadKey } from "./thread-keys";

type ListPointer = Extract<Pointer, { kind: "list" }>;
interface ListRow {
  seq: number;
  base: number | null;
  keep: number;
}
/** Over the addresses of the source and of its copy. */
interface Running {
  from: Hash;
  to: Hash;
}

const LISTS = "SELECT seq, base, keep FROM langgraph_lists WHERE thread = ? ORDER BY seq";
const ADDRESSES = `SELECT c.address FROM langgraph_items AS i CROSS JOIN langgraph_chunks AS c
  WHERE i.list = ? AND i.pos >= ? AND i.pos < ? AND c.seq = i.chunk ORDER BY i.pos`;

/**
 * Digests of a thread's lists under the addresses that its copy gives the elements. A list has a digest for every length that some
 * checkpoint saw; each element is hashed once for all of them, and a list that branches off goes on from where its base was.
 */
export class CopiedDigests {
  readonly #source: ThreadKey;
  readonly #lists: ReadonlyMap<number, ListRow>;
  readonly #digests = new Map<string, { from: string; to: string }>();

  /** @param address from an element's address in the source to the one in the copy */
  constructor(sql: Sql, source: ThreadKey, pointers: readonly ListPointer[], address: (from: string) => string) {
    this.#source = source;
    this.#lists = new Map(sql.all<ListRow>(LISTS, source.thread).map((row) => [row.seq, row]));
    const lengths = new Map<number, Set<number>>();
    const want = (list: number, length: number): string => {
      const owner = this.#owner(list, length);
      lengths.set(owner, (lengths.get(owner) ?? new Set()).add(length));
      return keyOf(owner, length);
    };
    for (const { list, length } of pointers) want(list, length);
    const branches = new Set<string>();
    const rows = [...this.#lists.values()];
    // A base is older than what branches off it.
    for (const { seq, base, keep } of rows.toReversed()) if (base !== null && lengths.has(seq)) branches.add(want(base, keep));
    const ends = new Map<string, Running>();
    for (const row of rows) {
      const wanted = [...(lengths.get(row.seq) ?? [])].sort((a, b) => a - b);
      const running = this.#start(row, ends);
      let at = row.base === null ? 0 : row.keep;
      for (const length of wanted) {
        const addresses = sql.rows<[string]>(ADDRESSES, row.seq, at, length);
        if (addresses.length !== length - at) throw this.#altered(row.seq, length);
        for (const [from] of addresses) {
          running.from.update(from);
          running.to.update(address(from));
        }
        at = length;
        const key = keyOf(row.seq, length);
        if (branches.has(key)) ends.set(key, { from: running.from.copy(), to: running.to.copy() });
        this.#digests.set(key, { from: textOf(running.from), to: textOf(running.to) });
      }
    }
  }

  /** @throws {TurnsError} CHECKPOINT_CORRUPTED if the elements are not those that the pointer was made for */
  of({ list, length, digest }: ListPointer): string {
    const found = this.#digests.get(keyOf(this.#owner(list, length), length));
    if (found?.from !== digest) throw this.#altered(list, length);
    return found.to;
  }

  /** The list that holds the last of so many elements. */
  #owner(list: number, length: number): number {
    for (let row = this.#lists.get(list); ; row = this.#lists.get(row.base)) {
      if (row === undefined) throw this.#altered(list, length);
      if (row.base === null || row.base >= row.seq || length > row.keep) return row.seq;
    }
  }

  #start({ base, keep }: ListRow, ends: ReadonlyMap<string, Running>): Running {
    const end = base === null ? undefined : ends.get(keyOf(this.#owner(base, keep), keep));
    return { from: end?.from.copy() ?? createHash("sha256"), to: end?.to.copy() ?? createHash("sha256") };
  }

  #altered(list: number, length: number): Error {
    const { threadId } = this.#source;
    return corrupted(`a list value of thread ${threadId}`, `the ${length} elements that were saved`, "others", {
      threadId,
      list,
    });
  }
}

function keyOf(list: number, length: number): string {
  return `${list}.${length}`;
}

function textOf(hash: Hash): string {
  return hash.copy().digest("base64url");
}
