import { nameOf } from "../effects/failures";
import { describe, TurnsError, type TurnsErrorDetails, type TurnsErrorCode } from "../errors";
import type { EffectRow } from "../store/effects";
import type { RewindRow } from "../store/store";
import type { EffectSummary, UndoVerdict } from "./plan";

/** How many effects a message names. */
const NAMED = 5;

const undoOf = (row: EffectRow): string => `The undo of ${nameOf(row)}`;
const resolve = (row: EffectRow, settlement: string): string => `saver.effects.resolve(${JSON.stringify(row.id)}, ${settlement})`;

function firstOf<T>(effects: readonly T[], inWords: (effect: T) => string): string {
  const named = effects.slice(0, NAMED).map(inWords).join(", ");
  return effects.length > NAMED ? `${named} and ${effects.length - NAMED} more` : named;
}

function dataOf(row: EffectRow): Record<string, unknown> {
  const { threadId, id: effectId, name, label, key, nodeName, undo } = row;
  return { threadId, effectId, name, label, key, nodeName, undo };
}

const failure = (code: TurnsErrorCode, row: EffectRow, details: TurnsErrorDetails): TurnsError =>
  new TurnsError(code, { data: dataOf(row), ...details });

const WHY: Partial<Record<UndoVerdict, string>> = {
  missing: "has no undo",
  unregistered: "not defined in this process",
  ambiguous: "defined more than once",
};

export function uncompensated(threadId: string, gaps: readonly EffectSummary[]): TurnsError {
  const named = firstOf(gaps, ({ id, name, nodeName: node, verdict }) => {
    return `${JSON.stringify(name)} in node ${JSON.stringify(node)} (${id}: ${WHY[verdict] ?? verdict})`;
  });
  const ambiguous = gaps.find(({ verdict }) => verdict === "ambiguous");
  const unknown = gaps.find(({ verdict }) => verdict === "unregistered");
  const missing = gaps.some(({ verdict }) => verdict === "missing");
  const remedies = [
    ...(unknown === undefined
      ? []
      : [`Import the module that calls defineEffect(${JSON.stringify(unknown.undo)}, …) before you rewind.`]),
    ...(ambiguous === undefined
      ? []
      : [
          `Several definitions are named ${JSON.stringify(ambiguous.undo)}, made by one file, and their undos may differ. ` +
            "Pass the one to use, saver.rewind(request, [effect]) or new GraphRunner(graph, { undos: [effect] }). " +
            "If a function makes one for each tenant, put the tenant into the name; if a hot reload did, restart the process.",
        ]),
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

/** @param cause why its probe couldn't settle it */
export const inDoubtBehind = (row: EffectRow, cause?: unknown): TurnsError =>
  failure("EFFECT_IN_DOUBT", row, {
    problem: `It isn't known whether ${nameOf(row)} happened, so it can't be undone: it began at ${row.startedAt} and never reported its outcome${cause === undefined ? "" : ", and its probe failed"}.`,
    cause,
    remedy: `Find out whether it happened (its key is ${row.key}) and settle it with ${resolve(row, '{ outcome: "done", result }')} or { outcome: "not-done" }; an undo with \`whenInDoubt: true\` is called for such effects too. Nothing more was undone, and nothing was deleted.`,
  });

/** @param cause why it couldn't be found out, if that was tried */
export const undoInDoubt = (row: EffectRow, cause?: unknown): TurnsError =>
  failure("EFFECT_IN_DOUBT", row, {
    problem: `${undoOf(row)} may have run: ${cause === undefined ? "it began and never reported its outcome" : "its probe failed"}.`,
    remedy: `It was not called again. Find out whether the effect is undone (its key is ${row.key}), settle it with ${resolve(row, '{ undo: "done" }')} or { undo: "not-done" }, and rewind again; an undo with \`probe\` or \`idempotent\` lets this go by itself. Nothing was deleted.`,
    cause,
  });

export const runningBehind = (row: EffectRow): TurnsError =>
  failure("THREAD_RUNNING", row, {
    problem: `Process ${row.process.split(" ", 2).join(" on ")} is still running ${nameOf(row)}.`,
    remedy: "Wait for it to end, and try again. Nothing was undone or deleted.",
  });

export const undoFailed = (row: EffectRow, rewindId: string, cause: unknown): TurnsError =>
  failure("UNDO_FAILED", row, {
    problem: `${undoOf(row)} threw; its error is the cause.`,
    remedy: `Nothing was deleted, and what had been undone before is on record. Repair it and call the same rewind again, which continues here; or undo the effect by hand and call ${resolve(row, '{ undo: "done" }')} first; or give the rewind up with saver.rewinds.abandon(${JSON.stringify(rewindId)}).`,
    data: { ...dataOf(row), rewindId },
    cause,
  });

export const noResult = (row: EffectRow): TurnsError =>
  failure("UNSERIALIZABLE_VALUE", row, {
    problem: `The result of ${nameOf(row)} isn't on record, because it couldn't be saved.`,
    remedy: `Let the undo work without \`result\`, or settle the effect: ${resolve(row, '{ outcome: "done", result }')}.`,
  });

export const undoNotRecorded = (row: EffectRow, cause: unknown): TurnsError =>
  failure("EFFECT_NOT_RECORDED", row, {
    problem: `${undoOf(row)} ran, but that couldn't be saved.`,
    remedy: `Call ${resolve(row, '{ undo: "done" }')} and the same rewind again. Nothing was deleted.`,
    cause,
  });

/** @param ran whether the undo had been called by then */
export const goneMeanwhile = (row: EffectRow, ran: boolean): TurnsError =>
  failure("THREAD_DELETED", row, {
    problem: `Thread ${describe(row.threadId)} was deleted during its rewind, and ${nameOf(row)} with it.`,
    remedy: `${ran ? "This effect was undone, those before it were not." : "Neither this effect nor those before it were undone."} There is nothing left to rewind.`,
  });

export const takenOver = (row: EffectRow): TurnsError =>
  failure("STATE_INVARIANT_VIOLATED", row, {
    problem: `${undoOf(row)} is somebody else's by now: they continued this rewind, gave it up, or settled the effect.`,
    remedy: "It was not called. Rewind again to continue from how things stand. Nothing was deleted by this call.",
  });

export const notUnfinished = (rewind: RewindRow): TurnsError =>
  new TurnsError("REWIND_CONFLICT", {
    problem: `Rewind ${rewind.id} can't be given up: it was ${rewind.status === "abandoned" ? "given up before" : `done at ${rewind.createdAt}`}.`,
    remedy: "saver.rewinds.unfinished(threadId) tells which is unfinished. Nothing was changed.",
    data: { rewindId: rewind.id, threadId: rewind.threadId },
  });

/** The side effects stay undone, although their rows are restored. */
export function undoneMeanwhile(
  rewind: RewindRow,
  undone: readonly { id: string; name: string; nodeName: string }[],
): TurnsError {
  const named = firstOf(
    undone,
    ({ id, name, nodeName: node }) => `${JSON.stringify(name)} in node ${JSON.stringify(node)} (${id})`,
  );
  return new TurnsError("REWIND_CONFLICT", {
    problem: `Taking back rewind ${rewind.id} would bring back ${undone.length === 1 ? "1 effect" : `${undone.length} effects`} as done that it has undone: ${named}.`,
    remedy: "Pass { despiteUndone: true } to bring the rows back with their marks. Nothing was changed.",
    data: { rewindId: rewind.id, threadId: rewind.threadId, effects: undone },
  });
}
