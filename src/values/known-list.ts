import { copyOf, decode, matches, NO_COPY, type Shape, type Tracer } from "../codec";
import type { Segment } from "../store/store";
import { extended, finished, newDigest, type RunningDigest } from "./digest";
import { isStillPrivate } from "./element";
import { endsOf } from "./split";

/**
 * A list of the store, from its first element to the last one we know. Every shorter length of it is an older value of the same
 * channel.
 *
 * The text is what the store has, to the letter; all else is made from it when it is needed: where its elements end, private values to
 * compare with, their traces.
 */
export class KnownList {
  readonly segments: readonly Segment[];
  length: number;
  /** Over all elements; undefined if it was not taken along. */
  digest: RunningDigest | undefined;
  /** Texts of the elements, joined by commas. */
  #text: string;
  #ends: number[] | undefined;
  #values: unknown[] | undefined;
  /** By element, null for one without trace; all slots of the list behind one another. */
  readonly #shapes: (Shape | null)[] = [];
  readonly #slots: unknown[] = [];
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

  /** The first elements, made anew for whoever asks. */
  valuesUpTo(length: number): unknown[] {
    return decode(`[${this.textUpTo(length)}]`) as unknown[];
  }

  /** How many elements, up to a limit, a value still begins with. */
  commonPrefix(value: readonly unknown[], limit: number, tracer: Tracer, encodeAt: (index: number) => string): number {
    const own = this.#ownValues();
    this.#trace(limit, own, tracer);
    let slot = 0;
    for (let index = 0; index < limit; index += 1) {
      const shape = this.#shapes[index] as Shape | null;
      const item = value[index];
      const next = shape === null ? -1 : matches(shape, this.#slots, slot, item);
      if (next >= 0) {
        slot = next;
        continue;
      }
      if (
        !isStillOwn(
          own[index],
          item,
          () => this.textAt(index),
          () => encodeAt(index),
        )
      )
        return index;
      if (shape !== null) slot = this.#slotBehind(index, own, tracer);
    }
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
   * @param values what the texts say; they stay the caller's
   */
  grow(at: number, texts: readonly string[], values: readonly unknown[]): boolean {
    if (at > this.length) return false;
    const there = Math.min(this.length - at, texts.length);
    for (let index = 0; index < there; index += 1) if (this.textAt(at + index) !== texts[index]) return false;
    for (let index = there; index < texts.length; index += 1) this.#append(texts[index] as string, values[index]);
    return true;
  }

  #append(text: string, value: unknown): void {
    this.#text = this.length === 0 ? text : `${this.#text},${text}`;
    this.#ends?.push(this.#text.length);
    this.length += 1;
    this.#hasAllDigests = false;
    if (this.#values === undefined) return;
    const copy = copyOf(value);
    this.#values.push(copy === NO_COPY ? decode(text) : copy);
  }

  #ownValues(): readonly unknown[] {
    return (this.#values ??= this.valuesUpTo(this.length));
  }

  #trace(limit: number, own: readonly unknown[], tracer: Tracer): void {
    for (let index = this.#shapes.length; index < limit; index += 1) {
      this.#shapes.push(tracer.trace(own[index], this.#slots) ?? null);
    }
  }

  /** Seldom asked: an element that was changed and is saved as the same text all the same. */
  #slotBehind(index: number, own: readonly unknown[], tracer: Tracer): number {
    const slots: unknown[] = [];
    for (let at = 0; at <= index; at += 1) tracer.trace(own[at], slots);
    return slots.length;
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

function isStillOwn(own: unknown, value: unknown, textOfOwn: () => string, encodeValue: () => string): boolean {
  if (typeof own !== "object" || own === null) return Object.is(own, value);
  return isStillPrivate(own, value, textOfOwn, encodeValue);
}
