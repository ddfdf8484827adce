import { z } from "zod";
import { describe, TurnsError } from "../errors";
import { ID_RULE, isId } from "../system";
import { checkedOptions, functionSchema, idSchema, isFunction } from "../options";

/** What an error of an effect's function says about the deed. */
export type ErrorOutcome = "retryable" | "final" | "unknown";

/** Options of `effect()`. */
export interface EffectOptions<T> {
  /** What the effect is done with: kept for its undo, and compared when the effect is met again. Anything that the state could hold. */
  input?: unknown;
  /** It needs no undo (it only reads), so a rewind may pass it. An effect that can be undone is defined with `defineEffect`. */
  undo?: false;
  /** The receiver honours the key: in doubt, the effect runs again with the same one. */
  idempotent?: boolean;
  /**
   * Asked when the effect is in doubt: what the effect came to, if it happened; undefined if it did not, and the effect then runs. `null`
   * is no answer, and leaves it in doubt. Of an effect without a result anything else, e.g. `true`, says that it happened. It must be sure: an
   * answer of undefined while the deed is still on its way lets it happen twice.
   */
  probe?: (key: string) => void extends T ? unknown : T | undefined | Promise<T | undefined>;
  /** Tells apart effects of the same name in one node whose order may change. Default: their order. */
  id?: string;
  /**
   * What it means that the function threw. `"retryable"`: the deed did not happen, and may be tried again. `"final"`: it never will, the
   * same error comes again. `"unknown"`: it may have happened, so the effect is in doubt. Default: `"unknown"` for an abort, a timeout
   * or a lost connection (also as the cause of the error), `"retryable"` for all else.
   */
  onError?: ErrorOutcome | ((error: unknown) => ErrorOutcome);
  /**
   * When the effect is met again with another input than was recorded: `"refuse"` (default) with EFFECT_CHANGED, or `"accept"` the
   * recorded effect for this one.
   */
  onInputChange?: "refuse" | "accept";
  /** The config the node was called with, where LangGraph's own cannot be found (no AsyncLocalStorage). */
  config?: object;
}

export type CheckedEffect = Omit<EffectOptions<unknown>, "onInputChange" | "idempotent" | "undo"> & {
  onInputChange: "refuse" | "accept";
  idempotent: boolean;
  /** The name of the defined effect that has its undo, which is its own. */
  undo?: string | false | undefined;
};

/** Where a call of `effect()` stands, by what LangGraph's config says (internals, section 4). */
export interface EffectPlace {
  threadId: string;
  nodeNs: string;
  nodeTaskId: string;
  /** The newest checkpoint of the outermost graph. */
  rootCheckpointId: string | undefined;
  /** Those of the graphs inside it that the node is in, by their namespaces. */
  innerCheckpointIds: Readonly<Record<string, string>>;
  /** The run that the caller is, a node's or a tool's. */
  runId: string | undefined;
}

export const effectOptions = () =>
  z.strictObject({
    input: z.unknown().optional(),
    undo: z.literal(false, "must be false; an effect with an undo is made by defineEffect(name, { run, undo })").optional(),
    idempotent: z.boolean().default(false),
    probe: functionSchema<CheckedEffect["probe"]>("must be a function of the key").optional(),
    id: idSchema.optional(),
    onError: z
      .custom<CheckedEffect["onError"]>(
        (value) => isFunction(value) || value === "retryable" || value === "final" || value === "unknown",
        'must be "retryable", "final", "unknown", or a function that gives one of them',
      )
      .optional(),
    onInputChange: z.enum(["refuse", "accept"]).default("refuse"),
    config: z.custom<object>((value) => typeof value === "object" && value !== null, "must be the config of the node").optional(),
  });

/** @throws {TurnsError} INVALID_OPTION */
export function checkedEffect(name: unknown, fn: unknown, options: unknown): CheckedEffect {
  if (!isId(name)) throw invalid("The name of an effect", ID_RULE, name);
  if (!isFunction(fn)) throw invalid(`What effect ${JSON.stringify(name)} does`, "a function", fn);
  return checkedOptions(effectOptions, options ?? {});
}

const invalid = (what: string, expected: string, found: unknown): TurnsError =>
  new TurnsError("INVALID_OPTION", {
    problem: `${what} is ${describe(found)}. It must be ${expected}.`,
    remedy: 'Call effect("name", (key) => …, options). Nothing was done.',
  });
