/** What a copy of this package (ESM beside CommonJS) keeps in its savers; undefined for any other object. */
type Reader = (value: object) => object | undefined;

/** Shared by all copies. */
const readers: Reader[] = ((globalThis as Record<symbol, unknown>)[Symbol.for("langgraph-checkpoint-turns.savers")] ??=
  []) as Reader[];

/**
 * A class of savers tells how to read what it keeps in a private field. In a WeakMap it would outlive the
 * garbage collections of young objects, and so would every closed saver.
 */
export function addReader(reader: Reader): void {
  readers.push(reader);
}

/** What a saver of this package keeps for its other modules; undefined for anything else. */
export function keptIn(value: unknown): object | undefined {
  if (typeof value !== "object" || value === null) return undefined;
  for (const reader of readers) {
    const kept = reader(value);
    if (kept !== undefined) return kept;
  }
  return undefined;
}

/** Whether this is a saver of this package. Also recognises one of its other build, which `instanceof` can't. */
export function isSaver(value: unknown): boolean {
  return keptIn(value) !== undefined;
}
