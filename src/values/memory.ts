import type { PrivateCopy } from "../codec";
import type { PackedWhole, Remembered } from "../store/store";
import { Element, type KnownList, type RunningDigest } from "./known";

/** What is remembered of a channel. */
export interface KnownChannel {
  list?: KnownState | undefined;
  /** The entries of a record when they were last packed. */
  entries?: Map<string, KnownEntry> | undefined;
  whole?: KnownWhole | undefined;
}

/** The value of a list channel when it was last saved or read. */
export interface KnownState {
  list: KnownList;
  length: number;
  /** Covers its elements; undefined if it wasn't kept up to date. */
  digest: RunningDigest | undefined;
  generation: string;
  /** With the option `immutable`: the very objects that the elements were made from or handed out as. */
  objects: unknown[] | undefined;
}

/** An entry of a record. */
export interface KnownEntry {
  readonly copy: PrivateCopy;
  readonly text: string;
  /** The chunks that the text refers to. */
  readonly addresses: readonly string[];
}

/** The value of a channel when it was last packed as one chunk. */
export interface KnownWhole {
  readonly copy: PrivateCopy;
  /** Its form for the store. If the store needs its text after all, the text is made from the copy. */
  readonly packed: PackedWhole;
  /** Length of its text. */
  readonly size: number;
  /** With the option `immutable`: the very object that was packed. */
  readonly object: object | undefined;
}

/** Longer lists aren't kept as one text; V8 strings have half a billion characters at most. */
export const REMEMBERED_LIST_MAX = 100_000_000;
const LISTS_PER_THREAD = 64;
/** How many characters of strings are remembered between two checkpoints. */
const STRINGS_MAX = 2 ** 21;
/** For a shorter string, packing is faster than a look-up. */
const STRING_MIN = 128;
/** The size of a thread with nothing to remember, so that many threads still count. */
const OWN_SIZE = 1_000;
/** The same for a channel: each run of a subgraph has its own channels. */
const CHANNEL_SIZE = 100;

export class ThreadMemory implements Remembered {
  readonly address: (text: string) => string;
  readonly #namespaces = new Map<string, Map<string, KnownChannel>>();
  /** Finds the element of an object that is seen again: from a write to a checkpoint, from a read to the next save. */
  readonly #objects = new WeakMap<object, Element>();
  readonly #strings = new Map<string, Element>();
  #stringsSize = 0;
  readonly #lists = new Map<number, KnownList>();
  readonly #parts = new Map<string, Element>();
  readonly #grew: (by: number) => void;
  #size = OWN_SIZE;
  #needed: number | undefined;
  #generation: string | undefined;

  /** @param grew is told how much longer the texts have become */
  constructor(address: (text: string) => string, grew: (by: number) => void) {
    this.address = address;
    this.#grew = grew;
  }

  /** Approximate length of all remembered texts, plus the memory's own size. */
  get size(): number {
    return this.#size;
  }

