import { ADOPTING, copyOf, decode, matches, NO_COPY, PLAIN, PrivateCopy, type Shape, shapesOf } from "../codec";
import type { Segment } from "../store/store";
import { endsOf, extended, finished, newDigest, type RunningDigest } from "./texts";

/** A part of a value that is in the store, as we remember it. */
export class Element {
  readonly address: string;
  /** What the address is of: a value that answers otherwise each time it is read has another one already. */
  readonly text: string;
  /** Null until it is made from the text. */
  #copy: PrivateCopy | undefined | null;
  /** The copy is made from the text, and so is what that says; a value may answer otherwise each time it is read. */
  readonly #isRead: boolean;

  private constructor(address: string, text: string, copy: PrivateCopy | undefined | null) {
    this.address = address;
    this.text = text;
    this.#copy = copy;
    this.#isRead = copy === null;
  }

  /** An element made from what was encoded just now. @param value what the text says; it stays the caller's */
  static encoded(address: string, text: string, value: unknown): Element {
    return new Element(address, text, PrivateCopy.of(value));
  }

  /** An element made from what the store has: its text may be that of another version of the codec. */
  static read(address: string, text: string): Element {
    return new Element(address, text, null);
  }

  /** Undefined for what only its text can be compared with. */
  get copy(): PrivateCopy | undefined {
    return (this.#copy = this.#copy === null ? PrivateCopy.of(decode(this.text)) : this.#copy);
  }

  /** What the text says, made anew for whoever asks. To copy it is cheaper than to decode it, and a long string is the same string. */
  value(): unknown {
    const copy = this.#isRead ? this.copy : undefined;
    const value = copy === undefined ? NO_COPY : copyOf(copy.value);
    return value === NO_COPY ? decode(this.text) : value;
  }

  /** Whether a value still is what the text says; `encodeValue` is asked if only the text can tell. */
  isStill(value: unknown, encodeValue: () => string): boolean {
    return this.copy?.isLike(value) === true || encodeValue() === this.text;
  }
}

/**
 * A list of the store, from its first element to the last one we know. Every shorter length of it is an older value of the same
 * channel.
 *
 * The text is what the store has, to the letter; all else is made from it when it is needed: where its elements end, what they are
 * compared by.
 */
export class KnownList {
  readonly segments: readonly Segment[];
  length: number;
  /** Over all elements; undefined if it was not taken along. */
  digest: RunningDigest | undefined;
  /** Texts of the elements, joined by commas. */
  #text: string;
  #ends: number[] | undefined;
  /** Of the first elements, null for one that only its text can be compared with; all slots of the list behind one another. */
  #shapes: (Shape | null)[] = [];
  readonly #slots: unknown[] = [];
  /** How many of the first elements have the strings of the live ones in their slots. */
  #adopted = 0;
  /** Digests of the lengths that were seen to agree with the store. */
  readonly #digests = new Map<number, string>();
  #hasAllDigests = false;

  constructor(segments: readonly Segment[], text: string, length: number, digest?: RunningDigest) {
    this.segments = segments;
    this.length = length;
    this.digest = digest;
    this.#text = text;
  }

  /** The number of the list in the store: the one that owns the last element. */
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

  /** The first elements, made from their text for whoever asks: the strings of the next value to compare are these. */
  valuesUpTo(length: number): unknown[] {
    this.#adopted = 0;
    return decode(`[${this.textUpTo(length)}]`) as unknown[];
  }

  /** How many elements, up to a limit, a value still begins with. */
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

  /** Whether the first elements are the ones that a digest of the store was taken over. */
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
   * Takes elements at the end, from index `at` on; false if others are there already.
   *
   * @param elements what the texts say
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

  /** What the elements from an index on are compared by, if all before have it already. */
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

  /** Whoever walks through a thread's history asks for all lengths one after the other. */
  #takeAllDigests(address: (text: string) => string): void {
    let digest = newDigest();
    for (let index = 0; index < this.length; index += 1) {
      digest = extended(digest, [this.textAt(index)]);
      if (!this.#digests.has(index + 1)) this.#digests.set(index + 1, finished(digest, address));
    }
    this.#hasAllDigests = true;
  }
}
