import { TurnsError, type TurnsErrorCode } from "../errors";

/** Exit codes; docs/command-line.md lists them. */
export const DONE = 0;
export const FAILED = 1;
export const WRONG_USAGE = 2;
export const FOUND = 3;
export const NEEDS_DECISION = 4;
export const INTERRUPTED = 130;

/** The command line itself is wrong. */
export class UsageError extends Error {
  constructor(problem: string, remedy: string) {
    super(`${problem} ${remedy}`);
  }
}

/** Somebody has to decide something first. */
const DECISIONS: ReadonlySet<TurnsErrorCode> = new Set([
  ...(["THREAD_RUNNING", "REWIND_UNFINISHED", "REWIND_CONFLICT", "EFFECT_UNCOMPENSATED", "EFFECT_IN_DOUBT"] as const),
  ...(["EFFECT_NOT_IN_DOUBT", "UNFINISHED_WORK", "GRAPH_CHANGED", "BACKUP_TARGET_EXISTS", "SALVAGE_TARGET_EXISTS"] as const),
  ...(["THREAD_EXISTS"] as const),
]);
const USAGE: ReadonlySet<TurnsErrorCode> = new Set(["INVALID_OPTION", "INVALID_CONFIG"]);

export function exitCodeOf(error: unknown): number {
  if (error instanceof UsageError) return WRONG_USAGE;
  if (!TurnsError.is(error)) return FAILED;
  return USAGE.has(error.code) ? WRONG_USAGE : DECISIONS.has(error.code) ? NEEDS_DECISION : FAILED;
}

/** What the error's own remedy says in the words of a program, in the words of the command line. */
const REMEDIES: Partial<Record<TurnsErrorCode, string>> = {
  ENCRYPTED: "Set TURNS_KEY, or give --key-file FILE.",
  UNKNOWN_KEY: "Give all keys: --key-file FILE with { keys, current } as JSON.",
  SCHEMA_OUTDATED: "Open the database once in your program, with this version of the package.",
};

/** The message for stderr: what is wrong, what to do, and the code. A stack only for what should never happen. */
export function messageOf(error: unknown): string {
  if (error instanceof UsageError) return error.message;
  if (!TurnsError.is(error)) return error instanceof Error ? (error.stack ?? error.message) : String(error);
  const remedy = REMEDIES[error.code];
  return `${error.message}${remedy === undefined ? "" : ` Here: ${remedy}`} [${error.code}]`;
}
