import { Unserializable } from "../codec/failures";
import { sentence, TurnsError, type TurnsErrorCode, type TurnsErrorDetails } from "../errors";
import type { EffectRow } from "../store/effects";
import type { NewEffect } from "../store/store";
import type { EffectPlace } from "./options";

function dataOf(row: EffectRow): Record<string, unknown> {
  const { threadId, id: effectId, name, label, key, nodeName, nodeTaskId, tries, startedAt } = row;
  return { threadId, effectId, name, label, key, nodeName, nodeTaskId, tries, startedAt };
}

export const nameOf = (row: Pick<EffectRow, "name" | "label" | "nodeName" | "threadId">): string =>
  `effect ${JSON.stringify(row.name)} (${row.label}) in node ${JSON.stringify(row.nodeName)} of thread ${JSON.stringify(row.threadId)}`;

const SETTLE = (row: EffectRow): string =>
  `saver.effects.resolve(${JSON.stringify(row.id)}, { outcome: "done", result }) or { outcome: "not-done" }`;

const failure = (code: TurnsErrorCode, row: EffectRow, details: TurnsErrorDetails): TurnsError =>
  new TurnsError(code, { data: dataOf(row), ...details });

/**
 * @param why the second half of the sentence "It isn't known whether the effect happened: …"
 * @param isProbed whether the next resume asks a probe
 */
export const inDoubt = (row: EffectRow, why?: string, cause?: unknown, isProbed = false): TurnsError =>
  failure("EFFECT_IN_DOUBT", row, {
    problem: `It isn't known whether ${nameOf(row)} happened: ${why ?? `it began at ${row.startedAt} and never reported its outcome`}.`,
    remedy: isProbed
      ? `It was not run again. Resume, which asks its probe. To settle it by hand (its key is ${row.key}), call ${SETTLE(row)} first.`
      : `It was not run again. Find out whether it happened (its key is ${row.key}), settle it with ${SETTLE(row)}, and resume. A \`probe\` settles it by itself, and so does \`idempotent\` if it was declared when the effect began.`,
    cause,
  });

export const lostRun = (row: EffectRow): TurnsError =>
  failure("EFFECT_IN_DOUBT", row, {
    problem: `It isn't known whether this call of ${nameOf(row)} is a new one: a run that saved nothing else, or a call of a graph without a checkpointer, began the same effect at ${row.startedAt} (${row.status === "done" ? "done" : "outcome unknown"}).`,
    remedy: `It was not run again. To continue a lost run, start it with its task, task_id ${JSON.stringify(row.taskId)}. If this is a new effect, call saver.effects.resolve(${JSON.stringify(row.id)}, { outcome: "history" }) and run again. Inputs tell effects apart, durability "async" loses no runs, and subgraphs with a checkpointer no calls.`,
  });

export const changed = (row: EffectRow): TurnsError =>
  failure("EFFECT_CHANGED", row, {
    problem: `${sentence(nameOf(row))} was called with another input than the one on record.`,
    remedy:
      'It was not run. Give effects whose order can change an `id`; get an input that a model makes from an effect of its own; or pass onInputChange: "accept" to take the recorded effect for this one.',
  });

export const unclear = (row: EffectRow): TurnsError =>
  failure("EFFECT_CHANGED", row, {
    problem: `It isn't known whether this call of ${nameOf(row)} is another try or another effect: one of the same name failed in the same attempt, and neither an input nor an id tells them apart.`,
    remedy: "It was not run. Give each effect an `id` or an `input`, or try again within its function.",
  });

/** @param status what would have been saved */
export const notRecorded = (row: EffectRow, status: EffectRow["status"], cause: unknown): TurnsError =>
  failure("EFFECT_NOT_RECORDED", row, {
    problem: `${sentence(nameOf(row))} ${status === "done" ? "is done" : "has failed"}, but its outcome could not be saved; the reason is the cause.`,
    // What a closed saver knows of it goes with it.
    remedy: TurnsError.is(cause, "STORE_CLOSED")
      ? `The saver was closed while it ran, so it is in doubt. Open a new saver, settle it with ${SETTLE(row)}, and resume. A \`probe\` settles it by itself, and so does \`idempotent\`.`
      : `A retry in this process records it; otherwise it is in doubt: ${SETTLE(row)}.`,
    cause,
  });

