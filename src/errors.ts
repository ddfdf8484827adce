/** The stable codes of {@link TurnsError}; docs/errors.md explains each. */
export type TurnsErrorCode =
  | "INVALID_OPTION"
  | "INVALID_CONFIG"
  | "INVALID_CHECKPOINT"
  | "INVALID_GRAPH"
  | "CHECKPOINT_NOT_FOUND"
  | "CHECKPOINT_CORRUPTED"
  | "TURN_NOT_KEPT"
  | "REDACTION_FAILED"
  | "STATE_INVARIANT_VIOLATED"
  | "UNSERIALIZABLE_VALUE"
  | "UNDECODABLE_VALUE"
  | "CHECKPOINT_UNREADABLE"
  | "IMPORT_MISMATCH"
  | "IMPORT_ABORTED"
  | "SALVAGE_TARGET_EXISTS"
  | "BACKUP_TARGET_EXISTS"
  | "BACKUP_ABORTED"
  | "DRIVER_UNAVAILABLE"
  | "STORE_CLOSED"
  | "STORE_DRAINING"
  | "STORE_BUSY"
  | "STORE_UNAVAILABLE"
  | "STORE_FAILED"
  | "NOT_A_DATABASE"
  | "SCHEMA_TOO_NEW"
  | "SCHEMA_CONFLICT"
  | "SCHEMA_OUTDATED"
  | "UNSUPPORTED"
  | "THREAD_EXISTS"
  | "THREAD_FULL"
  | "THREAD_NOT_FOUND"
  | "THREAD_RUNNING"
  | "THREAD_DELETED"
  | "THREAD_MOVED"
  | "MOVE_MISMATCH"
  | "LEASE_LOST"
  | "UNKNOWN_TASK"
  | "UNFINISHED_WORK"
  | "NOTHING_TO_RESUME"
  | "UNKNOWN_INTERRUPT"
  | "REWIND_NOT_FOUND"
  | "REWIND_CONFLICT"
  | "EFFECT_IN_DOUBT"
  | "EFFECT_NOT_IN_DOUBT"
  | "EFFECT_CHANGED"
  | "EFFECT_DEFINED_TWICE"
  | "EFFECT_NOT_RECORDED"
  | "EFFECT_OUTSIDE_NODE"
  | "EFFECT_NOT_FOUND"
  | "EFFECT_IN_TRANSACTION"
  | "EFFECT_FENCED"
  | "COMMIT_IN_DOUBT"
  | "COMPLETIONS_UNAVAILABLE"
  | "EFFECT_UNCOMPENSATED"
  | "UNDO_FAILED"
  | "REWIND_UNFINISHED"
  | "VALIDATION_FAILED"
  | "GRAPH_CHANGED"
  | "WRONG_GRAPH"
  | "ENCRYPTED"
  | "NOT_ENCRYPTED"
  | "UNKNOWN_KEY"
  | "WRONG_KEY"
  | "KEY_PROVIDER_FAILED"
  | "CHECKPOINT_FILE_MALFORMED"
  | "CHECKPOINT_FILE_UNAVAILABLE"
  | "UNKNOWN_PHASE"
  | "FAILPOINT_REACHED"
  | "FAILPOINT_NOT_REACHED"
  | "GRAPH_MODULE_INVALID"
  | "CHILD_TIMED_OUT"
  | "CHILD_FAILED"
  | "MATRIX_IMPOSSIBLE";

interface NamedEffect {
  readonly name: string;
  readonly label: string;
  readonly key: string;
}

