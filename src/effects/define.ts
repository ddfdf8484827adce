import { z } from "zod";
import { describe, TurnsError } from "../errors";
import { checkedOptions, functionSchema, isFunction } from "../options";
import { isId, ID_RULE } from "../system";
import { journaled } from "./effect";
import type { Doing } from "./journal";
import { type CheckedEffect, type EffectOptions, effectOptions, type ErrorOutcome } from "./options";
import { type AnyTransactions, isAsyncFunction, isTransactions, lookedUp, performed, type Transactions } from "./transactional";
import type { Effect, EffectTry } from "./types";
import { atEndOfMacrotask } from "../timers";

/** What an undo is told about the effect it undoes. */
export interface UndoCall<Input = unknown, Result = unknown> {
  /** The key that the effect's `run` was called with. */
  key: string;
  input: Input;
  /**
   * What `run` returned. If it couldn't be saved, reading it throws UNSERIALIZABLE_VALUE. For undos with `whenInDoubt` it is
   * undefined then, and for an effect in doubt.
   */
  readonly result: Result;
  /** Nobody knows whether the effect happened. Only undos that declare `whenInDoubt` are called for such effects. */
  inDoubt: boolean;
  effect: Effect;
}

/** How to undo an effect, if a function alone doesn't say enough. */
export interface Undo<Input, Result, InDoubt extends boolean> {
  run: (call: UndoCall<Input, InDoubt extends true ? Result | undefined : Result>) => unknown;
  /**
   * Says whether the effect has been undone already. It is asked before the undo is called again after a crash or an error. It
   * must be sure.
   */
  probe?: (call: UndoCall<Input, InDoubt extends true ? Result | undefined : Result>) => boolean | Promise<boolean>;
  /** The undo may be called again with the same key when nobody knows whether an earlier call succeeded. */
  idempotent?: boolean;
  /** Call the undo for effects in doubt too. `result` is undefined then, and if it couldn't be saved. */
  whenInDoubt?: InDoubt;
}

/** The argument of {@link defineEffect}. Write `run` first: TypeScript infers the types of the other functions from it. */
export interface EffectDefinition<Input, Result, InDoubt extends boolean = boolean> extends Pick<
  EffectOptions<Result>,
  "idempotent" | "onError" | "onInputChange"
> {
  /** Performs the effect. The key stays the same for all tries of one effect, and is never used for another one. */
  run: (input: Input, call: { key: string }) => Result | Promise<Result>;
  /**
   * Finds out whether an effect in doubt happened. A resume and a rewind call it. Return the effect's result if it happened, or
   * undefined if it didn't. `null` is no answer and leaves the effect in doubt. If `run` returns nothing, return anything else,
   * e.g. `true`, to say that it happened.
   *
   * The probe must be sure: if it returns undefined while the call is still on its way, the effect happens twice.
   */
  probe?: (call: {
    key: string;
    input: NoInfer<Input>;
  }) => void extends Result ? unknown : NoInfer<Result> | undefined | Promise<NoInfer<Result> | undefined>;
  /**
   * Undoes the effect; called by a rewind. `false`: there's nothing to undo, e.g. because it only reads. Without an undo, a
   * rewind refuses to pass the effect.
   */
  undo?: ((call: UndoCall<NoInfer<Input>, NoInfer<Result>>) => unknown) | Undo<NoInfer<Input>, NoInfer<Result>, InDoubt> | false;
}

/** What a transactional undo is told: the open transaction too. */
interface TransactionalUndoCall<Db, Input = unknown, Result = unknown> extends UndoCall<Input, Result> {
  db: Db;
}

/**
 * The argument of {@link defineEffect} for an effect that happens in a transaction of your database, exactly once. See
 * docs/exactly-once.md.
 */
interface TransactionalDefinition<Db, Input, Result, Sync extends boolean = false> extends Pick<
  EffectOptions<Result>,
  "onInputChange"
