import { describe, TurnsError } from "./errors";
import { ID_RULE, isId, newId, wallClock } from "./system";
import { defaultLogger, type Logger } from "./logger";
import { type EncryptionOption, encryptionSchema } from "./sealing";
import type { TurnType, TurnStatus } from "./store/store";
import type { SerializerProtocol } from "@langchain/langgraph-checkpoint";
import { unknownOption } from "./unknown-option";
import { z } from "zod";

/** Options of {@link TurnSaver}. All are optional. */
export interface TurnSaverOptions {
  /**
   * `"full"` (default): an acknowledged save survives a power cut, about 0.25 ms a commit on the machine it was measured on.
   * `"normal"`: it survives a crash of the process, and may be lost in a power cut.
   */
  synchronous?: "full" | "normal";
  /** What opens the file. Default: better-sqlite3 if it can be loaded, else `node:sqlite`; see docs/drivers.md. Not for an open handle. */
  driver?: "better-sqlite3" | "node:sqlite";
  /** How long a save waits for a lock that another process holds, milliseconds; the event loop runs on meanwhile. Default 30,000. */
  busyTimeoutMs?: number;
  /** `"continue"` (default): a turn that cannot be saved is logged and reported, and the graph goes on. `"throw"`: the node is stopped before its work. */
  onTurnError?: "continue" | "throw";
  /** `"throw"` (default): a checkpoint that cannot be saved stops the run at the next node. `"continue"`: it is logged and reported. */
  onCheckpointError?: "continue" | "throw";
  /** `"error"` (default): an instance of a class the codec does not know is refused. `"plain"`: it is saved as a plain object. */
  classInstances?: "error" | "plain";
  /**
   * `true`: the graph never changes a value of its state in place, so what is the same object needs no comparing; a save then costs the
   * same whatever the length of the history. Lists of more than 1,000 elements are trusted to have no holes and no further properties.
   * Default `false`: every element is compared with a private copy.
   */
  immutable?: boolean;
  /** How much decoded state is remembered to save reading and encoding, in characters of text. Default 64 million. */
  cacheSize?: number;
  /**
   * Says what a turn's row holds: called with each turn before it is saved, with a copy of its state; what it returns is saved instead,
   * undefined for nothing. If it throws, the turn is saved without content. It does not reach the checkpoints; see docs/redaction.md.
   */
  redact?: (turn: TurnToRedact) => Record<string, unknown> | undefined;
  /**
   * `"full"` (default): turns with their content. `"metadata"`: turns without any, `redact` is not asked then. `"off"`: no turns; what is
   * in flight, tokens and the history of turns are then not known.
   */
  turns?: "full" | "metadata" | "off";
  /** Keys with which all payload is sealed before it reaches the file; see docs/encryption.md. Default: none, and nothing is. */
  encryption?: EncryptionOption;
  /**
   * Prunes a thread after each checkpoint saved on it, in the background: see docs/retention.md. Recommended is `{ keepTasks: 5 }`: the
   * five newest tasks can be rewound. `keepLast` counts checkpoints, of which a run saves one for each step. What either keeps stays.
   * `keepLastWhenDone` takes the place of `keepLast` for a thread whose graph has ended. Default: nothing is ever deleted that nobody
   * asked to delete.
   */
  retention?: { keepTasks?: number; keepLast?: number; maxAgeMs?: number; keepLastWhenDone?: number };
  /**
   * A serde of LangGraph's kind to use instead of the codec, binary ones included. Saves then commit in order but asynchronously, so
   * a crash can lose the one that is being serialised; values are kept whole, not in parts.
   */
  serde?: SerializerProtocol;
  /** A pino logger, or anything of its shape. Default: warnings and errors go to stderr. */
  logger?: Logger;
  /** Source of the current time. */
  clock?: () => Date;
  /** Source of unique ids; they must be UUIDs. */
  createId?: () => string;
}

/** Parts of the schemas of many options and requests. */
export const idSchema = z.custom<string>(isId, ID_RULE);
export const signalSchema = z.custom<AbortSignal>((value) => value instanceof AbortSignal, "must be an AbortSignal");
export const isFunction = (value: unknown): boolean => typeof value === "function";
export const functionSchema = <T>(message = "must be a function"): z.ZodCustom<T, T> => z.custom<T>(isFunction, message);

