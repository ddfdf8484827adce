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
import { tryOf } from "../effects/types";
import { describe, TurnsError } from "../errors";
import type { EffectRow } from "../store/effects";

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