> {
  /** Your database: made by a function of `langgraph-checkpoint-turns/transactions`. */
  tx: Transactions<Db, Sync>;
  /**
   * Performs the effect through `db`, the open transaction. It may be called again after a rollback, and must not touch anything
   * else. With a synchronous driver it must not be `async`.
   */
  run: (input: Input, call: { db: Db; key: string }) => Sync extends true ? Result : Result | Promise<Result>;
  /**
   * Undoes the effect; called by a rewind. A function runs in a transaction too, exactly once. An object is an undo outside of
   * transactions, as other effects have it. `false`: there's nothing to undo.
   */
  undo?:
    | ((call: TransactionalUndoCall<Db, NoInfer<Input>, NoInfer<Result>>) => unknown)
    | Omit<Undo<NoInfer<Input>, NoInfer<Result>, false>, "whenInDoubt">
    | false;
  /**
   * What it means if `run` throws; its transaction is rolled back. `"retryable"` (default): it may be tried again. `"final"`: the
   * same error is thrown again. If the database fails outside of `run` (a pool that is used up, a COMMIT that fails), the effect
   * may always be tried again.
   */
  onError?: "retryable" | "final" | ((error: unknown) => "retryable" | "final");
}

/** An effect made by {@link defineEffect}. Call it within a node, a tool or a functional task. */
export interface DefinedEffect<Input = never, Result = unknown> {
  (input: Input, options?: Pick<EffectOptions<Result>, "id" | "config">): Promise<Result>;
  /** Its name in the journal. A rewind in any process finds its undo and its probe by this name. */
  readonly effectName: string;
}

/** A definition whose types aren't known here. */
export type AnyDefinition = EffectDefinition<unknown, unknown>;

type AnyTransactional = TransactionalDefinition<unknown, unknown, unknown, boolean>;

/** @returns undefined for an effect that isn't transactional */
export function transactionalOf(definition: AnyDefinition): AnyTransactional | undefined {
  const given = definition as unknown as AnyTransactional | undefined;
  return given?.tx === undefined ? undefined : given;
}

/** The property under which a defined effect carries its definition. The ESM and the CommonJS build share the symbol. */
const DEFINITION = Symbol.for("langgraph-checkpoint-turns.effect-definition");

interface Registered {
  definition: AnyDefinition;
  /** The line of code that defined it. */
  place: string;
  /** When it was defined: the same object for all definitions of one turn of the event loop. */
  turn: object;
  /** The last definition by each file that defined the name. A file that is loaded again under another URL is another file. */
  byFile: Map<string, AnyDefinition>;
  /** One file defined the name twice, with different undos or probes. So a rewind can't know which ones an effect belongs to. */
  isAmbiguous: boolean;
}

/** The defined effects of this process by name, for all copies of this package (ESM beside CommonJS). */
const registry: Map<string, Registered> = ((globalThis as Record<symbol, unknown>)[
  Symbol.for("langgraph-checkpoint-turns.defined-effects")
] ??= new Map<string, Registered>()) as Map<string, Registered>;

const isUndo = (value: unknown): boolean =>
  value === false || isFunction(value) || (typeof value === "object" && value !== null && !Array.isArray(value));
/** Checked on its own, so that an error names the field. */
const undoObject = () =>
  z.strictObject({
    run: functionSchema(),
    probe: functionSchema().optional(),
    idempotent: z.boolean().optional(),
    whenInDoubt: z.boolean().optional(),
  });
const undoSchema = () => z.strictObject({ undo: undoObject() });
const transactionalUndoSchema = () => z.strictObject({ undo: undoObject().omit({ whenInDoubt: true }) });
const schema = () =>
  z.strictObject({
    run: functionSchema("must be a function of the input"),
    probe: functionSchema().optional(),
    undo: z
      .custom(isUndo, "must be a function, false, or { run, probe, idempotent, whenInDoubt } with functions for run and probe")
      .optional(),
    ...effectOptions().pick({ idempotent: true, onError: true, onInputChange: true }).shape,
  });
const transactionalSchema = () =>
  z.strictObject({
    tx: z.custom<AnyTransactions>(isTransactions, "must be what pgTransactions(pool) or its siblings in /transactions return"),
    run: functionSchema("must be a function of the input"),
    undo: z
      .custom(isUndo, "must be a function, false, or { run, probe, idempotent } with functions for run and probe")
      .optional(),
    onError: z
      .custom<ErrorOutcome | ((error: unknown) => ErrorOutcome)>(
        (value) => isFunction(value) || value === "retryable" || value === "final",
        'must be "retryable", "final", or a function that gives one of them',
      )
      .default("retryable"),
    ...effectOptions().pick({ onInputChange: true }).shape,
  });
const callSchema = () => effectOptions().pick({ id: true, config: true });