const isLogger = (value: unknown): boolean =>
  typeof value === "object" &&
  value !== null &&
  ["debug", "info", "warn", "error"].every((level) => isFunction((value as Record<string, unknown>)[level]));

/** At least one of the four: an option that keeps everything would be a mistake. */
const retention = () =>
  z
    .strictObject({
      keepTasks: z.number().int().min(1).optional(),
      keepLast: z.number().int().min(1).optional(),
      maxAgeMs: z.number().int().min(0).optional(),
      keepLastWhenDone: z.number().int().min(1).optional(),
    })
    .refine(
      (given) => Object.values(given).some((value) => value !== undefined),
      "must be an object with keepTasks, keepLast, maxAgeMs or keepLastWhenDone",
    );

const isSerde = (value: unknown): boolean =>
  typeof value === "object" &&
  value !== null &&
  ["dumpsTyped", "loadsTyped"].every((method) => isFunction((value as Record<string, unknown>)[method]));

const schema = () =>
  z.strictObject({
    serde: z.custom<SerializerProtocol>(isSerde, "must be an object with the methods dumpsTyped and loadsTyped").optional(),
    synchronous: z.enum(["full", "normal"]).default("full"),
    driver: z.enum(["better-sqlite3", "node:sqlite"]).optional(),
    busyTimeoutMs: z.number().int().min(0).max(86_400_000).default(30_000),
    onTurnError: z.enum(["continue", "throw"]).default("continue"),
    onCheckpointError: z.enum(["continue", "throw"]).default("throw"),
    classInstances: z.enum(["error", "plain"]).default("error"),
    immutable: z.boolean().default(false),
    cacheSize: z.number().int().min(0).default(64_000_000),
    redact: functionSchema<NonNullable<TurnSaverOptions["redact"]>>(
      "must be a function that returns an object or undefined",
    ).optional(),
    turns: z.enum(["full", "metadata", "off"]).default("full"),
    encryption: encryptionSchema(),
    // No default: a checkpointer that deletes what nobody asked it to delete would be wrong.
    retention: retention().optional(),
    logger: z.custom<Logger>(isLogger, "must be an object with the methods debug, info, warn and error").default(defaultLogger),
    clock: functionSchema<() => Date>("must be a function that returns a Date").default(() => wallClock),
    createId: functionSchema<() => string>("must be a function that returns a UUID").default(() => newId),
  });

type Optional = "driver" | "encryption" | "redact" | "retention" | "serde";
export type ResolvedOptions = Required<Omit<TurnSaverOptions, Optional>> & Pick<TurnSaverOptions, Optional>;

/** Fills in defaults. @throws {TurnsError} INVALID_OPTION naming the option, what is allowed, and the value */
export function resolveOptions(options: TurnSaverOptions = {}): ResolvedOptions {
  refuseFormerName(options);
  return checkedOptions(schema, options);
}

/** LangGraph's own `durability` means something else, and goes with a run. @throws {TurnsError} INVALID_OPTION */
function refuseFormerName(options: object | null): void {
  if (options === null || !Object.hasOwn(options, "durability")) return;
  throw new TurnsError("INVALID_OPTION", {
    problem: 'Unknown option "durability".',
    remedy: 'Did you mean "synchronous"? It takes "full" or "normal". LangGraph\'s own "durability" is an option of a run.',
    data: { option: "durability", nearest: "synchronous" },
  });
}

/**
 * A schema, or what makes it when it is first needed: importing the package makes none of those that a module declares so.
 */
export type Schema<T> = z.ZodType<T> | (() => z.ZodType<T>);

const made = new WeakMap<() => z.ZodType, z.ZodType>();

/** Made once. */
export function schemaOf<T>(type: Schema<T>): z.ZodType<T> {
  if (typeof type !== "function") return type;
  const known = made.get(type) as z.ZodType<T> | undefined;
  if (known !== undefined) return known;
  const schema = type();
  made.set(type, schema);
  return schema;
}

