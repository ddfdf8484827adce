import { isRunning } from "../effects/effects";
import { toPublicEffect } from "../effects/types";
import type { EffectRow } from "../store/effects";
import { inDoubtBehind, runningBehind, uncompensated, undoInDoubt } from "./failures";
import type { CompensationReport, EffectSummary, RewindEffects, UndoVerdict } from "./summary";
import type { KnownUndo } from "./undos";

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
  const { id, name, label, nodeName: node, taskId, status, undo } = toPublicEffect(row, isRunning);
  const registered = typeof undo === "string" ? undos.get(undo) : undefined;
  const verdict = verdictOf(row, status, registered);
  return {
    row,
    undo: verdict === "undo" ? registered : undefined,
    summary: { id, name, label, node, taskId, status, undo, verdict },
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

/**
 * @throws {TurnsError} THREAD_RUNNING, EFFECT_IN_DOUBT, EFFECT_UNCOMPENSATED; nothing has happened then
 */
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
