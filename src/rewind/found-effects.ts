import { toPublicEffect } from "../effects/types";
import type { EffectRow } from "../store/effects";
import { inDoubtBehind, runningBehind, uncompensated, undoInDoubt } from "./failures";
import type { CompensationReport, EffectSummary, RewindEffects, UndoVerdict } from "./plan";
import type { KnownEffect, KnownEffects, KnownUndo } from "./undos";

/** An effect after a target, and what to do about it. */
export interface Found {
  row: EffectRow;
  /** Its undo, if that is known and should be called. */
  undo: KnownUndo | undefined;
  summary: EffectSummary;
  /** Why a probe couldn't settle the doubt. */
  cause: unknown;
}

const SKIPPED: readonly UndoVerdict[] = ["missing", "unregistered", "ambiguous"];
const REFUSING: readonly UndoVerdict[] = ["in-doubt", "undo-in-doubt", "running"];
/** They leave nothing behind that would need an undo. */
const IRRELEVANT: readonly UndoVerdict[] = ["failed", "inherited"];

/** Newest try first: a later effect may build on an earlier one, no matter where in the graph they are. */
export function lookedThrough(rows: readonly EffectRow[], causes: ReadonlyMap<string, unknown>, known: KnownEffects): Found[] {
  return rows.toSorted((left, right) => lastTry(right) - lastTry(left)).map((row) => found(row, known, causes.get(row.id)));
}

function lastTry({ seq, triedSeq = seq }: EffectRow): number {
  return triedSeq;
}

function found(row: EffectRow, known: KnownEffects, cause: unknown): Found {
  const { id, name, label, nodeName: node, taskId, status, undo } = toPublicEffect(row);
  const effect = typeof undo === "string" ? known(undo) : undefined;
  const verdict = verdictOf(row, status, effect);
  const summary = { id, name, label, nodeName: node, taskId, status, undo, verdict };
  return { row, undo: verdict === "undo" ? effect?.undo || undefined : undefined, summary, cause };
}

function verdictOf(row: EffectRow, status: EffectSummary["status"], effect: KnownEffect | undefined): UndoVerdict {
  const undo = effect?.undo || undefined;
  if (row.inherited) return "inherited";
  if (row.undoStatus === "done") return "done-already";
  if (status === "running") return "running";
  if (status === "failed" || status === "failed-for-good") return "failed";
  if (row.undo === "") return "none-needed";
  if (row.undo !== undefined && effect === undefined) return "unregistered";
  if (effect?.isAmbiguous === true) return "ambiguous";
  if (row.undoStatus === "begun" && undo?.probe === undefined && undo?.idempotent !== true) return "undo-in-doubt";
  if (effect?.undo === false) return "none-needed";
  if (undo === undefined) return "missing";
  return status === "in-doubt" && !undo.whenInDoubt ? "in-doubt" : "undo";
}

/** @throws {TurnsError} THREAD_RUNNING, EFFECT_IN_DOUBT, EFFECT_UNCOMPENSATED; then nothing has happened */
export function refuseGaps(threadId: string, effects: readonly Found[], allowUncompensated: boolean): void {
  // An effect in doubt isn't left as it is: nobody knows how it is.
  const first = (verdict: UndoVerdict, isInDoubt: (effect: Found) => boolean = () => false): Found | undefined =>
    effects.find(
      (effect) =>
        effect.summary.verdict === verdict ||
        (allowUncompensated && SKIPPED.includes(effect.summary.verdict) && isInDoubt(effect)),
    );
  const running = first("running");
  if (running !== undefined) throw runningBehind(running.row);
  const doubtful = first("undo-in-doubt", ({ row }) => row.undoStatus === "begun");
  if (doubtful !== undefined) throw undoInDoubt(doubtful.row);
  const unknown = first("in-doubt", ({ summary }) => summary.status === "in-doubt");
  if (unknown !== undefined) throw inDoubtBehind(unknown.row, unknown.cause);
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
