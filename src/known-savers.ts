/** Shared by all copies of this package (ESM beside CommonJS). */
export const knownSavers: WeakSet<object> = ((globalThis as Record<symbol, unknown>)[
  Symbol.for("langgraph-checkpoint-turns.savers")
] ??= new WeakSet()) as WeakSet<object>;

/** Whether this is a saver of this package. Also recognises one of its other build, which `instanceof` can't. */
export function isSaver(value: unknown): boolean {
  return typeof value === "object" && value !== null && knownSavers.has(value);
}
