import { describe, TurnsError } from "./errors";
import { ID_RULE, isId, newId, wallClock } from "./system";
import { defaultLogger, harmless, type Logger } from "./logger";
import { type EncryptionOption, encryptionSchema } from "./sealing";
import type { TurnType, TurnStatus } from "./store/store";
import type { SerializerProtocol } from "@langchain/langgraph-checkpoint";
import { unknownOption } from "./unknown-option";
import { z } from "zod";

/** Options of {@link TurnSaver}. All are optional. */
export interface TurnSaverOptions {
  /**
   * `"full"` (default): an acknowledged save survives a power cut. It costs about 0.25 ms per commit on the machine it was
   * measured on. `"normal"`: the save survives a crash of the process, but a power cut may lose it.
   */
  synchronous?: "full" | "normal";
  /**
   * The SQLite driver that opens the file. Default: better-sqlite3 if it can be loaded, else `node:sqlite`; see docs/drivers.md.
   * Can't be combined with an open handle.
   */
  driver?: "better-sqlite3" | "node:sqlite";
  /**
   * How long a save waits for a lock held by another process, in milliseconds. The event loop keeps running meanwhile. Default
   * 30,000.
   */
  busyTimeoutMs?: number;
  /**
   * `true` opens an existing database for reading only: it is never created, migrated or tidied up, and what would change it is
   * refused with STORE_UNAVAILABLE. On PostgreSQL every transaction is READ ONLY. Default `false`.
   */
  readOnly?: boolean;
  /**
   * `"continue"` (default): a turn that can't be saved is logged and reported, and the graph continues. `"throw"`: the node is
   * stopped before its body runs.
   */
  onTurnError?: "continue" | "throw";
  /**
   * `"throw"` (default): a checkpoint that can't be saved stops the run at the next node. `"continue"`: the failure is logged and
   * reported.
   */
  onCheckpointError?: "continue" | "throw";
  /** `"error"` (default): an instance of a class the codec doesn't know is refused. `"plain"`: it is saved as a plain object. */
  classInstances?: "error" | "plain";
  /**
   * `true` promises that your graph never changes a value of its state in place. The same object then needs no comparison, so a
   * save costs the same however long the history is. Lists of more than 1,000 elements are assumed to have no holes and no extra
   * properties. Default `false`: every element is compared with a private copy.
   */
  immutable?: boolean;
  /** How much decoded state is cached to save reading and encoding, in characters of text. Default 64 million. */
  cacheSize?: number;
  /**
   * Decides what a turn's row holds. It is called with each turn before the turn is saved, and gets a copy of the turn's state.
   * What it returns is saved instead; undefined saves nothing. If it throws, the turn is saved without content. Checkpoints
   * aren't redacted; see docs/redaction.md.
   */
  redact?: (turn: TurnToRedact) => Record<string, unknown> | undefined;
  /**
   * `"full"` (default): turns with their content. `"metadata"`: turns without content; `redact` isn't called. `"off"`: no turns,
   * so in-flight work, tokens and the history of turns aren't known.
   */
  turns?: "full" | "metadata" | "off";
  /** Keys that encrypt all payload before it reaches the file; see docs/encryption.md. Default: no encryption. */
  encryption?: EncryptionOption;
  /**
   * Prunes a thread in the background after each checkpoint saved on it; see docs/retention.md. Default: nothing is deleted
   * automatically.
   *
   * `{ keepTasks: 5 }` is recommended: you can rewind the five newest tasks. `keepLast` counts checkpoints; a run saves one per
   * step. What either of them keeps stays. `keepLastWhenDone` replaces `keepLast` for a thread whose graph has finished.
   */
  retention?: { keepTasks?: number; keepLast?: number; maxAgeMs?: number; keepLastWhenDone?: number };
  /**
   * A LangGraph serde to use instead of the codec, binary ones included. Saves then commit in order but asynchronously, so a
   * crash can lose the save that is being serialised. Values are stored whole, not in parts.
   */
  serde?: SerializerProtocol;
  /** A pino logger, or anything of its shape. Default: warnings and errors go to stderr. */
  logger?: Logger;
  /** Source of the current time. */
  clock?: () => Date;
  /** Source of unique ids, which must be UUIDs. */
  createId?: () => string;
}

/** Schemas that many options and requests share. */
export const idSchema = z.custom<string>(isId, ID_RULE);
export const signalSchema = z.custom<AbortSignal>((value) => value instanceof AbortSignal, "must be an AbortSignal");
export const isFunction = (value: unknown): boolean => typeof value === "function";
export const functionSchema = <T>(message = "must be a function"): z.ZodCustom<T, T> => z.custom<T>(isFunction, message);

const isLogger = (value: unknown): boolean =>
  typeof value === "object" &&
  value !== null &&
  ["debug", "info", "warn", "error"].every((level) => isFunction((value as Record<string, unknown>)[level]));

