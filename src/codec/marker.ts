/**
 * The one reserved key. A JSON object that has it is a tagged value, `{"~": tag, …}`; an ordinary object that happens to own this
 * key is written inside the tag `object`, so data can never pass for a tag.
 */
export const MARKER = "~";

/** How many arrays and objects may be nested in the written text. Far above real data, far below what overflows a stack. */
export const MAX_LEVELS = 2_000;

/** What a text may nest when it is read: tags without children add one level that the writer does not count. */
export const MAX_LEVELS_READ = MAX_LEVELS + 8;

/** A JSON object as the parser made it. */
export type JsonRecord = Record<string, unknown>;

/** The opening of a tagged object; the caller appends further keys and the closing brace. */
export function open(tag: string): string {
  return `{"${MARKER}":"${tag}"`;
}

/** A whole tagged object with one content, given as JSON text. */
export function tagged(tag: string, json: string): string {
  return `{"${MARKER}":"${tag}","v":${json}}`;
}

/** Sets an own property. Never assigns to `__proto__`, which would replace the prototype of the target instead. */
export function put(target: object, key: string, value: unknown): void {
  if (key === "__proto__") define(target, key, value);
  else (target as JsonRecord)[key] = value;
}

/** Makes an own enumerable data property, whatever setters or read-only names the target inherits. */
export function define(target: object, key: string, value: unknown): void {
  Object.defineProperty(target, key, { value, enumerable: true, configurable: true, writable: true });
}