/**
 * Defines an effect once: what it does, how to find out whether it happened, and how to undo it.
 *
 * You call the effect like a function inside a node. The types of the input, the result and the undo follow from `run`. The input
 * is kept in the journal, so it must be data that the state could hold.
 *
 * Define effects at the top level of a module. A process that rewinds imports the module and finds the undo and the probe by
 * `name`. A name belongs to one place in the code. If a function of yours makes effects, pass them to the runner as `undos`: once it
 * has made two of one name, rewinds no longer find their undos by the name.
 *
 * With `tx`, the effect and a row that says so commit in one transaction of your database. Then nobody has to find out whether it
 * happened, and it needs no probe.
 *
 * @param name must stay the same for as long as you keep threads with such effects
 * @throws {TurnsError} INVALID_OPTION; EFFECT_DEFINED_TWICE for a name that other code has defined. A call throws what `effect()`
 *   throws
 */
export function defineEffect<Db, Input = void, Result = unknown>(
  name: string,
  definition: TransactionalDefinition<Db, Input, Result, true> &
    (Result extends PromiseLike<unknown> ? { run: "must not return a promise" } : unknown),
): DefinedEffect<Input, Result>;
export function defineEffect<Db, Input = void, Result = unknown>(
  name: string,
  definition: TransactionalDefinition<Db, Input, Result>,
): DefinedEffect<Input, Result>;
export function defineEffect<Input = void, Result = unknown, InDoubt extends boolean = false>(
  name: string,
  definition: EffectDefinition<Input, Result, InDoubt>,
): DefinedEffect<Input, Result>;
export function defineEffect<Input, Result>(name: string, definition: object): DefinedEffect<Input, Result> {
  const made = madeEffect(name, definition as EffectDefinition<Input, Result>);
  register(name, definition as AnyDefinition, placeOfCaller(defineEffect));
  return made;
}

