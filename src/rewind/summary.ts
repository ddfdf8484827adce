/**
 * What a rewind makes of an effect behind its target.
 *
 * - `undo`: its undo is called
 * - `done-already`: it has been undone before
 * - `none-needed`: it says that it needs no undo
 * - `failed`: it did not happen
 * - `inherited`: its thread is a copy, and the deed is the source's
 * - `missing`: it names no undo; `unregistered`: the undo it names is not known here
 * - `in-doubt`: nobody knows whether it happened, and its undo is not for such effects
 * - `undo-in-doubt`: its undo was called, nobody knows how that ended, and it can neither be asked nor called again
 * - `running`: somebody is doing it just now
 */
export type UndoVerdict =
  | "undo"
  | "done-already"
  | "none-needed"
  | "failed"
  | "inherited"
  | "missing"
  | "unregistered"
  | "in-doubt"
  | "undo-in-doubt"
  | "running";

/** An effect behind the target of a rewind. */
export interface EffectSummary {
  id: string;
  name: string;
  /** Which of the effects of this name in its node task. */
  label: string;
  node: string;
  taskId: string;
  status: "done" | "failed" | "failed-for-good" | "running" | "in-doubt";
  /** The name of its undo, `false` if it needs none, undefined if nothing was said. */
  undo: string | false | undefined;
  verdict: UndoVerdict;
}

/** What would become of the effects behind a task if the thread were rewound to it. */
export interface CompensationReport {
  threadId: string;
  toTask: string;
  /** Whether a rewind would leave nothing behind that it cannot undo. */
  covered: boolean;
  /** The part of the effects that happened (or may have) that is taken care of; 1 if there are none. */
  coverage: number;
  /** In the order in which they are undone: newest first. */
  effects: readonly EffectSummary[];
}

/** What a rewind did to the effects behind its target (a dry run: would do), newest first. */
export interface RewindEffects {
  undone: readonly EffectSummary[];
  /** Undone before: by an earlier call of this rewind, or by one that was given up or taken back. */
  undoneBefore: readonly EffectSummary[];
  /** Left as they are, because `allowUncompensated` said so. */
  withoutUndo: readonly EffectSummary[];
  /** They need no undo, or did not happen. */
  needNone: readonly EffectSummary[];
  /** Done for the thread that this one is a copy of. */
  inherited: readonly EffectSummary[];
}

export const NO_EFFECTS: RewindEffects = {
  undone: [],
  undoneBefore: [],
  withoutUndo: [],
  needNone: [],
  inherited: [],
};