/** Requires at least one of the four: an option that keeps everything would be a mistake. */
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
    readOnly: z.boolean().default(false),
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
    // No default: a checkpointer must not delete data that nobody asked it to delete.
    retention: retention().optional(),
    logger: z.custom<Logger>(isLogger, "must be an object with the methods debug, info, warn and error").default(defaultLogger),
    clock: functionSchema<() => Date>("must be a function that returns a Date").default(() => wallClock),
    createId: functionSchema<() => string>("must be a function that returns a UUID").default(() => newId),
  });

type Optional = "driver" | "encryption" | "redact" | "retention" | "serde";
export type ResolvedOptions = Required<Omit<TurnSaverOptions, Optional>> & Pick<TurnSaverOptions, Optional>;

/** Fills in defaults. @throws {TurnsError} INVALID_OPTION naming the option, the valid values, and the given value */
export function resolveOptions(options: TurnSaverOptions = {}): ResolvedOptions {
  refuseFormerName(options);
  const checked = checkedOptions(schema, options);
  return { ...checked, logger: harmless(checked.logger), clock: checkedClock(checked.clock) };
}

/** @returns a clock that throws INVALID_OPTION if the given one throws, or returns no valid date */
function checkedClock(clock: () => Date): () => Date {
  if (clock === wallClock) return clock;
  return () => {
    let now: unknown;
    let cause: unknown;
    try {
      now = clock();
    } catch (error) {
      cause = error;
    }
    // A date of another realm is one too.
    if (Object.prototype.toString.call(now) === "[object Date]" && !Number.isNaN((now as Date).getTime())) return now as Date;
    const found = cause === undefined ? `returned ${now instanceof Date ? "an invalid date" : describe(now)}` : "threw an error";
    throw new TurnsError("INVALID_OPTION", {
      problem: `Option "clock" ${found}.`,
      remedy: "Pass a function that returns a valid Date.",
      data: { option: "clock" },
      cause,
    });
  };
}

/** LangGraph's own `durability` means something else and belongs to a run. @throws {TurnsError} INVALID_OPTION */
function refuseFormerName(options: object | null): void {
  if (options === null || !Object.hasOwn(options, "durability")) return;
  throw new TurnsError("INVALID_OPTION", {
    problem: 'Unknown option "durability".',
    remedy: 'Did you mean "synchronous"? It takes "full" or "normal". LangGraph\'s own "durability" is an option of a run.',
    data: { option: "durability", nearest: "synchronous" },
  });
}

/** A schema, or a function that makes it when it is first needed, so that importing the package builds no schemas. */
type Schema<T> = z.ZodType<T> | (() => z.ZodType<T>);

const made = new WeakMap<() => z.ZodType, z.ZodType>();

/** Makes the schema once. */
export function schemaOf<T>(type: Schema<T>): z.ZodType<T> {
  if (typeof type !== "function") return type;
  const known = made.get(type) as z.ZodType<T> | undefined;
  if (known !== undefined) return known;
  const schema = type();
  made.set(type, schema);
  return schema;
}

/** Parses options and names the first unknown or invalid one by its full path. @throws {TurnsError} INVALID_OPTION */
export function checkedOptions<T>(type: Schema<T>, options: unknown): T {
  let validNames: readonly string[] = [];
  const result = schemaOf(type).safeParse(options, {
    error: (issue) => {
      if (issue.code === "unrecognized_keys" && validNames.length === 0) validNames = namesOf(issue.inst);
      return undefined;
    },
  });
  if (result.success) return result.data;
  const { issues } = result.error;
  // A misspelt name explains why the right one is missing.
  const issue = (issues.find(({ code }) => code === "unrecognized_keys") ?? issues[0]) as z.core.$ZodIssue;
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

/** The property names of an object schema. */
function namesOf(schema: z.core.$ZodRawIssue["inst"]): readonly string[] {
  const definition = schema?._zod.def as Partial<z.core.$ZodObjectDef> | undefined;
  return Object.keys(definition?.shape ?? {});
}

function valueAt(options: unknown, path: readonly PropertyKey[]): unknown {
  return path.reduce((value, key) => (value as Record<PropertyKey, unknown> | null | undefined)?.[key], options);
}

/** The kinds that schemas name, as words in a sentence. */
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

/** What follows "Pass" in the message about an issue. Zod's own texts are whole sentences. */
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
      // A schema's own text is either the expectation itself, or "must be" followed by it.
      return issue.message.replace(/^must be /, "");
  }
}

function bounded(origin: string, limit: string, count: number | bigint): string {
  const kind = KINDS[origin] ?? "a number";
  return origin === "string"
    ? `${kind} of ${limit} ${count} ${count === 1 ? "character" : "characters"}`
    : `${kind} of ${limit} ${count}`;
}

/** The turn that the option `redact` is called with, before the turn is saved. */
export interface TurnToRedact {
  threadId: string;
  /** Given if the run named it. */
  graphId?: string;
  taskId?: string;
  nodeName: string;
  nodeNs: string;
  nodeTaskId: string;
  turnType: TurnType;
  /** Only Actions have one. */
  status?: TurnStatus;
  /**
   * A copy that you may change. For a Thought: what the node was called with. For an Action: what it returned, or its error or
   * interrupts. Values that the codec can't save are left out.
   */
  state: Record<string, unknown>;
}
