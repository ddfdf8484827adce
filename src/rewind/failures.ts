import { nameOf } from "../effects/failures";
import { describe, type FramedDetails, TurnsError, type TurnsErrorCode } from "../errors";
import type { EffectRow } from "../store/effects";
import type { RewindRow } from "../store/store";
import type { EffectSummary } from "./plan";

/** How many effects a message names. */
const NAMED = 5;

const undoOf = (row: EffectRow): string => `the undo of ${nameOf(row)}`;
const resolve = (row: EffectRow, settlement: string): string => `saver.effects.resolve(${JSON.stringify(row.id)}, ${settlement})`;

function firstOf<T>(effects: readonly T[], inWords: (effect: T) => string): string {
  const named = effects.slice(0, NAMED).map(inWords).join(", ");
  return effects.length > NAMED ? `${named} and ${effects.length - NAMED} more` : named;
}

function dataOf(row: EffectRow): Record<string, unknown> {
  const { threadId, id: effectId, name, label, key, nodeName, undo } = row;
  return { threadId, effectId, name, label, key, nodeName, undo };
}

const failure = (code: TurnsErrorCode, row: EffectRow, what: string, details: FramedDetails): TurnsError =>
  new TurnsError(code, { what, data: dataOf(row), ...details });

export function uncompensated(threadId: string, gaps: readonly EffectSummary[]): TurnsError {
  const named = firstOf(gaps, ({ id, name, node, verdict }) => {
    const why = verdict === "missing" ? "has no undo" : "not defined in this process";
    return `${JSON.stringify(name)} in node ${JSON.stringify(node)} (${id}: ${why})`;
  });
  const unknown = gaps.find(({ verdict }) => verdict === "unregistered");
  const missing = gaps.some(({ verdict }) => verdict === "missing");
  const remedies = [
    ...(unknown === undefined
      ? []
      : [`Import the module that calls defineEffect(${JSON.stringify(unknown.undo)}, …) before you rewind.`]),
    ...(missing
      ? ["Give effects an undo, defineEffect(name, { run, undo }), or `undo: false` if there is nothing to undo."]
      : []),
    "Or undo by hand and pass allowUncompensated: true, or rewind less far. Nothing was undone or deleted.",
  ];
  return new TurnsError("EFFECT_UNCOMPENSATED", {
    problem: `The rewind of thread ${describe(threadId)} can't undo ${gaps.length === 1 ? "1 effect" : `${gaps.length} effects`}: ${named}.`,
    remedy: remedies.join(" "),
    data: { threadId, effects: gaps },
  });
}

/** @param cause why its probe could not settle it */
export const inDoubtBehind = (row: EffectRow, cause?: unknown): TurnsError =>
  failure("EFFECT_IN_DOUBT", row, nameOf(row), {
    expected: "an effect of which is known whether it happened, so that it can be undone",
    found: `one that was begun at ${row.startedAt} and never reported how it ended${cause === undefined ? "" : ", and whose probe failed"}`,
    cause,
    remedy: `Find out whether it happened (its key is ${row.key}) and settle it with ${resolve(row, '{ outcome: "done", result }')} or { outcome: "not-done" }; an undo with \`whenInDoubt: true\` is called for such effects too. Nothing more was undone, and nothing was deleted.`,
  });

/** @param cause why it could not be found out, if that was tried */
export const undoInDoubt = (row: EffectRow, cause?: unknown): TurnsError =>
  failure("EFFECT_IN_DOUBT", row, undoOf(row), {
    expected: "an undo of which is known whether it ran",
    found: cause === undefined ? "one that was begun and never reported how it ended" : "one whose probe failed",
    remedy: `It was not called again. Find out whether the effect is undone (its key is ${row.key}), settle it with ${resolve(row, '{ undo: "done" }')} or { undo: "not-done" }, and rewind again; an undo with \`probe\` or \`idempotent\` lets this go by itself. Nothing was deleted.`,
    cause,
  });

export const runningBehind = (row: EffectRow): TurnsError =>
  failure("THREAD_RUNNING", row, nameOf(row), {
    expected: "nothing that is still being done",
    found: `an effect that process ${row.process.split(" ", 2).join(" on ")} is doing just now`,
    remedy: "Wait for it to end, and try again. Nothing was undone or deleted.",
  });

export const undoFailed = (row: EffectRow, rewindId: string, cause: unknown): TurnsError =>
  failure("UNDO_FAILED", row, undoOf(row), {
    expected: "an undo that ends without an error",
    found: "one that threw; its error is the cause",
    remedy: `Nothing was deleted, and what had been undone before is on record. Repair it and call the same rewind again, which goes on here; or undo the effect by hand and call ${resolve(row, '{ undo: "done" }')} first; or give the rewind up with saver.abandonRewind(${JSON.stringify(rewindId)}).`,
    data: { ...dataOf(row), rewindId },
    cause,
  });

export const undoNotRecorded = (row: EffectRow, cause: unknown): TurnsError =>
  failure("EFFECT_NOT_RECORDED", row, undoOf(row), {
    expected: "to commit that it ran",
    found: "a failing save; the effect itself has been undone",
    remedy: `Call ${resolve(row, '{ undo: "done" }')} and the same rewind again. Nothing was deleted.`,
    cause,
  });

/** @param ran whether the undo had been called by then */
export const goneMeanwhile = (row: EffectRow, ran: boolean): TurnsError =>
  failure("THREAD_DELETED", row, `rewind of thread ${describe(row.threadId)}`, {
    expected: `${nameOf(row)} in the journal`,
    found: "none: the thread was deleted during the rewind",
    remedy: `${ran ? "This effect was undone, those before it were not." : "Neither this effect nor those before it were undone."} There is nothing left to rewind.`,
  });

export const takenOver = (row: EffectRow): TurnsError =>
  failure("STATE_INVARIANT_VIOLATED", row, undoOf(row), {
    expected: "an effect, and a rewind, that nobody else has to do with meanwhile",
    found: "a change: somebody else went on with this rewind, or gave it up, or settled the effect",
    remedy: "It was not called. Rewind again to go on from how things stand. Nothing was deleted by this call.",
  });

export const notUnfinished = (rewind: RewindRow): TurnsError =>
  new TurnsError("REWIND_CONFLICT", {
    what: `giving up rewind ${rewind.id}`,
    expected: "a rewind that was begun and not finished",
    found: rewind.status === "abandoned" ? "one that was given up before" : `one that was done at ${rewind.createdAt}`,
    remedy: "saver.unfinishedRewind(threadId) tells which is unfinished. Nothing was changed.",
    data: { rewindId: rewind.id, threadId: rewind.threadId },
  });

/** The deeds stay undone, whatever rows come back. */
export function undoneMeanwhile(rewind: RewindRow, undone: readonly { id: string; name: string; node: string }[]): TurnsError {
  const named = firstOf(undone, ({ id, name, node }) => `${JSON.stringify(name)} in node ${JSON.stringify(node)} (${id})`);
  return new TurnsError("REWIND_CONFLICT", {
    what: `taking back rewind ${rewind.id}`,
    expected: "a rewind that undid no effects",
    found: `${undone.length} that it undid, and that would stay undone: ${named}`,
    remedy: "Pass { despiteUndone: true } to bring the rows back with their marks. Nothing was changed.",
    data: { rewindId: rewind.id, threadId: rewind.threadId, effects: undone },
  });
}
