import {
  type AnyDefinition,
  type DefinedEffect,
  definitionNamed,
  definitionOf,
  isAmbiguous,
  transactionalOf,
  type UndoCall,
} from "../effects/define";
import { answerOf, type Found as Answer } from "../effects/options";
import { lookedUp, undoneIn } from "../effects/transactional";
import { toPublicEffect, tryOf } from "../effects/types";
import { describe, TurnsError } from "../errors";
import type { EffectRow } from "../store/effects";
import { inDoubtBehind, runningBehind, uncompensated, undoInDoubt } from "./failures";
import type { CompensationReport, EffectSummary, RewindEffects, UndoVerdict } from "./plan";

/**
 * Effects whose own undos and probes a rewind uses. All others are found by the names of the effects that this process has
 * defined.
 */
export type Undos = readonly DefinedEffect[];

/** An undo in one form. */
export interface KnownUndo {
  run: (call: UndoCall) => unknown;
  probe: ((call: UndoCall) => boolean | Promise<boolean>) | undefined;
  idempotent: boolean;
  whenInDoubt: boolean;
}

/** What this process knows about the effects with a name. */
export interface KnownEffect {
  /** `false`: there is nothing to undo. Undefined: the definition doesn't say. */
  undo: KnownUndo | false | undefined;
  /** Finds out whether one in doubt happened. `isFinal`: the answer stays true, even if a process is still running it. */
  find: ((effect: EffectRow, input: unknown, isFinal: boolean) => Promise<Answer>) | undefined;
  /** It was defined several times, and any of the undos and probes may be the wrong one. So the others are undefined. */
  isAmbiguous: boolean;
}

export type KnownEffects = (name: string) => KnownEffect | undefined;

/** @throws {TurnsError} INVALID_OPTION for a value that `defineEffect` didn't make, and for two with the same name */
export function checkedUndos(undos: Undos = []): KnownEffects {
  if (!Array.isArray(undos)) throw invalid('Option "undos"', describe(undos));
  const given = new Map<string, AnyDefinition>();
  for (const [index, effect] of (undos as Undos).entries()) {
    const definition = definitionOf(effect);
    if (definition === undefined) throw invalid(`Option "undos.${index}"`, describe(effect));
    const other = given.get(effect.effectName);
    if (other !== undefined && other !== definition) {
      throw invalid(`Option "undos.${index}"`, `another one named ${describe(effect.effectName)}`);
    }
    given.set(effect.effectName, definition);
  }
  return (name) => {
    const own = given.get(name);
    if (own === undefined && isAmbiguous(name)) return { undo: undefined, find: undefined, isAmbiguous: true };
    const definition = own ?? definitionNamed(name);
    return definition && { undo: inOneForm(definition), find: findBy(definition), isAmbiguous: false };
  };
}

function findBy(definition: AnyDefinition): KnownEffect["find"] {
  const tx = transactionalOf(definition)?.tx;
  if (tx !== undefined) return (row, _, isFinal) => lookedUp(tx, tryOf(row), isFinal);
  return definition.probe && (({ key }, input) => answerOf(definition.probe?.({ key, input })));
}

/** Its functions are called as methods: a definition and an undo may be instances of classes. */
function inOneForm(definition: AnyDefinition): KnownEffect["undo"] {
  const { undo } = definition;
  if (undo === undefined || undo === false) return undo;
  const transactional = transactionalOf(definition);
  if (transactional !== undefined && typeof transactional.undo === "function") {
    const { tx, undo: undoIn } = transactional;
    const run = (call: UndoCall) => undoneIn(tx, tryOf(call.effect), (db) => undoIn.call(definition, withDb(call, db)));
    // Called again, it finds its mark.
    return { run, probe: undefined, idempotent: true, whenInDoubt: false };
  }
  if (typeof undo === "function") {
    return { run: (call) => undo.call(definition, call), probe: undefined, idempotent: false, whenInDoubt: false };
  }
  const { probe, idempotent = false, whenInDoubt = false } = undo;
  return { run: (call) => undo.run(call), probe: probe && ((call) => probe.call(undo, call)), idempotent, whenInDoubt };
}

/** Copies no value: reading a result that isn't there throws. */
function withDb<Db>(call: UndoCall, db: Db): UndoCall & { db: Db } {
  return Object.defineProperties({ db }, Object.getOwnPropertyDescriptors(call)) as UndoCall & { db: Db };
}

const invalid = (what: string, found: string): TurnsError =>
  new TurnsError("INVALID_OPTION", {
    problem: `${what} is ${found}. It must be an array of effects that defineEffect made, each name once.`,
    remedy: "Pass the effects themselves, e.g. undos: [createIssue]. Leave the option out to have them found by their names.",
    data: { option: "undos" },
  });

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
