import { copyOf, decode, encode, type EncodeOptions, matches, NO_COPY, sameAs, type Trace, type Tracer } from "../codec";

/**
 * A part of a value that is in the store, as we remember it: a private value that nobody else holds. What users hold may change under
 * our hands; this does not.
 */
export interface Element {
  /** Never handed out, and never changed. */
  readonly value: unknown;
  /** Length of its text, roughly. */
  readonly size: number;
  /** Taken from the text when it is first asked for. */
  address: string | undefined;
  /** Kept only where the value has to be compared by its text. */
  text: string | undefined;
  /** What the value is compared by; made when it is first compared, null if there is none. */
  trace: Trace | null | undefined;
}

/** @param value what the text says; it stays the caller's */
export function elementOf(address: string, text: string, value: unknown): Element {
  const copy = copyOf(value);
  return { value: copy === NO_COPY ? decode(text) : copy, size: text.length, address, text: undefined, trace: undefined };
}

/** An element made from what was decoded for it alone. */
export function ownElement(value: unknown, size: number, address?: string): Element {
  return { value, size, address, text: undefined, trace: undefined };
}

/** Whether a value still is what the element's text says; undefined if only its text can tell. */
export function isStill(element: Element, value: unknown, tracer: Tracer): boolean | undefined {
  const own = element.value;
  if (typeof own !== "object" || own === null) return Object.is(own, value);
  if (element.trace === undefined) element.trace = tracer.trace(own) ?? null;
  if (element.trace !== null && matches(element.trace, value)) return true;
  return copyOf(own) === NO_COPY ? undefined : sameAs(own, value);
}

/** The value, made anew for whoever asks. */
export function valueOf(element: Element): unknown {
  const copy = copyOf(element.value);
  return copy === NO_COPY ? decode(textOf(element)) : copy;
}

/** Its text, whatever has become of the value since. */
export function textOf(element: Element): string {
  return element.text ?? encode(element.value, AS_IT_IS);
}

/** What was decoded holds no instances of unknown classes any more. */
const AS_IT_IS: EncodeOptions = {};
