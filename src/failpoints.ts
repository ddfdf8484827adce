/** The commits of the store, by the names that failpoints carry. */
export const COMMIT_NAMES = [
  "checkpoint",
  "writes",
  "thought",
  "action",
  "tokens",
  "effect-intent",
  "effect-outcome",
  "undo-mark",
  "rewind-intent",
  "rewind",
  "take-back",
  "prune",
  "run-mark",
  "move-rows",
  "move-hold",
  "move-publish",
  "move-end",
] as const;
export type CommitName = (typeof COMMIT_NAMES)[number];

/** The user's functions that run between two commits. */
export const BODY_NAMES = ["effect-body", "undo-body"] as const;
export type BodyName = (typeof BODY_NAMES)[number];

/**
 * A named place at which a test can stop everything. `<commit>.before`: before the transaction begins. `<commit>.within`: when
 * all its rows are written. `<commit>.after`: after the commit. `<body>.before` and `<body>.after`: around a function of the
 * user's.
 */
export type Failpoint = `${CommitName}.${"before" | "within" | "after"}` | `${BodyName}.${"before" | "after"}`;

/** What is known about the place. Never the user's payload. */
export interface FailpointDetails {
  threadId?: string;
  node?: string;
  nodeTaskId?: string;
  effect?: string;
  /** For an effect's function or its undo: the key it is called with. */
  key?: string;
}

/** Called at each failpoint that is reached. */
export type FailpointHandler = (point: Failpoint, details: FailpointDetails) => void;

/** The key on globalThis, so that every subpath and every copy of this package (ESM beside CommonJS) sees the same handler. */
export const FAILPOINTS: unique symbol = Symbol.for("langgraph-checkpoint-turns.failpoints");

/**
 * Calls the test's handler, if there is one. The handler may kill the process, or throw: then the commit (or the function) fails
 * with that error.
 *
 * @param details called only if there is a handler
 */
export function failpoint(point: Failpoint, details?: () => FailpointDetails): void {
  const handler = (globalThis as Record<symbol, unknown>)[FAILPOINTS] as FailpointHandler | undefined;
  if (handler !== undefined) handler(point, details?.() ?? {});
}

/** Sets or removes the one handler of this process. @returns the previous handler */
export function setFailpointHandler(handler: FailpointHandler | undefined): FailpointHandler | undefined {
  const holder = globalThis as Record<symbol, unknown>;
  const former = holder[FAILPOINTS] as FailpointHandler | undefined;
  if (handler === undefined) delete holder[FAILPOINTS];
  else holder[FAILPOINTS] = handler;
  return former;
}
