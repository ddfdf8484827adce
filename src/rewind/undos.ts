import { z } from "zod";
import { type Effect, toPublicEffect } from "../effects/types";
import { checkedOptions, isFunction } from "../options";
import type { EffectRow } from "../store/effects";
import { inDoubtBehind, runningBehind, uncompensated, undoInDoubt } from "./failures";
import type { CompensationReport, EffectSummary, RewindEffects, UndoVerdict } from "./plan";

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

const details = () =>
  z.strictObject({
    run: z.custom(isFunction),
    probe: z.custom(isFunction).optional(),
    idempotent: z.boolean().optional(),
    whenInDoubt: z.boolean().optional(),
  });
const EXPECTED = "must be a function, or { run, probe, idempotent, whenInDoubt } of which only run, a function, has to be there";

/** Handed on as it is: its functions may lean on what else it has. */
const isUndo = (value: unknown): boolean => isFunction(value) || details().safeParse(value).success;

/** No record of zod's, which takes an object with an undo named `constructor` for an instance of it, and leaves `__proto__` out. */
export const undosSchema = (): z.ZodType<Undos> =>
  z
    .custom<Undos>(
      (value) => typeof value === "object" && value !== null && !Array.isArray(value),
      "must be an object of undos by name",
    )
    .superRefine((undos, context) => {
      for (const [name, given] of Object.entries(Object(undos) as Undos)) {
        if (!isUndo(given)) context.addIssue({ code: "custom", path: [name], message: EXPECTED });
      }
    });
const argument = () => z.strictObject({ undos: undosSchema().optional() });

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
  return { run: (call) => given.run(call), probe: probe && ((call) => probe.call(given, call)), idempotent, whenInDoubt };
}

/** An effect behind a target, and what is to be done about it. */
export interface Found {
  row: EffectRow;
  /** What undoes it, if that is known and it is to be called. */
  undo: KnownUndo | undefined;
  summary: EffectSummary;
}

const SKIPPED: readonly UndoVerdict[] = ["missing", "unregistered"];
const REFUSING: readonly UndoVerdict[] = ["in-doubt", "undo-in-doubt", "running"];
/** Nothing of theirs can be left behind. */
const IRRELEVANT: readonly UndoVerdict[] = ["failed", "inherited"];

/** Newest try first: what came later may build on what came before, wherever in the graph either was. */
export function lookedThrough(rows: readonly EffectRow[], undos: ReadonlyMap<string, KnownUndo>): Found[] {
  return rows.toSorted((left, right) => lastTry(right) - lastTry(left)).map((row) => found(row, undos));
}

function lastTry({ seq, triedSeq = seq }: EffectRow): number {
  return triedSeq;
}

function found(row: EffectRow, undos: ReadonlyMap<string, KnownUndo>): Found {
  const { id, name, label, nodeName: node, taskId, status, undo } = toPublicEffect(row);
  const registered = typeof undo === "string" ? undos.get(undo) : undefined;
  const verdict = verdictOf(row, status, registered);
  return {
    row,
    undo: verdict === "undo" ? registered : undefined,
    summary: { id, name, label, nodeName: node, taskId, status, undo, verdict },
  };
}

function verdictOf(row: EffectRow, status: EffectSummary["status"], undo: KnownUndo | undefined): UndoVerdict {
  if (row.inherited) return "inherited";
  if (row.undoStatus === "done") return "done-already";
  if (status === "running") return "running";
  if (status === "failed" || status === "failed-for-good") return "failed";
  if (row.undoStatus === "begun" && undo?.probe === undefined && undo?.idempotent !== true) return "undo-in-doubt";
  if (row.undo === "") return "none-needed";
  if (row.undo === undefined) return "missing";
  if (undo === undefined) return "unregistered";
  return status === "in-doubt" && !undo.whenInDoubt ? "in-doubt" : "undo";
}

/** @throws {TurnsError} THREAD_RUNNING, EFFECT_IN_DOUBT, EFFECT_UNCOMPENSATED; nothing has happened then */
export function refuseGaps(threadId: string, effects: readonly Found[], allowUncompensated: boolean): void {
  const first = (verdict: UndoVerdict): EffectRow | undefined => effects.find(({ summary }) => summary.verdict === verdict)?.row;
  const running = first("running");
  if (running !== undefined) throw runningBehind(running);
  const doubtful = first("undo-in-doubt");
  if (doubtful !== undefined) throw undoInDoubt(doubtful);
  const unknown = first("in-doubt");
  if (unknown !== undefined) throw inDoubtBehind(unknown);
  const gaps = summaries(effects, SKIPPED);
  if (gaps.length > 0 && !allowUncompensated) throw uncompensated(threadId, gaps);
}

export function effectsReport(effects: readonly Found[]): RewindEffects {
  return {
    undone: summaries(effects, ["undo"]),
    undoneBefore: summaries(effects, ["done-already"]),
    withoutUndo: summaries(effects, SKIPPED),
    needNone: summaries(effects, ["none-needed", "failed"]),
    inherited: summaries(effects, ["inherited"]),
  };
}

export function coverageOf(effects: readonly Found[]): Pick<CompensationReport, "covered" | "coverage" | "effects"> {
  const all = effects.map(({ summary }) => summary);
  const relevant = all.filter(({ verdict }) => !IRRELEVANT.includes(verdict));
  const gaps = relevant.filter(({ verdict }) => SKIPPED.includes(verdict) || REFUSING.includes(verdict));
  const coverage = relevant.length === 0 ? 1 : (relevant.length - gaps.length) / relevant.length;
  return { covered: gaps.length === 0, coverage, effects: all };
}

function summaries(effects: readonly Found[], verdicts: readonly UndoVerdict[]): EffectSummary[] {
  return effects.map(({ summary }) => summary).filter(({ verdict }) => verdicts.includes(verdict));
}
