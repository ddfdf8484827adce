import { z } from "zod";
import { describe, TurnsError } from "../errors";
import { ID_RULE, isId } from "../system";
import type { EffectTry } from "./types";
import { checkedOptions, functionSchema, idSchema, isFunction } from "../options";

/** What an error of an effect's function says about the side effect. */
export type ErrorOutcome = "retryable" | "final" | "unknown";

/** Options of `effect()`. */
export interface EffectOptions<T> {
  /**
   * The effect's input: kept for its undo, and compared when the effect is reached again. It can be anything the state could
   * hold.
   */
  input?: unknown;
  /** The effect needs no undo (it only reads), so a rewind may pass it. To define an effect with an undo, use `defineEffect`. */
  undo?: false;
  /** The receiver honours the key: in doubt, the effect runs again with the same key. */
  idempotent?: boolean;
  /**
   * Finds out whether an effect in doubt happened. Return its result if it happened, or undefined if it didn't; the effect then
   * runs. `null` is no answer and leaves it in doubt. For an effect without a result, return anything else, e.g. `true`, to say
   * that it happened.
   *
   * It must be sure: if it returns undefined while the call is still on its way, the effect happens twice.
   */
  probe?: (key: string) => void extends T ? unknown : T | undefined | Promise<T | undefined>;
  /** Distinguishes effects of the same name in one node if their order may change. Default: their order. */
  id?: string;
  /**
   * What it means if the function throws. Default: `"unknown"` for an abort, a timeout or a lost connection (also as the error's
   * cause), `"retryable"` for everything else.
   * - `"retryable"`: the side effect didn't happen, and may be tried again.
   * - `"final"`: it never will happen; the same error is thrown again.
   * - `"unknown"`: it may have happened, so the effect is in doubt.
   */
  onError?: ErrorOutcome | ((error: unknown) => ErrorOutcome);
  /**
   * What happens if the effect is reached again with a different input than was recorded. `"refuse"` (default): EFFECT_CHANGED.
   * `"accept"`: the recorded effect counts for the new input too.
   */
  onInputChange?: "refuse" | "accept";
  /** The config the node was called with. Needed only where LangGraph's own can't be found (no AsyncLocalStorage). */
  config?: object;
}

export type CheckedEffect = Omit<EffectOptions<unknown>, "onInputChange" | "idempotent" | "undo"> & {
  onInputChange: "refuse" | "accept";
  idempotent: boolean;
  /** For a transactional effect, in place of a probe: looks its key up. */
  find?: (effect: EffectTry) => Promise<Found>;
  /** The name of the defined effect that has its undo, which is its own. */
  undo?: string | false | undefined;
};

/** What is known of an effect in doubt: its result, undefined if it didn't happen, or `null` for no answer. */
export type Found = { result: unknown } | undefined | null;

/** What a probe's answer says. */
export async function answerOf(probed: unknown): Promise<Found> {
  const result = await probed;
  return result === undefined || result === null ? result : { result };
}

/** Where a call of `effect()` happens, according to LangGraph's config (internals, section 4). */
export interface EffectPlace {
  threadId: string;
  nodeNs: string;
  nodeTaskId: string;
  /** The newest checkpoint of the outermost graph. */
  rootCheckpointId: string | undefined;
  /** The newest checkpoints of the nested graphs that contain the node, by namespace. */
  innerCheckpointIds: Readonly<Record<string, string>>;
  /** The run of the caller, a node or a tool. */
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
