import { createHash, type Hash } from "node:crypto";
import { ADOPTING, decode, EXACT, matches, PLAIN, PrivateCopy, remade, type Shape, shapesOf } from "../codec";
import type { PackedWhole, Remembered, Segment } from "../store/store";

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

/** A stored part of a value, as we remember it. */
export class Element {
  readonly address: string;
  /** The text that the address belongs to. A value that reads differently each time may already have another text. */
  readonly text: string;
  /** Null until it is made from the text. */
  #copy: PrivateCopy | undefined | null;
  /** Whether the copy is made from the text, so that it equals it. A value may read differently each time. */
  readonly #isRead: boolean;

  private constructor(address: string, text: string, copy: PrivateCopy | undefined | null) {
    this.address = address;
    this.text = text;
    this.#copy = copy;
    this.#isRead = copy === null;
  }

  /**
   * An element made from a value that was just encoded.
   * @param value the value of the text; it stays the caller's
   */
  static encoded(address: string, text: string, value: unknown): Element {
    return new Element(address, text, PrivateCopy.of(value));
  }

  /** An element made from stored text, which another version of the codec may have written. */
  static read(address: string, text: string): Element {
    return new Element(address, text, null);
  }

  /** Undefined for a value that can only be compared by its text. */
  get copy(): PrivateCopy | undefined {
    return (this.#copy = this.#copy === null ? PrivateCopy.read(decode(this.text)) : this.#copy);
  }

  /** The value of the text, a new one for each caller. Remaking is cheaper than decoding, and long strings are shared. */
  value(): unknown {
    const trace = this.#isRead ? this.copy?.trace : undefined;
    return trace?.shape?.canBeRemade === true ? remade(trace.shape, trace.slots, 0) : decode(this.text);
  }

  /** Whether a value still has this text. `encodeValue` is called if only the text can tell. */
  isStill(value: unknown, encodeValue: () => string): boolean {
    return this.copy?.isLike(value) === true || encodeValue() === this.text;
  }
}

/**
 * A list of the store, from its first element to the last known one. Every shorter length of it is an older value of the same
 * channel.
 *
 * The text is exactly what the store has. Everything else is derived from it on demand: the ends of its elements, and what they
 * are compared by.
 */
export class KnownList {
  readonly segments: readonly Segment[];
  length: number;
  /** Covers all elements; undefined if it wasn't kept up to date. */
  digest: RunningDigest | undefined;
  /** Texts of the elements, joined by commas. */
  #text: string;
  #ends: number[] | undefined;
  /**
   * The shapes of the first elements, null for one that can only be compared by its text. All slots of the list are in one row.
   */
  #shapes: (Shape | null)[] = [];
  readonly #slots: unknown[] = [];
  /** How many of the first elements have adopted the strings of the live ones in their slots. */
  #adopted = 0;
  /** Of how many of the first elements shape and slots are known to agree with the text, and how many slots these have. */
  #proven = 0;
  #provenSlots = 0;
  /** The texts of the other elements that have a shape: of a value that reads differently each time, text and copy may differ. */
  #unproven: string[] = [];
  /** The text of some first elements as a JSON list, as the store gave it: joining a long text with brackets takes longer than parsing it. */
  #stored: { readonly json: string; readonly length: number } | undefined;
  /** Digests of lengths that were found to agree with the store. */
  readonly #digests = new Map<number, string>();
  #hasAllDigests = false;

  constructor(segments: readonly Segment[], text: string, length: number, digest?: RunningDigest) {
    this.segments = segments;
    this.length = length;
    this.digest = digest;
    this.#text = text;
  }

  /** The number of the list in the store: of the one that owns the last element. */
  get list(): number {
    return this.segments.at(-1)?.list ?? 0;
  }

  /** The texts of the first elements, joined by commas. */
  textUpTo(length: number): string {
    if (length === this.length) return this.#text;
    return length === 0 ? "" : this.#text.slice(0, this.#endAt(length - 1));
  }

  textAt(index: number): string {
    return this.#text.slice(index === 0 ? 0 : this.#endAt(index - 1) + 1, this.#endAt(index));
  }

