import { decode } from "../codec";
import type { Segment } from "../store/store";
import { extended, finished, newDigest, type RunningDigest } from "./digest";
import { type Element, ownElement, textOf } from "./element";

/**
 * A list of the store, from its first element to the last one we know. Every shorter length of it is an older value of the same
 * channel. What was read but not yet asked for stays one text: most of what is read is never compared or read again.
 */
export class KnownList {
  readonly segments: readonly Segment[];
  length: number;
  /** Over all elements; undefined if it was not taken along. */
  digest: RunningDigest | undefined;
  readonly #elements: Element[];
  /** The texts of the elements behind `#elements`, joined by commas. */
  #unread: string;
  /** Digests of the lengths that were seen to agree with the store. */
  readonly #digests = new Map<number, string>();
  #hasAllDigests = false;

  constructor(
    segments: readonly Segment[],
    elements: Element[],
    unread: { text: string; length: number },
    digest?: RunningDigest,
  ) {
    this.segments = segments;
    this.length = elements.length + unread.length;
    this.digest = digest;
    this.#elements = elements;
    this.#unread = unread.text;
  }

  /** The number of the list in the store: the one that owns the last element. */
  get list(): number {
    return this.segments.at(-1)?.list ?? 0;
  }

  get elements(): readonly Element[] {
    if (this.#elements.length < this.length) {
      const values = decode(`[${this.#unread}]`) as unknown[];
      const size = Math.ceil(this.#unread.length / values.length);
      for (const value of values) this.#elements.push(ownElement(value, size));
      this.#unread = "";
    }
    return this.#elements;
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

  /** Takes elements at the end, from index `at` on; false if others are there already. */
  grow(at: number, fresh: readonly Element[]): boolean {
    if (at > this.length) return false;
    const elements = this.elements as Element[];
    const there = Math.min(this.length - at, fresh.length);
    for (let index = 0; index < there; index += 1) {
      if (textOf(elements[at + index] as Element) !== textOf(fresh[index] as Element)) return false;
    }
    for (let index = there; index < fresh.length; index += 1) elements.push(fresh[index] as Element);
    this.length = elements.length;
    return true;
  }

  /** Whoever walks through a thread's history asks for all lengths one after the other. */
  #takeAllDigests(address: (text: string) => string): void {
    let digest = newDigest();
    this.elements.forEach((element, index) => {
      digest = extended(digest, [textOf(element)]);
      if (!this.#digests.has(index + 1)) this.#digests.set(index + 1, finished(digest, address));
    });
    this.#hasAllDigests = true;
  }
}
