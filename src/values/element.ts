import { copyOf, decode, encode, type EncodeOptions, NO_COPY, sameAs } from "../codec";

/**
 * A part of a value that is in the store, as we remember it: a private copy that nobody else holds, or its text where the codec
 * knows no copy. What users hold may change under our hands; this does not.
 */
export interface Element {
  readonly address: string;
  /** Length of its text. */
  readonly size: number;
  readonly copy: unknown;
  readonly text: string | undefined;
}

/** @param value what the text says; it stays the caller's */
export function elementOf(address: string, text: string, value: unknown): Element {
  const copy = copyOf(value);
  return { address, size: text.length, copy, text: copy === NO_COPY ? text : undefined };
}

/** Whether a value still is what the element's text says. `encode` is asked only where there is no copy to compare. */
export function isStill(element: Element, value: unknown, encode: () => string): boolean {
  return element.text === undefined ? sameAs(element.copy, value) : encode() === element.text;
}

/** The value, made anew for whoever asks. */
export function valueOf(element: Element): unknown {
  return element.text === undefined ? copyOf(element.copy) : decode(element.text);
}

/** Its text, whatever has become of the value since. */
export function textOf(element: Element, options: EncodeOptions): string {
  return element.text ?? encode(element.copy, options);
}
