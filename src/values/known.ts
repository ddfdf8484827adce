import { ADOPTING, copyOf, decode, matches, NO_COPY, PLAIN, PrivateCopy, type Shape, shapesOf, chunkTag } from "../codec";
import type { Segment, Chunk } from "../store/store";
import { createHash, type Hash } from "node:crypto";

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
    return (this.#copy = this.#copy === null ? PrivateCopy.of(decode(this.text)) : this.#copy);
  }

  /** The value of the text, a new copy for each caller. Copying is cheaper than decoding, and long strings are shared. */
  value(): unknown {
    const copy = this.#isRead ? this.copy : undefined;
    const value = copy === undefined ? NO_COPY : copyOf(copy.value);
    return value === NO_COPY ? decode(this.text) : value;
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
   * The first elements, made from their text. The next value to compare usually holds the same strings.
   * @param json their text as a JSON list, if the caller has it: joining a long one takes as long as parsing it
   */
  valuesUpTo(length: number, json = `[${this.textUpTo(length)}]`): unknown[] {
    this.#adopted = 0;
    return decode(json) as unknown[];
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
    this.length += 1;
    this.#hasAllDigests = false;
    this.trace(this.length - 1, [element]);
  }

  /** Adds what elements from an index on are compared by, if all elements before have it already. */
  trace(from: number, elements: readonly Element[]): void {
    if (this.#shapes.length !== from) return;
    for (const { copy } of elements) {
      const { shape = null, slots = [] } = copy?.trace ?? {};
      this.#shapes.push(shape);
      if (shape !== null) for (const slot of slots) this.#slots.push(slot);
    }
    if (this.#adopted === from) this.#adopted = this.#shapes.length;
  }

  #traceUpTo(limit: number): void {
    const known = this.#shapes.length;
    if (known >= limit) return;
    const text = known === 0 ? this.textUpTo(limit) : this.#text.slice(this.#endAt(known - 1) + 1, this.#endAt(limit - 1));
    this.#shapes = this.#shapes.concat(shapesOf(decode(`[${text}]`) as unknown[], this.#slots));
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

const QUOTE = 0x22;
const BACKSLASH = 0x5c;
const COMMA = 0x2c;

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
function endOfString(text: string, start: number): number {
  for (let quote = text.indexOf('"', start + 1); quote !== -1; quote = text.indexOf('"', quote + 1)) {
    let before = quote - 1;
    while (text.charCodeAt(before) === BACKSLASH) before -= 1;
    if ((quote - before) % 2 === 1) return quote;
  }
  return text.length;
}

/*
 * A part that a text refers to more than once becomes one value per reference, so a small text can become a large value. In a
 * forged file, a few parts could ask for more than any memory. So reading has a limit, and saving stays far below it.
 */

/** How much repeated parts of a checkpoint may weigh when it is read: some hundreds of megabytes. */
export const REPEATED_READ_MAX = 2 ** 23;
/** How much references may repeat in one saved value. A value that repeats more is written out. */
const REPEATED_SAVED_MAX = 2 ** 21;

/** Instances have properties that their text needn't mention. */
const TAG_WEIGHT = 8;

const BEGINNING = '{"~":"chunk","v":"';
const REFERENCE_LENGTH = chunkTag("").length + 43;
const REFERENCE = /\{"~":"chunk","v":"([\w-]{43})"\}/g;

/** The memory that a value takes, estimated from its text in units of some 64 bytes: it counts parts, tags and characters. */
export function weightOf(text: string): number {
  let weight = 1 + Math.floor(text.length / 64);
  for (let at = 0; at < text.length; at += 1) {
    const code = text.charCodeAt(at);
    if (code === QUOTE) at = endOfString(text, at);
    // [ and { differ by 32.
    else if (code === COMMA || (code | 0x20) === 0x7b) weight += text.startsWith('"~"', at + 1) ? TAG_WEIGHT : 1;
  }
  return weight;
}

/** Whether a packed text repeats its parts so often that it has to be written out instead. */
export function repeatsTooMuch(text: string, parts: ReadonlyMap<string, Chunk>): boolean {
  if (referencesIn(text) <= parts.size) return false;
  const weights = new Map<string, number | undefined>();
  let repeated = 0;
  for (const [, address = ""] of text.matchAll(REFERENCE)) {
    const chunk = parts.get(address);
    // Data may look like a reference.
    if (chunk === undefined) continue;
    const weight = weights.has(address) ? (weights.get(address) ?? weightOf(chunk.text)) : undefined;
    weights.set(address, weight);
    repeated += weight ?? 0;
    if (repeated > REPEATED_SAVED_MAX) return true;
  }
  return false;
}

/** An upper bound, because data may look like a reference. */
function referencesIn(text: string): number {
  let found = 0;
  for (let at = text.indexOf(BEGINNING); at >= 0; at = text.indexOf(BEGINNING, at + REFERENCE_LENGTH)) found += 1;
  return found;
}
