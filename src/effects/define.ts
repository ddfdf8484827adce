import { z } from "zod";
import { describe, TurnsError } from "../errors";
import { checkedOptions, functionSchema, isFunction } from "../options";
import { isId, ID_RULE } from "../system";
import { journaled } from "./effect";
import { type EffectOptions, effectOptions } from "./options";
import type { Effect } from "./types";

/** What an undo is told about the effect it undoes. */
export interface UndoCall<Input = unknown, Result = unknown> {
  /** The key that the effect's `run` was called with. */
  key: string;
  input: Input;
  /** What `run` returned. Undefined if the effect is in doubt, or if its result couldn't be saved. */
  result: Result;
  /** Nobody knows whether the effect happened. Only undos that declare `whenInDoubt` are called for such effects. */
  inDoubt: boolean;
  effect: Effect;
}

/** How an effect is undone, where a function alone doesn't say enough. */
export interface Undo<Input, Result, InDoubt extends boolean> {
  run: (call: UndoCall<Input, InDoubt extends true ? Result | undefined : Result>) => unknown;
  /** Whether the effect has been undone already. Asked before the undo is called again after a crash or an error. It must be sure. */
  probe?: (call: UndoCall<Input, InDoubt extends true ? Result | undefined : Result>) => boolean | Promise<boolean>;
  /** It may be called again with the same key when nobody knows whether an earlier call did it. */
  idempotent?: boolean;
  /** Call it for effects in doubt too; `result` is undefined then. */
  whenInDoubt?: InDoubt;
}

/** What {@link defineEffect} is given. Write `run` first: TypeScript takes the types of the other functions from it. */
export interface EffectDefinition<Input, Result, InDoubt extends boolean = boolean> extends Pick<
  EffectOptions<Result>,
  "idempotent" | "onError" | "onInputChange"
> {
  /** Does it. The key stays the same over all tries of one effect, and is never used for another one. */
  run: (input: Input, call: { key: string }) => Result | Promise<Result>;
  /**
   * Asked when the effect is in doubt, by a resume and by a rewind: what the effect came to, if it happened; undefined if it didn't. `null`
   * is no answer, and leaves it in doubt. If `run` returns nothing, anything else, e.g. `true`, says that it happened. The probe must be sure: if
   * it says undefined while the call is still on its way, it happens twice.
   */
  probe?: (call: {
    key: string;
    input: NoInfer<Input>;
  }) => void extends Result ? unknown : NoInfer<Result> | undefined | Promise<NoInfer<Result> | undefined>;
  /** What a rewind calls. `false`: there is nothing to undo, e.g. because it only reads. Without one, a rewind refuses to pass the effect. */
  undo?: ((call: UndoCall<NoInfer<Input>, NoInfer<Result>>) => unknown) | Undo<NoInfer<Input>, NoInfer<Result>, InDoubt> | false;
}

/** An effect that {@link defineEffect} made. Call it within a node, a tool or a functional task. */
export interface DefinedEffect<Input = never, Result = unknown> {
  (input: Input, options?: Pick<EffectOptions<Result>, "id" | "config">): Promise<Result>;
  /** Its name in the journal, by which a rewind in any process finds its undo and its probe. */
  readonly effectName: string;
}

/** A definition whose types only its author knew. */
export type AnyDefinition = EffectDefinition<unknown, unknown>;

/** How a defined effect carries its definition: by a symbol that the ESM and the CommonJS build share. */
const DEFINITION = Symbol.for("langgraph-checkpoint-turns.effect-definition");

interface Registered {
  definition: AnyDefinition;
  /** The line of code that defined it. */
  place: string;
}

/** The defined effects of this process by name, over all copies of this package (ESM beside CommonJS). */
const registry: Map<string, Registered> = ((globalThis as Record<symbol, unknown>)[
  Symbol.for("langgraph-checkpoint-turns.defined-effects")
] ??= new Map<string, Registered>()) as Map<string, Registered>;

const functionOrFalse = (value: unknown): boolean => value === false || isFunction(value);
const undoObject = () =>
  z.strictObject({
    run: functionSchema(),
    probe: functionSchema().optional(),
    idempotent: z.boolean().optional(),
    whenInDoubt: z.boolean().optional(),
  });
const schema = () =>
  z.strictObject({
    run: functionSchema("must be a function of the input"),
    probe: functionSchema().optional(),
    undo: z
      .custom(
        (value) => functionOrFalse(value) || undoObject().safeParse(value).success,
        "must be a function, false, or { run, probe, idempotent, whenInDoubt } with functions for run and probe",
      )
      .optional(),
    ...effectOptions().pick({ idempotent: true, onError: true, onInputChange: true }).shape,
  });
