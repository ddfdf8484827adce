import { extended, finished, newDigest, type RunningDigest } from "../../values/texts";
import { corrupted } from "../checksum";
import { LIST_ROWS } from "../rows";
import { ofThread } from "../spans";
import type { LISTS, RawOf } from "../tables";
import type { Pointer } from "../store";
import { openBody } from "./chunks";
import type { CopyPath, Pauses } from "./copy-path";
import type { SqliteSql } from "./engine";
import type { ThreadKey } from "./thread-key";

export type ListPointer = Extract<Pointer, { kind: "list" }>;
type ListRow = RawOf<typeof LISTS>;

const PAGE = 256;
const OF_THREAD = LIST_ROWS.select(`WHERE ${ofThread()} ORDER BY seq`);
const BODIES = `SELECT c.body FROM langgraph_items AS i CROSS JOIN langgraph_chunks AS c
  WHERE i.list = ? AND i.pos >= ? AND i.pos < ? AND c.seq = i.chunk ORDER BY i.pos`;

/**
 * Digests of a thread's lists under the keys of its copy. A list has a digest for every length that some checkpoint saw; each element
 * is hashed once for all of them, and a list that branches off goes on from where its base was.
 */
export class CopiedDigests {
  readonly #sql: SqliteSql;
  readonly #source: ThreadKey;
  readonly #target: ThreadKey;
  readonly #lists: ReadonlyMap<number, ListRow>;
  readonly #digests = new Map<string, { from: string; to: string }>();

  private constructor({ from, source, target }: CopyPath) {
    this.#sql = from;
    this.#source = source;
    this.#target = target;
    this.#lists = new Map(from.now(from.all<ListRow>(OF_THREAD, source.thread)).map((row) => [row.seq, row]));
  }

  /**
   * Reads the lists, and pauses after each page of elements.
   *
   * @param pointers whose digests will be asked for
   */
  static *read(path: CopyPath, pointers: readonly ListPointer[]): Pauses<CopiedDigests> {
    const digests = new CopiedDigests(path);
    yield* digests.#read(pointers);
    return digests;
  }

  *#read(pointers: readonly ListPointer[]): Pauses<void> {
    const lengths = new Map<number, Set<number>>();
    const want = (list: number, length: number): string => {
      const owner = this.#owner(list, length);
      lengths.set(owner, (lengths.get(owner) ?? new Set()).add(length));
      return keyOf(owner, length);
    };
    for (const { list, length } of pointers) want(list, length);
    const rows = [...this.#lists.values()];
    const branches = new Set<string>();
    // A base is older than what branches off it.
    for (const { seq, base, keep } of rows.toReversed()) if (base !== null && lengths.has(seq)) branches.add(want(base, keep));
    const ends = new Map<string, RunningDigest>();
    for (const row of rows) yield* this.#digest(row, lengths.get(row.seq) ?? new Set(), branches, ends);
  }

  /** @throws {TurnsError} CHECKPOINT_CORRUPTED if the elements are not those that the pointer was made for */
  of({ list, length, digest }: ListPointer): string {
    const found = this.#digests.get(keyOf(this.#owner(list, length), length));
    if (found?.from !== digest) throw this.#altered(list, length);
    return found.to;
  }

  /** @param branches where other lists branch off; `ends` gets what they go on with */
  *#digest(row: ListRow, lengths: Set<number>, branches: ReadonlySet<string>, ends: Map<string, RunningDigest>): Pauses<void> {
    let running = row.base === null ? newDigest() : (ends.get(keyOf(this.#owner(row.base, row.keep), row.keep)) ?? newDigest());
    let at = row.base === null ? 0 : row.keep;
    for (const length of [...lengths].sort((a, b) => a - b)) {
      for (; at < length; at = Math.min(at + PAGE, length)) {
        const texts = this.#texts(row.seq, at, Math.min(at + PAGE, length));
        running = extended(running, texts);
        yield;
      }
      const key = keyOf(row.seq, length);
      if (branches.has(key)) ends.set(key, running);
      this.#digests.set(key, { from: this.#finished(running, this.#source), to: this.#finished(running, this.#target) });
    }
  }

  #texts(list: number, from: number, upto: number): string[] {
    const bodies = this.#sql.now(this.#sql.rows<[string | Uint8Array]>(BODIES, list, from, upto));
    if (bodies.length !== upto - from) throw this.#altered(list, upto);
    return bodies.map(([body]) => openBody(this.#sql, this.#source.threadId, body));
  }

  #finished(running: RunningDigest, { threadId }: ThreadKey): string {
    return finished(running, (text) => this.#sql.sealing.address(threadId, text));
  }

  /** The list that holds the last of so many elements. */
  #owner(list: number, length: number): number {
    for (let row = this.#lists.get(list); ; row = this.#lists.get(row.base)) {
      if (row === undefined) throw this.#altered(list, length);
      if (row.base === null || row.base >= row.seq || length > row.keep) return row.seq;
    }
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
