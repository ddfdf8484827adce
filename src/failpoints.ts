/** What the store commits, by the names that failpoints carry. */
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
] as const;
export type CommitName = (typeof COMMIT_NAMES)[number];

/** Work of users' own that lies between two commits. */
export const BODY_NAMES = ["effect-body", "undo-body"] as const;
export type BodyName = (typeof BODY_NAMES)[number];

/**
 * A named place at which a test can stop the world: `<commit>.before` a transaction begins, `.within` it when all its rows are
 * written, `.after` its commit; `<body>.before` and `.after` a function of the user's.
 */
export type Failpoint = `${CommitName}.${"before" | "within" | "after"}` | `${BodyName}.${"before" | "after"}`;

/** What is known of the place: nothing of the user's payload. */
export interface FailpointDetails {
  threadId?: string;
  node?: string;
  nodeTaskId?: string;
  effect?: string;
  /** Around an effect's function, and its undo: the key it is called with. */
  key?: string;
}

export type FailpointHandler = (point: Failpoint, details: FailpointDetails) => void;

/** On globalThis, since every subpath and every copy of this package (ESM beside CommonJS) must meet the same handler. */
const KEY = Symbol.for("langgraph-checkpoint-turns.failpoints");

/**
 * Tells a test that this place was reached; without a handler it does nothing. A handler may kill the process, or throw: then the place
 * fails as if the commit (or the function) had.
 *
 * @param details asked for only if somebody listens
 */
export function failpoint(point: Failpoint, details?: () => FailpointDetails): void {
  const handler = (globalThis as Record<symbol, unknown>)[KEY] as FailpointHandler | undefined;
  if (handler !== undefined) handler(point, details?.() ?? {});
}

/** Sets the one handler of this process, or takes it away. @returns the handler until now */
export function setFailpointHandler(handler: FailpointHandler | undefined): FailpointHandler | undefined {
  const holder = globalThis as Record<symbol, unknown>;
  const former = holder[KEY] as FailpointHandler | undefined;
  if (handler === undefined) delete holder[KEY];
  else holder[KEY] = handler;
  return former;
}
