import { createHash } from "node:crypto";
import { ADOPTING, copyOf, EXACT, matches, NO_COPY, sha256, Tracer } from "../../src/testing-internal";

type Shape = NonNullable<ReturnType<Tracer["trace"]>>;

/** A stored message. */
export interface Element {
  readonly value: object;
  readonly text: string;
  readonly address: string;
  /** Of its chunk, once it has one. */
  seq: number;
  /** The private copy (decision 6), split into its form and its primitives. */
  readonly shape: Shape | undefined;
  readonly slots: unknown[];
}

const tracer = new Tracer();

/** @param isCopied whether it's to be compared later */
export function elementOf(value: object, text: string, address: string, isCopied: boolean): Element {
  const slots: unknown[] = [];
  const shape = isCopied ? traced(value, slots) : undefined;
  return { value, text, address, seq: 0, shape, slots };
}

function traced(value: object, slots: unknown[]): Shape {
  const copy = copyOf(value);
  const shape = copy === NO_COPY ? undefined : tracer.trace(copy, slots);
  if (shape === undefined) throw new Error("a message that can't be copied");
  return shape;
}

/** Whether a message still has the text of its element. */
export function isStill({ shape, slots }: Element, value: object): boolean {
  return shape !== undefined && matches(shape, slots, 0, value, EXACT) >= 0;
}

/** The list of a thread's messages as it was last saved. */
export class NaiveList {
  /** The number of its row, and of the one it branches off. */
  seq = 0;
  readonly #elements: Element[] = [];
  readonly #byAddress = new Map<string, Element>();
  readonly #shapes: Shape[] = [];
  readonly #slots: unknown[] = [];
  /** Where the slots of each element begin. */
  readonly #starts: number[] = [];
  #hash = createHash("sha256");

  get length(): number {
    return this.#elements.length;
  }

  find(address: string): Element | undefined {
    return this.#byAddress.get(address);
  }

  /** How many leading messages are what they were. */
  commonPrefix(messages: readonly object[]): number {
    const shapes = this.#shapes;
    const slots = this.#slots;
    const limit = Math.min(messages.length, shapes.length);
    let slot = 0;
    for (let at = 0; at < limit; at += 1) {
      slot = matches(shapes[at] as Shape, slots, slot, messages[at], ADOPTING);
      if (slot < 0) return at;
    }
    return limit;
  }

  append(element: Element, isDigested: boolean, isCompared: boolean): void {
    this.#elements.push(element);
    this.#byAddress.set(element.address, element);
    if (isDigested) this.#hash.update(`${element.text},`);
    if (!isCompared) return;
    this.#starts.push(this.#slots.length);
    this.#shapes.push(element.shape as Shape);
    for (const slot of element.slots) this.#slots.push(slot);
  }

  /** The SHA-256 over the texts, as the package makes it. */
  digest(): string {
    return sha256(this.#hash.copy().digest("base64url"));
  }

  /** Drops what comes behind the first elements. */
  cut(keep: number): void {
    if (keep === this.length) return;
    this.#slots.length = this.#starts[keep] as number;
    this.#starts.length = keep;
    this.#shapes.length = keep;
    this.#elements.length = keep;
    this.#hash = createHash("sha256");
    for (const { text } of this.#elements) this.#hash.update(`${text},`);
  }
}