/** The `data` of the codes that programs answer most. All other data is for people and logs. */
interface KnownData {
  INVALID_OPTION: { option?: string };
  INVALID_CONFIG: { key: string };
  THREAD_NOT_FOUND: { threadId: string };
  THREAD_RUNNING: { threadId: string };
  THREAD_MOVED: { threadId: string; to: string };
  NOTHING_TO_RESUME: { threadId: string };
  UNFINISHED_WORK: { threadId: string; nodes: readonly string[]; waits: boolean };
  UNKNOWN_INTERRUPT: {
    threadId: string;
    waiting: readonly { readonly id: string | undefined; readonly node: string }[];
    unknown: readonly string[];
  };
  UNKNOWN_TASK: { threadId?: string; tasks?: readonly string[] };
  REWIND_UNFINISHED: { threadId: string; rewindId: string; toTask: string };
  EFFECT_IN_DOUBT: { threadId: string; effectId: string };
  EFFECT_UNCOMPENSATED: { threadId: string; effects: readonly { readonly id: string; readonly name: string }[] };
  GRAPH_CHANGED: {
    threadId: string;
    changes: readonly string[];
    nodes: readonly string[];
    effects: readonly NamedEffect[];
  };
  VALIDATION_FAILED: { threadId: string; nodeName: string; confidence: number; minConfidence: number };
}

type MustHaveData = Exclude<keyof KnownData, "INVALID_OPTION" | "UNKNOWN_TASK">;

/** Identifiers for programs (thread id, checkpoint id, path to a value). Never payloads. */
type DataOf<C extends TurnsErrorCode> = Readonly<Record<string, unknown>> &
  (C extends keyof KnownData ? Readonly<KnownData[C]> : unknown);

/** What a {@link TurnsError} is made of. Its message is the problem, then the remedy. */
export type TurnsErrorDetails<C extends TurnsErrorCode = TurnsErrorCode> = {
  /** What is wrong, with the value: one or more whole sentences. */
  problem: string;
  /** What the reader can do about it; a whole sentence. */
  remedy: string;
  cause?: unknown;
} & (C extends MustHaveData ? { data: DataOf<C> } : { data?: DataOf<C> });

export class TurnsError<C extends TurnsErrorCode = TurnsErrorCode> extends Error {
  readonly code: C;
  readonly data: DataOf<C>;

  constructor(code: C, details: TurnsErrorDetails<C>) {
    super(`${details.problem} ${details.remedy}`, details.cause === undefined ? undefined : { cause: details.cause });
    this.code = code;
    this.name = nameOf(code);
    this.data = (details.data ?? {}) as DataOf<C>;
  }

  /**
   * Whether this is a `TurnsError`, with that code if you give one. TypeScript then knows the code, and the `data` of the codes
   * that programs answer most. Works across ESM and CJS builds.
   */
  static is<C extends TurnsErrorCode = TurnsErrorCode>(error: unknown, code?: C): error is TurnsError<C> {
    if (!(error instanceof Error) || typeof (error as { code?: unknown }).code !== "string") return false;
    const found = (error as unknown as { code: string }).code;
    if (error.name !== nameOf(found)) return false;
    return code === undefined || found === code;
  }
}

function nameOf(code: string): string {
  const words = code.split("_").map((word) => word.charAt(0) + word.slice(1).toLowerCase());
  return `${words.join("")}Error`;
}

/** A text as the beginning of a message. */
export function sentence(text: string): string {
  return `${text.charAt(0).toUpperCase()}${text.slice(1)}`;
}

/** A short description of a value for a message. It shows nothing of what is in an object or a long text. */
export function describe(value: unknown): string {
  if (value === null) return "null";
  if (typeof value === "string") return value.length > 60 ? `a string of ${value.length} characters` : JSON.stringify(value);
  if (typeof value === "number" || typeof value === "boolean" || value === undefined) return String(value);
  if (typeof value === "bigint") return `${value}n`;
  if (Array.isArray(value)) return `an array of ${value.length}`;
  if (typeof value === "object") {
    const constructor: unknown = (Object.getPrototypeOf(value) as { constructor?: unknown } | null)?.constructor;
    const name = typeof constructor === "function" ? constructor.name : "";
    if (name === "Object" && Reflect.ownKeys(value).length === 0) return "an empty object";
    return name === "" || name === "Object" ? "an object" : `an instance of ${name}`;
  }
  return `a ${typeof value}`;
}