  /**
   * Takes note of the generation that an answer of the store belongs to. In another generation, lists may hold other elements
   * under the same numbers. Facts known by content stay valid.
   *
   * @returns whether what was known of lists is still valid
   */
  isOf(generation: string): boolean {
    if (this.#generation === generation) return true;
    this.#generation = generation;
    this.#lists.clear();
    this.#forgetLists(() => true);
    return false;
  }

  /** What is known of a channel. Callers that save or read it bring it up to date. */
  channel(ns: string, channel: string): KnownChannel {
    let channels = this.#namespaces.get(ns);
    if (channels === undefined) this.#namespaces.set(ns, (channels = new Map<string, KnownChannel>()));
    let known = channels.get(channel);
    if (known === undefined) {
      channels.set(channel, (known = {}));
      this.#grow(CHANNEL_SIZE);
    }
    return known;
  }

  /** @param whole undefined if the channel no longer holds such a value */
  rememberWhole(channel: KnownChannel, whole: KnownWhole | undefined): void {
    const grown = (whole?.size ?? 0) - (channel.whole?.size ?? 0);
    channel.whole = whole;
    if (grown !== 0) this.#grow(grown);
  }

  /** The element of a value that was met before, if the value is still the same. */
  known(value: unknown, encodeValue: () => string): Element | undefined {
    // Strings never change.
    if (typeof value === "string") return value.length < STRING_MIN ? undefined : this.#strings.get(value);
    const known = typeof value === "object" && value !== null ? this.#objects.get(value) : undefined;
    return known?.isStill(value, encodeValue) === true ? known : undefined;
  }

  /** The element of a value: the known one, or a new one. */
  elementFor(value: unknown, encodeValue: () => string): Element {
    return this.known(value, encodeValue) ?? this.newElement(value, encodeValue());
  }

  newElement(value: unknown, text: string): Element {
    const element = Element.encoded(this.address(text), text, value);
    if (typeof value === "string") this.#rememberString(value, element);
    else this.handedOut(value, element);
    return element;
  }

  /** Remembers which element an object belongs to: the next save may contain the same object. */
  handedOut(value: unknown, element: Element): void {
    if (typeof value === "object" && value !== null) this.#objects.set(value, element);
  }

  #rememberString(value: string, element: Element): void {
    if (value.length < STRING_MIN || value.length > STRINGS_MAX) return;
    if (this.#stringsSize + value.length > STRINGS_MAX) this.forgetStrings();
    this.#stringsSize += value.length;
    this.#grow(value.length);
    this.#strings.set(value, element);
  }

  /** A node's output is packed for its Action, its writes and its channel; after that nobody asks for it. */
  forgetStrings(): void {
    if (this.#stringsSize === 0) return;
    this.#grow(-this.#stringsSize);
    this.#strings.clear();
    this.#stringsSize = 0;
  }

  list(list: number): KnownList | undefined {
    return this.#lists.get(list);
  }

  /** @param size length of its new texts */
  addList(known: KnownList, size: number): void {
    this.#lists.delete(known.list);
    this.#lists.set(known.list, known);
    this.#grow(size);
    const [oldest] = this.#lists.keys();
    if (this.#lists.size > LISTS_PER_THREAD && oldest !== undefined) this.#lists.delete(oldest);
  }

  forgetList(list: number): void {
    this.#lists.delete(list);
    this.#forgetLists((known) => known.list === list);
  }

  #forgetLists(isGone: (list: KnownList) => boolean): void {
    for (const channels of this.#namespaces.values()) {
      for (const known of channels.values()) if (known.list !== undefined && isGone(known.list.list)) known.list = undefined;
    }
  }

  part(address: string): Element | undefined {
    return this.#parts.get(address);
  }

  addPart(address: string, element: Element): void {
    if (this.#parts.has(address)) return;
    this.#parts.set(address, element);
    this.#grow(element.text.length);
  }

  /**
   * Whether it takes more than the limit and more than twice what it needs. Its need is its size after the first use: memory of
   * outdated states can't be told from the rest. A state that is larger than the limit itself stays.
   */
  isBloated(limit: number): boolean {
    this.#needed ??= this.#size === OWN_SIZE ? undefined : this.#size;
    return this.#size > limit && this.#size > 2 * (this.#needed ?? 0);
  }

  #grow(by: number): void {
    this.#size += by;
    this.#grew(by);
  }

  chunk(address: string): boolean {
    return this.#parts.has(address);
  }

  elements(list: number, length: number, digest: string): number {
    const known = this.#lists.get(list);
    if (known === undefined) return 0;
    if (known.length < length) return known.digest === undefined ? 0 : known.length;
    return known.agrees(length, digest, this.address) ? length : 0;
  }
}

/**
 * Remembers the last used threads, up to a total size of texts. All of it may be lost at any moment; then values are read and
 * encoded again. Nothing in here is ever handed out; see {@link PrivateCopy}.
 */
export class Memory {
  readonly #limit: number;
  readonly #address: (threadId: string, text: string) => string;
  readonly #threads = new Map<string, ThreadMemory>();
  /** The total over the map. Adding it up at each save would take longer with more threads. */
  #total = 0;

  /** @param limit characters of text; for the last used thread, twice what it needs is remembered if that is more */
  constructor(limit: number, address: (threadId: string, text: string) => string) {
    this.#limit = limit;
    this.#address = address;
  }

  thread(threadId: string): ThreadMemory {
    if (this.#threads.get(threadId)?.isBloated(this.#limit) === true) this.forget(threadId);
    const known = this.#threads.get(threadId) ?? this.#create(threadId);
    this.#threads.delete(threadId);
    this.#threads.set(threadId, known);
    for (const [oldest] of this.#threads) {
      if (this.#total <= this.#limit || oldest === threadId) break;
      this.forget(oldest);
    }
    return known;
  }

  forget(threadId: string): void {
    this.#total -= this.#threads.get(threadId)?.size ?? 0;
    this.#threads.delete(threadId);
  }

  #create(threadId: string): ThreadMemory {
    const address = (text: string): string => this.#address(threadId, text);
    const created: ThreadMemory = new ThreadMemory(address, (by) => {
      // A running save may still hold a memory that was forgotten.
      if (this.#threads.get(threadId) === created) this.#total += by;
    });
    this.#threads.set(threadId, created);
    this.#total += created.size;
    return created;
  }
}
