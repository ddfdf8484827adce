import type { Remembered, Segment } from "../store/store";
import { digestOf, type ListDigest } from "./digest";
import type { Element } from "./element";

/** A list of the store, from its first element to the last one we know. Every shorter length of it is an older value. */
export interface KnownList {
  readonly segments: readonly Segment[];
  readonly elements: Element[];
  /** Digests of the lengths that were seen to agree with the store. */
  readonly digests: Map<number, string>;
}

/** What a channel held when it was last saved or read. */
export interface KnownChannel {
  list: KnownList;
  length: number;
  /** Taken when it is first asked for. */
  digest: ListDigest | undefined;
  generation: string;
  /** With the option `immutable`: the very objects that the elements were made from or handed out as. */
  objects: unknown[] | undefined;
}

/** What an entry of a record was when it was last packed. */
export interface KnownEntry {
  readonly copy: unknown;
  readonly text: string;
  /** Of the chunks that the text refers to. */
  readonly addresses: readonly string[];
}

const LISTS_PER_THREAD = 64;
const DIGESTS_PER_LIST = 4_096;

/** What is remembered of one thread. */
export class ThreadMemory implements Remembered {
  readonly channels = new Map<string, KnownChannel>();
  readonly records = new Map<string, Map<string, KnownEntry>>();
  /** Finds the element of an object that comes back: from a write to a checkpoint, from a read to the next save. */
  readonly objects = new WeakMap<object, Element>();
  readonly #lists = new Map<number, KnownList>();
  readonly #parts = new Map<string, Element>();
  /** Length of all texts remembered, roughly. */
  size = 0;

  list(list: number): KnownList | undefined {
    return this.#lists.get(list);
  }

  addList(known: KnownList, grownBy: readonly Element[]): void {
    const list = known.segments.at(-1)?.list ?? 0;
    this.#lists.delete(list);
    this.#lists.set(list, known);
    for (const { size } of grownBy) this.size += size;
    const [oldest] = this.#lists.keys();
    if (this.#lists.size > LISTS_PER_THREAD && oldest !== undefined) this.#lists.delete(oldest);
  }

  forgetLists(): void {
    this.#lists.clear();
    this.channels.clear();
  }

  part(address: string): Element | undefined {
    return this.#parts.get(address);
  }

  addPart(element: Element): void {
    if (this.#parts.has(element.address)) return;
    this.#parts.set(element.address, element);
    this.size += element.size;
  }

  chunk(address: string): boolean {
    return this.#parts.has(address);
  }

  elements(list: number, length: number, digest: string): number {
    const known = this.#lists.get(list);
    if (known === undefined) return 0;
    if (known.elements.length < length) return known.elements.length;
    return agrees(known, length, digest) ? length : 0;
  }
}

/** Whether the first elements of a known list are the ones that a digest was taken over. */
export function agrees(known: KnownList, length: number, digest: string): boolean {
  if (known.digests.get(length) === digest) return true;
  if (digestOf(known.elements, length).text !== digest) return false;
  if (known.digests.size >= DIGESTS_PER_LIST) known.digests.clear();
  known.digests.set(length, digest);
  return true;
}

/**
 * Remembers threads, the ones used last, up to a total size of texts. All of it can be lost at any moment: then values are read and
 * encoded anew. Nothing here is ever handed out; see `element.ts`.
 */
export class Memory {
  readonly #limit: number;
  readonly #threads = new Map<string, ThreadMemory>();

  /** @param limit characters of text; the thread used last is remembered whatever its size */
  constructor(limit: number) {
    this.#limit = limit;
  }

  thread(threadId: string): ThreadMemory {
    const known = this.#threads.get(threadId) ?? new ThreadMemory();
    this.#threads.delete(threadId);
    this.#threads.set(threadId, known);
    this.#shrink(threadId);
    return known;
  }

  forget(threadId: string): void {
    this.#threads.delete(threadId);
  }

  #shrink(current: string): void {
    let total = 0;
    for (const { size } of this.#threads.values()) total += size;
    for (const [threadId, { size }] of this.#threads) {
      if (total <= this.#limit || threadId === current) return;
      this.#threads.delete(threadId);
      total -= size;
    }
  }
}