  /**
   * The first elements, new objects for each caller. They are made from their text, or the second time from what they are compared by,
   * which takes half of the time at most.
   *
   * @param json their text as a JSON list, if the caller has it
   */
  valuesUpTo(length: number, json?: string): unknown[] {
    if (json === undefined) {
      this.#traceUpTo(length);
      this.#prove();
      const remadeValues = this.#remadeUpTo(length);
      if (remadeValues !== undefined) return remadeValues;
    } else this.#stored = { json, length };
    // The next value to compare usually holds the same strings.
    this.#adopted = 0;
    return decode(json ?? this.#jsonUpTo(length)) as unknown[];
  }

  #jsonUpTo(length: number): string {
    return this.#stored?.length === length ? this.#stored.json : `[${this.textUpTo(length)}]`;
  }

  /** Undefined if some can be made only from their text. */
  #remadeUpTo(length: number): unknown[] | undefined {
    for (let index = 0; index < length; index += 1) if (this.#shapes[index]?.canBeRemade !== true) return undefined;
    const values: unknown[] = [];
    let slot = 0;
    for (let index = 0; index < length; index += 1) {
      const shape = this.#shapes[index] as Shape;
      values.push(remade(shape, this.#slots, slot));
      slot += shape.size;
    }
    return values;
  }

  /** Compares the copies that came with elements with what their texts say, and replaces those that differ. */
  #prove(): void {
    if (this.#unproven.length === 0) return;
    const values = decode(`[${this.#unproven.join(",")}]`) as unknown[];
    for (const [index, value] of values.entries()) {
      const shape = this.#shapes[this.#proven] ?? null;
      const next = shape === null ? this.#provenSlots : matches(shape, this.#slots, this.#provenSlots, value, EXACT);
      if (next < 0) {
        this.#shapes.length = this.#proven;
        this.#slots.length = this.#provenSlots;
        this.#shapes = this.#shapes.concat(shapesOf(values.slice(index), this.#slots));
        this.#adopted = Math.min(this.#adopted, this.#proven);
        break;
      }
      this.#proven += 1;
      this.#provenSlots = next;
    }
    this.#allProven();
  }

  #allProven(): void {
    this.#unproven = [];
    this.#proven = this.#shapes.length;
    this.#provenSlots = this.#slots.length;
  }

  /** How many elements a value still begins with, up to a limit. */
  commonPrefix(value: readonly unknown[], limit: number, encodeAt: (index: number) => string): number {
    this.#traceUpTo(limit);
    let slot = 0;
    for (let index = 0; index < limit; index += 1) {
      const shape = this.#shapes[index] as Shape | null;
      const how = index < this.#adopted ? PLAIN : ADOPTING;
      const next = shape === null ? -1 : matches(shape, this.#slots, slot, value[index], how);
      if (next < 0 && encodeAt(index) !== this.textAt(index)) return index;
      slot += shape?.size ?? 0;
    }
    this.#adopted = Math.max(this.#adopted, limit);
    return limit;
  }

  /** Whether a digest of the store covers exactly the first elements. */
  agrees(length: number, digest: string, address: (text: string) => string): boolean {
    if (length > this.length) return false;
    const known = this.#digests.get(length);
    if (known !== undefined || this.#hasAllDigests) return known === digest;
    this.#takeAllDigests(address);
    return this.#digests.get(length) === digest;
  }

  confirm(length: number, digest: string): void {
    this.#digests.set(length, digest);
  }

  /**
   * Appends elements from index `at` on; false if others are there already.
   *
   * @param elements the values of the texts
   */
  grow(at: number, texts: readonly string[], elements: readonly Element[]): boolean {
    if (at > this.length) return false;
    const there = Math.min(this.length - at, texts.length);
    for (let index = 0; index < there; index += 1) if (this.textAt(at + index) !== texts[index]) return false;
    for (let index = there; index < texts.length; index += 1) this.#append(texts[index] as string, elements[index] as Element);
    return true;
  }

  #append(text: string, element: Element): void {
    this.#text = this.length === 0 ? text : `${this.#text},${text}`;
    this.#ends?.push(this.#text.length);
    // A save that appends has compared the list before, so this isn't needed any more. It would keep a second copy of a long text.
    this.#stored = undefined;
    this.length += 1;
    this.#hasAllDigests = false;
    this.trace(this.length - 1, [text], [element]);
  }

  /** Adds what elements from an index on are compared by, if all elements before have it already. */
  trace(from: number, texts: readonly string[], elements: readonly Element[]): void {
    if (this.#shapes.length !== from) return;
    for (const [index, { copy }] of elements.entries()) {
      this.#unproven.push(texts[index] as string);
      const { shape = null, slots = [] } = copy?.trace ?? {};
      this.#shapes.push(shape);
      if (shape !== null) for (const slot of slots) this.#slots.push(slot);
    }
    if (this.#adopted === from) this.#adopted = this.#shapes.length;
  }

  #traceUpTo(limit: number): void {
    if (this.#shapes.length >= limit) return;
    this.#prove();
    const known = this.#shapes.length;
    const json =
      known === 0 ? this.#jsonUpTo(limit) : `[${this.#text.slice(this.#endAt(known - 1) + 1, this.#endAt(limit - 1))}]`;
    this.#shapes = this.#shapes.concat(shapesOf(decode(json) as unknown[], this.#slots));
    this.#allProven();
  }

  #endAt(index: number): number {
    this.#ends ??= endsOf(this.#text);
    return this.#ends[index] ?? this.#text.length;
  }

  /** A caller that walks through a thread's history asks for all lengths one after the other, so all digests are made at once. */
  #takeAllDigests(address: (text: string) => string): void {
    let digest = newDigest();
    for (let index = 0; index < this.length; index += 1) {
      digest = extended(digest, [this.textAt(index)]);
      if (!this.#digests.has(index + 1)) this.#digests.set(index + 1, finished(digest, address));
    }
    this.#hasAllDigests = true;
  }
}

/*
 * Values are stored as JSON texts. A list is stored as the texts of its elements, one chunk each; joined by commas they form one
 * text. Large parts of other values are stored as chunks that their text refers to.
 */

export const QUOTE = 0x22;
const BACKSLASH = 0x5c;
export const COMMA = 0x2c;

/** In characters. */
const COPIED_MAX = 4_096;

/**
 * SHA-256 over the texts of a list's elements, in order and each followed by a comma: two lists with one digest are equal. The
 * hash is running, so a list that grew costs only its new elements.
 */
export type RunningDigest = Hash;

export function newDigest(): RunningDigest {
  return createHash("sha256");
}

/** The digest of a list with more elements appended; the given digest stays unchanged. */
export function extended(digest: RunningDigest, texts: readonly string[]): RunningDigest {
  const next = digest.copy();
  for (const text of texts) {
    // Joined, a long text would be copied.
    if (text.length < COPIED_MAX) next.update(`${text},`);
    else next.update(text).update(",");
  }
  return next;
}

/**
 * The finished digest. It goes through `address`, which is keyed in an encrypted database, so that nobody can find out by
 * guessing what a list holds.
 */
export function finished(digest: RunningDigest, address: (text: string) => string): string {
  return address(digest.copy().digest("base64url"));
}

export function lengthOf(texts: readonly string[]): number {
  return texts.reduce((sum, text) => sum + text.length, 0);
}

/**
 * The ends of JSON texts that are joined by commas. The stored texts count as they are: a later version of the codec may write
 * another text for the same value.
 */
export function endsOf(joined: string): number[] {
  const ends: number[] = [];
  if (joined === "") return ends;
  let depth = 0;
  for (let at = 0; at < joined.length; at += 1) {
    const code = joined.charCodeAt(at);
    if (code === QUOTE) at = endOfString(joined, at);
    // [ and { differ from ] and } by 2, and the two pairs by 32.
    else if ((code | 0x20) === 0x7b) depth += 1;
    else if ((code | 0x20) === 0x7d) depth -= 1;
    else if (code === COMMA && depth === 0) ends.push(at);
  }
  ends.push(joined.length);
  return ends;
}

/** The end of the JSON string that begins there. */
export function endOfString(text: string, start: number): number {
  for (let quote = text.indexOf('"', start + 1); quote !== -1; quote = text.indexOf('"', quote + 1)) {
    let before = quote - 1;
    while (text.charCodeAt(before) === BACKSLASH) before -= 1;
    if ((quote - before) % 2 === 1) return quote;
  }
  return text.length;
}
