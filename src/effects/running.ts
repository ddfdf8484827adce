/**
 * What this process is doing, by the effect's id, over all savers on all files and all copies of this package (ESM beside CommonJS): an
 * attempt that timed out may still be at it when the next one comes.
 */
export const runningHere: Map<string, Promise<unknown>> = ((globalThis as Record<symbol, unknown>)[
  Symbol.for("langgraph-checkpoint-turns.effects")
] ??= new Map<string, Promise<unknown>>()) as Map<string, Promise<unknown>>;