/** @param now the row as changed by a person, or by somebody who took the thread over from a run that counted as dead */
export function overruled(row: EffectRow, now: EffectRow): TurnsError {
  const state =
    now.undoStatus !== row.undoStatus ? "being undone, or undone" : now.tries !== row.tries ? "tried again" : now.status;
  return failure("EFFECT_NOT_RECORDED", row, {
    problem: `${sentence(nameOf(row))} has finished, but its outcome could not be saved: another run or a person didn't wait for it, and it is ${state} by now.`,
    remedy: `What stands in the journal was left as it is. Look whether both happened (key ${now.key}): saver.effects.get(${JSON.stringify(row.id)}) shows it.`,
    data: dataOf(now),
  });
}

/** The effect is done, but its result isn't known. @param reason as {@link reasonOf} returns it */
export function resultNotSaved(row: EffectRow, reason: string, cause?: unknown): TurnsError {
  const resolve = `saver.effects.resolve(${JSON.stringify(row.id)}, { outcome: "done", result })`;
  return new TurnsError("UNSERIALIZABLE_VALUE", {
    problem: `${sentence(nameOf(row))} is done, but its result can't be saved: ${reason}.`,
    remedy: `It won't run again. Return plain data from its function (or nothing), and give this effect a result: ${resolve}. Then resume.`,
    data: dataOf(row),
    cause,
  });
}

/** The thread was deleted while the effect was running. */
export const deletedMeanwhile = (row: EffectRow, deletedAt: number): TurnsError =>
  failure("THREAD_DELETED", row, {
    problem: `The thread was deleted at ${new Date(deletedAt).toISOString()}, while ${nameOf(row)} was running.`,
    remedy: `The effect has finished, and its outcome was not saved: if it must not stay, undo it by hand (its key is ${row.key}). The run ends here.`,
  });

/** The same for a result that a person gave. */
export const givenResultNotSaved = (row: EffectRow, reason: string, cause: unknown): TurnsError =>
  new TurnsError("UNSERIALIZABLE_VALUE", {
    problem: `The result for ${nameOf(row)} can't be saved: ${reason}.`,
    remedy: "Nothing was changed. Pass plain data, or leave the result out.",
    data: dataOf(row),
    cause,
  });

export function inputNotSaved(effect: NewEffect, cause: TurnsError): TurnsError {
  const { threadId, name, label, nodeNs, nodeTaskId } = effect;
  const [nodeName = ""] = nodeNs.slice(nodeNs.lastIndexOf("|") + 1).split(":", 1);
  const path = cause instanceof Unserializable ? { path: within("input", cause.path) } : {};
  return new TurnsError("UNSERIALIZABLE_VALUE", {
    problem: `The input of ${nameOf({ threadId, name, label, nodeName })} can't be saved: ${reasonOf(cause, "input")}.`,
    remedy: "Nothing was done. Pass plain data as input, or leave the option out.",
    data: { threadId, name, label, nodeName, nodeTaskId, ...path },
    cause,
  });
}

/**
 * Why a value can't be saved, for the end of a sentence.
 *
 * @param holder what the value is called, if the path doesn't begin with it
 */
export function reasonOf(error: Error, holder = ""): string {
  if (!(error instanceof Unserializable)) return "the serde refused it";
  return `at ${within(holder, error.path)} there is ${error.found.replace("it is the whole value again", `it is ${holder} again`)}`;
}

function within(holder: string, path: string): string {
  return holder === "" || path === "" || /^[[<]/.test(path) ? `${holder}${path}` : `${holder}.${path}`;
}

/** A rewind to a point before the effect removed its intent. */
export const gone = (row: EffectRow): TurnsError =>
  failure("EFFECT_NOT_FOUND", row, {
    problem: `The journal has no intent of ${nameOf(row)} any more: the thread was rewound meanwhile.`,
    remedy: `The effect has finished, and its outcome was not saved: if it must not stay, undo it by hand (its key is ${row.key}).`,
  });

export const ended = (name: string, { threadId, nodeTaskId }: EffectPlace): TurnsError =>
  new TurnsError("EFFECT_OUTSIDE_NODE", {
    problem: `Effect ${JSON.stringify(name)} was called by a node, a tool or a task that has already finished, or ran into its timeout.`,
    remedy: "Nothing was done, because the node may be running again. Await every effect before the node returns.",
    data: { name, threadId, nodeTaskId },
  });

export const unknownEffect = (effectId: string): TurnsError =>
  new TurnsError("EFFECT_NOT_FOUND", {
    problem: `The journal has no effect ${JSON.stringify(effectId)}.`,
    remedy: "saver.effects.list(threadId) shows which there are.",
    data: { effectId },
  });
