import { extended, newDigest, type RunningDigest } from "../../values/memory";
import type { Program } from "../program";
import type { Session } from "../session";
import type { ListPointer } from "../store";
import type { ThreadState } from "../thread-state";
import { openBody, segmentsOf } from "./values";

interface Prefix {
  length: number;
  running: RunningDigest;
}

const PAGE = 256;
const LISTS_MAX = 256;
const PREFIXES_MAX = 16;
const BODIES = `SELECT c.body FROM langgraph_items AS i CROSS JOIN langgraph_chunks AS c
  WHERE i.list = ?1 AND i.pos >= ?2 AND i.pos < ?3 AND c.seq = i.chunk AND c.thread = ?4 ORDER BY i.pos`;

/**
 * Digests of lists as manifests name them, one for every length that some checkpoint saw. A list usually grows and manifests come
 * in the order of saving, so each digest continues from the one before, and every element is hashed about once. Hashes are valid
 * for one generation of the thread: a rewind may put other elements in their place.
 */
export class ListDigests {
  readonly #prefixes = new Map<string, Prefix[]>();

  /**
   * @param isOver whether to stop after a page of elements
   * @returns undefined if it was stopped; call it again to continue there
   */
  *of(
    session: Session,
    key: ThreadState,
    pointer: ListPointer,
    isOver: () => boolean,
  ): Program<RunningDigest | { broken: string } | undefined> {
    const segments = yield* segmentsOf(session, key, pointer);
    const ends = [0, ...segments.map(({ upto }) => upto)];
    const isWhole = segments.every(({ from }, index) => from === ends[index]) && ends.at(-1) === pointer.length;
    if (!isWhole) return { broken: `stretches that end at ${ends.join(", ")}` };
    let known = this.#longest(key, segments);
    for (const { list, from, upto } of segments) {
      while (known.length >= from && known.length < upto) {
        const end = Math.min(known.length + PAGE, upto);
        const rows = yield* session.rows<[string | Uint8Array]>(BODIES, list, known.length, end, key.thread);
        if (rows.length < end - known.length) return { broken: `${known.length + rows.length} or fewer` };
        const texts = rows.map(([body]) => openBody(session, key.threadId, body));
        known = { length: end, running: extended(known.running, texts) };
        const isStopped = end < pointer.length && isOver();
        if (isStopped || end === upto) this.#remember(key, list, known);
        if (isStopped) return undefined;
      }
    }
    return known.running;
  }

  #longest(key: ThreadState, segments: readonly { list: number; from: number; upto: number }[]): Prefix {
    for (const { list, from, upto } of segments.toReversed()) {
      const fitting = (this.#prefixes.get(nameOf(key, list)) ?? []).filter(({ length }) => length > from && length <= upto);
      if (fitting.length > 0) return fitting.reduce((longest, one) => (one.length > longest.length ? one : longest));
    }
    return { length: 0, running: newDigest() };
  }

  #remember(key: ThreadState, list: number, prefix: Prefix): void {
    const name = nameOf(key, list);
    const known = this.#prefixes.get(name) ?? [];
    // A Map lists its keys by age. Deleting a key and setting it again makes it the youngest.
    this.#prefixes.delete(name);
    this.#prefixes.set(name, [...known.slice(1 - PREFIXES_MAX), prefix]);
    if (this.#prefixes.size > LISTS_MAX) this.#prefixes.delete(this.#prefixes.keys().next().value as string);
  }
}

function nameOf({ generation }: ThreadState, list: number): string {
  return `${generation}/${list}`;
}