/** @throws {TurnsError} EFFECT_DEFINED_TWICE */
function register(name: string, definition: AnyDefinition, loadedPlace: string): void {
  const earlier = registry.get(name);
  const file = fileOf(loadedPlace);
  const byFile = new Map(earlier?.byFile);
  const previous = byFile.get(file);
  const isAmbiguous = earlier?.isAmbiguous === true || (previous !== undefined && !undoAlike(previous, definition));
  // A hot reload of an ES module changes the query of its URL.
  const place = loadedPlace.replace(/[?#][^:]*(?=:\d+:\d+$)/, "");
  const known = { definition, place, turn: turnNow(), byFile: byFile.set(file, definition), isAmbiguous };
  if (earlier !== undefined && !isSame(earlier, known)) throw definedTwice(name, earlier, known);
  registry.set(name, known);
}

/** A defined effect that isn't registered under its name. @throws {TurnsError} INVALID_OPTION */
export function madeEffect<Input, Result>(
  name: string,
  definition: EffectDefinition<Input, Result>,
): DefinedEffect<Input, Result> {
  if (!isId(name)) throw invalidName(name);
  const called = calledBy(name, definition as AnyDefinition);
  const call = async (input: Input, options?: object): Promise<Result> => {
    const { fn, settings } = called(input);
    return journaled<Result>(name, fn, {
      ...checkedOptions(callSchema, options ?? {}),
      ...settings,
      input,
      undo: definition.undo === false ? false : name,
    });
  };
  Object.defineProperties(call, {
    name: { value: name },
    effectName: { value: name, enumerable: true },
    [DEFINITION]: { value: definition },
  });
  return call as DefinedEffect<Input, Result>;
}

/** How one call of an effect is performed, and what its definition says about all of them. */
interface Called {
  fn: Doing;
  settings: Pick<CheckedEffect, "onError" | "onInputChange" | "idempotent" | "probe" | "find">;
}

/** The definition's functions are called as methods: it may be an instance of a class. @throws {TurnsError} INVALID_OPTION */
function calledBy(name: string, definition: AnyDefinition): (input: unknown) => Called {
  const transactional = transactionalOf(definition);
  if (transactional !== undefined) return calledInTransaction(name, transactional);
  const { onError, onInputChange, idempotent } = checkedOptions(schema, definition);
  if (typeof definition.undo === "object") checkedOptions(undoSchema, { undo: definition.undo });
  return (input) => ({
    fn: (key) => definition.run(input, { key }),
    settings: {
      ...{ onError, onInputChange, idempotent },
      probe: definition.probe && ((key) => definition.probe?.({ key, input })),
    },
  });
}

function calledInTransaction(name: string, definition: AnyTransactional): (input: unknown) => Called {
  const { onError, onInputChange, tx } = checkedOptions(transactionalSchema, definition);
  if (typeof definition.undo === "object") checkedOptions(transactionalUndoSchema, { undo: definition.undo });
  const isAsync = [definition.run, definition.undo].some(isAsyncFunction);
  if (tx.isSync && isAsync) throw asyncOnSync(name);
  const settings = {
    onInputChange,
    idempotent: false,
    find: (effect: EffectTry) => lookedUp(tx, effect, false),
    onError: (error: unknown): ErrorOutcome => {
      // What this package throws isn't the outcome of the user's function.
      if (TurnsError.is(error)) return DOUBTFUL.some((code) => code === error.code) ? "unknown" : "retryable";
      return typeof onError === "function" ? onError(error) : onError;
    },
  };
  return (input) => ({
    fn: (key, effect) => performed(tx, effect, (db) => definition.run(input, { db, key })),
    settings,
  });
}

/** Errors of a transactional effect after which nobody knows whether it was committed. */
const DOUBTFUL = ["COMMIT_IN_DOUBT", "STATE_INVARIANT_VIOLATED"] as const;

/** This process's newest definition of the effects with this name. */
export function definitionNamed(name: string): AnyDefinition | undefined {
  return registry.get(name)?.definition;
}

/** Whether this process has several definitions of the name, and can't know which of them an effect belongs to. */
export function isAmbiguous(name: string): boolean {
  return registry.get(name)?.isAmbiguous === true;
}

/** @returns undefined for a value that `defineEffect` didn't make */
export function definitionOf(value: unknown): AnyDefinition | undefined {
  return isFunction(value) ? ((value as Record<symbol, unknown>)[DEFINITION] as AnyDefinition | undefined) : undefined;
}

let turn: object | undefined;

/** The same object for everything in one turn of the event loop: what the modules of one import define. */
function turnNow(): object {
  if (turn === undefined) {
    turn = {};
    atEndOfMacrotask(() => (turn = undefined)).unref();
  }
  return turn;
}

function isSame(left: Registered, right: Registered): boolean {
  if (left.place === right.place && left.place !== "") return true;
  // Two places of one file, evaluated together, are different code, even if a helper wrapped their functions into equal texts. A hot
  // reload that moved the lines comes later.
  if (fileOf(left.place) === fileOf(right.place) && left.turn === right.turn) return false;
  const text = textOf(left.definition);
  return text !== undefined && text === textOf(right.definition);
}

/**
 * Whether a rewind does the same with both definitions. Equal source text doesn't say so: each call of a function that makes effects
 * can give its undo another client.
 */
function undoAlike(left: AnyDefinition, right: AnyDefinition): boolean {
  if (left === right) return true;
  // The definition is `this` of its undo. One that is an instance of a class may have a client of its own.
  if (![left, right].every((one) => Object.getPrototypeOf(one) === Object.prototype)) return false;
  return left.undo === right.undo && left.probe === right.probe && transactionalOf(left)?.tx === transactionalOf(right)?.tx;
}

/** @returns undefined if a function doesn't show its source, as bound ones don't */
function textOf({ run, probe, undo, idempotent, onInputChange }: AnyDefinition): string | undefined {
  const details = typeof undo === "object" ? [undo.run, undo.probe, undo.idempotent, undo.whenInDoubt] : [undo];
  const text = [run, probe, idempotent, onInputChange, ...details].map(String).join("\n");
  return text.includes("[native code]") ? undefined : text;
}

/** A place without its line and column. */
function fileOf(place: string): string {
  return place.replace(/:\d+:\d+\)?$/, "");
}

/** The caller's file, line and column; empty if there is no stack. */
function placeOfCaller(callee: (...args: never[]) => unknown): string {
  const holder: { stack?: unknown } = {};
  Error.captureStackTrace(holder, callee);
  const frames = typeof holder.stack === "string" ? holder.stack.split("\n") : [];
  const frame = frames.find((text) => /^\s*at /.test(text)) ?? "";
  return frame.replace(/^\s*at (?:.*? \()?/, "").replace(/\)$/, "");
}

const invalidName = (found: unknown): TurnsError =>
  new TurnsError("INVALID_OPTION", {
    problem: `The name of an effect is ${describe(found)}. It must be ${ID_RULE}.`,
    remedy: 'Call defineEffect("name", { run: (input, { key }) => … }).',
  });

const asyncOnSync = (name: string): TurnsError =>
  new TurnsError("INVALID_OPTION", {
    problem: `Effect ${JSON.stringify(name)} has an async function, and its database is synchronous.`,
    remedy:
      "Write run and undo without async and await: between two statements of the transaction nobody else may use the database handle.",
    data: { name },
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