/** Parses options, and names the first that is wrong, with its whole path. @throws {TurnsError} INVALID_OPTION */
export function checkedOptions<T>(type: Schema<T>, options: unknown): T {
  let validNames: readonly string[] = [];
  const result = schemaOf(type).safeParse(options, {
    error: (issue) => {
      if (issue.code === "unrecognized_keys") validNames = namesOf(issue.inst);
      return undefined;
    },
  });
  if (result.success) return result.data;
  const issue = result.error.issues[0] as z.core.$ZodIssue;
  const path = issue.path.join(".");
  if (issue.code === "unrecognized_keys") {
    const option = issue.keys.map((key) => [...issue.path, key].join(".")).join(", ");
    throw new TurnsError("INVALID_OPTION", { ...unknownOption(issue.keys, validNames, issue.path), data: { option } });
  }
  const value = valueAt(options, issue.path);
  const found = value === undefined ? "missing" : describe(value);
  throw new TurnsError("INVALID_OPTION", {
    problem: path === "" ? `The options are ${found}.` : `Option ${describe(path)} is ${found}.`,
    remedy: `Pass ${expectationOf(issue)}.`,
    data: { option: path },
  });
}

/** The names of the properties that an object's schema has. */
function namesOf(schema: z.core.$ZodRawIssue["inst"]): readonly string[] {
  const definition = schema?._zod.def as Partial<z.core.$ZodObjectDef> | undefined;
  return Object.keys(definition?.shape ?? {});
}

function valueAt(options: unknown, path: readonly PropertyKey[]): unknown {
  return path.reduce((value, key) => (value as Record<PropertyKey, unknown> | null | undefined)?.[key], options);
}

/** The kinds that schemas name, as they stand in a sentence. */
const KINDS: Readonly<Record<string, string>> = {
  string: "a string",
  boolean: "true or false",
  number: "a number",
  int: "a whole number",
  object: "an object",
  record: "an object",
  array: "an array",
  date: "a valid date",
};

/** What follows "expected" in the message about an issue; zod's own texts are whole sentences, which would say "expected" twice. */
export function expectationOf(issue: z.core.$ZodIssue): string {
  switch (issue.code) {
    case "invalid_type":
      return KINDS[issue.expected] ?? `an instance of ${issue.expected}`;
    case "invalid_value":
      return issue.values
        .map((value) => JSON.stringify(value))
        .join(", ")
        .replace(/, (?=[^,]*$)/, " or ");
    case "too_small":
      return bounded(issue.origin, "at least", issue.minimum);
    case "too_big":
      return bounded(issue.origin, "at most", issue.maximum);
    default:
      // A schema's own text is either what is wanted or "must be" that.
      return issue.message.replace(/^must be /, "");
  }
}

function bounded(origin: string, limit: string, count: number | bigint): string {
  const kind = KINDS[origin] ?? "a number";
  return origin === "string"
    ? `${kind} of ${limit} ${count} ${count === 1 ? "character" : "characters"}`
    : `${kind} of ${limit} ${count}`;
}

/** @throws {TurnsError} INVALID_OPTION unless it is the path of a file, in memory or none */
export function refuseNoFile(what: string, path: unknown, expected: string): void {
  if (typeof path === "string" && path.trim() !== "" && path !== ":memory:" && !path.includes("\0")) return;
  throw new TurnsError("INVALID_OPTION", {
    problem: `${what} is ${describe(path)}.`,
    remedy: `Pass ${expected}, as a non-empty string without NUL characters.`,
  });
}

/** What the option `redact` is asked about: a turn that is about to be saved. */
export interface TurnToRedact {
  threadId: string;
  /** If the run named them. */
  graphId?: string;
  taskId?: string;
  nodeName: string;
  nodeNs: string;
  nodeTaskId: string;
  turnType: TurnType;
  /** Only Actions have one. */
  status?: TurnStatus;
  /**
   * What the node was called with (Thought), what it returned, or its error or interrupts (Action): a copy, which may be changed.
   * Values that the codec cannot save are not in it.
   */
  state: Record<string, unknown>;
}