const callSchema = () => effectOptions().pick({ id: true, config: true });

/**
 * Defines an effect once: what it does, how to find out whether it happened, and how to undo it. The input, the result and the undo are typed
 * by `run`. Call the effect like a function within a node; the input is kept in the journal, so it must be data that the state could hold.
 *
 * Define effects at the top level of a module. A process that rewinds imports the module and finds the undo and the probe by `name`. A name
 * belongs to one place in the code. The same place may define it again (a hot reload, a function that makes effects), and so may a second
 * copy of the same source text (a module that is in two bundles): the newest definition counts.
 *
 * @param name stays the same for as long as threads with such effects are kept
 * @throws {TurnsError} INVALID_OPTION; EFFECT_DEFINED_TWICE for a name that other code has defined. A call throws what `effect()` throws
 */
export function defineEffect<Input = void, Result = unknown, InDoubt extends boolean = false>(
  name: string,
  definition: EffectDefinition<Input, Result, InDoubt>,
): DefinedEffect<Input, Result> {
  const made = madeEffect(name, definition);
  const known = { definition: definition as unknown as AnyDefinition, place: placeOfCaller(defineEffect) };
  const earlier = registry.get(name);
  if (earlier !== undefined && !isSame(earlier, known)) throw definedTwice(name, earlier, known);
  registry.set(name, known);
  return made;
}

/** A defined effect that nothing finds by its name. @throws {TurnsError} INVALID_OPTION */
export function madeEffect<Input, Result>(
  name: string,
  definition: EffectDefinition<Input, Result>,
): DefinedEffect<Input, Result> {
  if (!isId(name)) throw invalidName(name);
  const { onError, onInputChange, idempotent } = checkedOptions(schema, definition);
  // Called as methods: a definition may be an instance of a class.
  const call = async (input: Input, options?: object): Promise<Result> =>
    journaled<Result>(name, (key) => definition.run(input, { key }), {
      ...checkedOptions(callSchema, options ?? {}),
      ...{ onError, onInputChange, idempotent, input },
      undo: definition.undo === false ? false : name,
      probe: definition.probe && ((key) => definition.probe?.({ key, input })),
    });
  Object.defineProperties(call, {
    name: { value: name },
    effectName: { value: name, enumerable: true },
    [DEFINITION]: { value: definition },
  });
  return call as DefinedEffect<Input, Result>;
}

/** What the code of this process says about the effects of a name. */
export function definitionNamed(name: string): AnyDefinition | undefined {
  return registry.get(name)?.definition;
}

/** @returns undefined for a value that `defineEffect` didn't make */
export function definitionOf(value: unknown): AnyDefinition | undefined {
  return isFunction(value) ? ((value as Record<symbol, unknown>)[DEFINITION] as AnyDefinition | undefined) : undefined;
}

function isSame(left: Registered, right: Registered): boolean {
  if (left.place === right.place && left.place !== "") return true;
  return textOf(left.definition) === textOf(right.definition);
}

function textOf({ run, probe, undo }: AnyDefinition): string {
  const details = typeof undo === "object" ? [undo.run, undo.probe] : [undo];
  return [run, probe, ...details].map(String).join("\n");
}

/** File, line and column. What a hot reload adds to a module's URL is left out. */
function placeOfCaller(callee: (...args: never[]) => unknown): string {
  const holder: { stack?: unknown } = {};
  Error.captureStackTrace(holder, callee);
  const frames = typeof holder.stack === "string" ? holder.stack.split("\n") : [];
  const frame = frames.find((text) => /^\s*at /.test(text)) ?? "";
  return frame
    .replace(/^\s*at (?:.*? \()?/, "")
    .replace(/\)$/, "")
    .replace(/[?#][^:]*(?=:\d+:\d+$)/, "");
}

const invalidName = (found: unknown): TurnsError =>
  new TurnsError("INVALID_OPTION", {
    problem: `The name of an effect is ${describe(found)}. It must be ${ID_RULE}.`,
    remedy: 'Call defineEffect("name", { run: (input, { key }) => … }).',
  });

function definedTwice(name: string, earlier: Registered, later: Registered): TurnsError {
  const named = JSON.stringify(name);
  return new TurnsError("EFFECT_DEFINED_TWICE", {
    problem: `Effect ${named} is defined twice: at ${earlier.place || "an unknown place"} and at ${later.place || "an unknown place"}.`,
    remedy:
      "Rewinds find an effect's undo by its name, so a name belongs to one definition. Rename one of the two; the name must not be one that recorded effects have. " +
      "If a hot reload moved and changed the definition at once, restart the process.",
    data: { name, places: [earlier.place, later.place] },
  });
}
