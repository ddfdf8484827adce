import { z } from "zod";
import type { Effect } from "../effects/types";
import { checkedOptions } from "../options";

/** What an undo gets to know of the effect it undoes. */
// eslint-disable-next-line @typescript-eslint/no-explicit-any -- what went into an effect and came of it is whatever its node passed
export interface UndoCall<Input = any, Result = any> {
  /** The effect's: what its function was called with. */
  key: string;
  input: Input;
  /** What the effect came to; undefined if that is not known, or could not be saved. */
  result: Result;
  /** Nobody knows whether the effect happened; only where the undo declares `whenInDoubt`. */
  inDoubt: boolean;
  effect: Effect;
}

type UndoFunction = (call: UndoCall) => unknown;

/** How effects that name it are undone. A throw says that they were not. */
export type Undo =
  | UndoFunction
  | {
      run: UndoFunction;
      /** Whether it has been undone already; asked before the undo is called again after a call that did not end well. It must be sure. */
      probe?: (call: UndoCall) => boolean | Promise<boolean>;
      /** May be called again with the same key when it is not known whether an earlier call did it. */
      idempotent?: boolean;
      /** May be called for an effect of which nobody knows whether it happened. */
      whenInDoubt?: boolean;
    };

/** By the name that effects give in their option `undo`. */
export type Undos = Readonly<Record<string, Undo>>;

/** An undo in one form. */
export interface KnownUndo {
  run: UndoFunction;
  probe: ((call: UndoCall) => boolean | Promise<boolean>) | undefined;
  idempotent: boolean;
  whenInDoubt: boolean;
}

const isFunction = (value: unknown): boolean => typeof value === "function";
const details = z.strictObject({
  run: z.custom(isFunction),
  probe: z.custom(isFunction).optional(),
  idempotent: z.boolean().optional(),
  whenInDoubt: z.boolean().optional(),
});
const EXPECTED = "must be a function, or { run, probe, idempotent, whenInDoubt } of which only run, a function, has to be there";

/** Handed on as it is: its functions may lean on what else it has. */
const isUndo = (value: unknown): boolean => isFunction(value) || details.safeParse(value).success;

/** No record of zod's, which takes an object with an undo named `constructor` for an instance of it, and leaves `__proto__` out. */
export const undosSchema: z.ZodType<Undos> = z
  .custom<Undos>(
    (value) => typeof value === "object" && value !== null && !Array.isArray(value),
    "must be an object of undos by name",
  )
  .superRefine((undos, context) => {
    for (const [name, given] of Object.entries(Object(undos) as Undos)) {
      if (!isUndo(given)) context.addIssue({ code: "custom", path: [name], message: EXPECTED });
    }
  });
const argument = z.strictObject({ undos: undosSchema.optional() });

/** @throws {TurnsError} INVALID_OPTION naming what is wrong */
export function checkedUndos(undos: Undos | undefined): ReadonlyMap<string, KnownUndo> {
  return new Map(
    Object.entries(checkedOptions(argument, { undos }).undos ?? {}).map(([name, given]) => [name, inOneForm(given)]),
  );
}

function inOneForm(given: Undo): KnownUndo {
  if (typeof given === "function") return { run: given, probe: undefined, idempotent: false, whenInDoubt: false };
  const { probe, idempotent = false, whenInDoubt = false } = given;
  // Called as methods: an undo may be an instance of a class.
  return {
    run: (call) => given.run(call),
    probe: probe && ((call) => probe.call(given, call)),
    idempotent,
    whenInDoubt,
  };
}
