import { decode, encode, PrivateCopy } from "../codec";
import type { Chunk } from "../store/store";

/** A part of a value that is in the store, as we remember it. */
export class Element implements Chunk {
  readonly address: string;
  /** Length of its text. */
  readonly size: number;
  /** Undefined where encoding the copy gives it: it was encoded by this very codec, a moment ago. */
  readonly #text: string | undefined;
  #copy: PrivateCopy | undefined | null;

  private constructor(address: string, size: number, text: string | undefined, copy: PrivateCopy | undefined | null) {
    this.address = address;
    this.size = size;
    this.#text = text;
    this.#copy = copy;
  }

  /** An element made from what was encoded just now. @param value what the text says; it stays the caller's */
  static encoded(address: string, text: string, value: unknown): Element {
    const copy = PrivateCopy.of(value);
    return new Element(address, text.length, copy === undefined || typeof value === "string" ? text : undefined, copy);
  }

  /** An element made from what the store has: its text may be that of another version of the codec. */
  static read(address: string, text: string): Element {
    return new Element(address, text.length, text, null);
  }

  /** Undefined for what only its text can be compared with. */
  get copy(): PrivateCopy | undefined {
    return (this.#copy = this.#copy === null ? PrivateCopy.of(decode(this.text())) : this.#copy);
  }

  text(): string {
    return this.#text ?? encode(this.#copy?.value);
  }

  /** Whether a value still is what the text says; `encodeValue` is asked if only the text can tell. */
  isStill(value: unknown, encodeValue: () => string): boolean {
    return this.copy?.isLike(value) === true || encodeValue() === this.text();
  }
}
