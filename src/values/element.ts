import { copyOf, decode, encode, matches, NO_COPY, sameAs, type Shape, type Tracer } from "../codec";

/**
 * A part of a value that is in the store, as we remember it: a private value that nobody else holds. What users hold may change under
 * our hands; this does not.
 */
export interface Element {
  /** Never handed out, and never changed. */
  readonly value: unknown;
  /** Length of its text. */
  readonly size: number;
  readonly address: string;
  /** Undefined where encoding the value is sure to give it: it was encoded by this very codec, a moment ago. */
  readonly text: string | undefined;
  /** What the value is compared by; made when it is first compared, null if there is nothing. */
  trace: { shape: Shape; slots: readonly unknown[] } | null | undefined;
}

/** An element made from what was encoded just now. @param value what the text says; it stays the caller's */
export function encodedElement(address: string, text: string, value: unknown): Element {
  const copy = copyOf(value);
  return copy === NO_COPY ? readElement(address, text, value) : newElement(address, text.length, copy, undefined);
}

/** An element made from what the store has: its text may be that of another version of the codec. */
export function readElement(address: string, text: string, value: unknown): Element {
  const copy = copyOf(value);
  return newElement(address, text.length, copy === NO_COPY ? decode(text) : copy, text);
}

function newElement(address: string, size: number, value: unknown, text: string | undefined): Element {
  return { value, size, address, text, trace: undefined };
}

/** Whether a value still is what the element's text says; `encodeValue` is asked if only the text can tell. */
export function isStill(element: Element, value: unknown, encodeValue: () => string, tracer: Tracer): boolean {
  const own = element.value;
  if (typeof own !== "object" || own === null) return Object.is(own, value);
  if (element.trace === undefined) {
    const slots: unknown[] = [];
    const shape = tracer.trace(own, slots);
    element.trace = shape === undefined ? null : { shape, slots };
  }
  const { trace } = element;
  return (
    (trace !== null && matches(trace.shape, trace.slots as unknown[], 0, value) >= 0) ||
    isStillPrivate(own, value, () => textOf(element), encodeValue)
  );
}

/** The same for what has no trace, or another one: it may still be saved as the same text. */
export function isStillPrivate(own: unknown, value: unknown, textOfOwn: () => string, encodeValue: () => string): boolean {
  return copyOf(own) === NO_COPY ? encodeValue() === textOfOwn() : sameAs(own, value);
}

/** The value, made anew for whoever asks. */
export function valueOf(element: Element): unknown {
  const copy = copyOf(element.value);
  return copy === NO_COPY ? decode(textOf(element)) : copy;
}

/** Its text, whatever has become of the value since. */
export function textOf(element: Element): string {
  return element.text ?? encode(element.value);
}
