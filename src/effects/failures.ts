import { Unserializable } from "../codec/failures";
import { type FramedDetails, TurnsError, type TurnsErrorCode } from "../errors";
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

const failure = (code: TurnsErrorCode, row: EffectRow, details: FramedDetails): TurnsError =>
  new TurnsError(code, { what: nameOf(row), data: dataOf(row), ...details });

export const inDoubt = (row: EffectRow, found?: string, cause?: unknown): TurnsError =>
  failure("EFFECT_IN_DOUBT", row, {
    expected: "an effect whose outcome is known",
    found: found ?? `one that was begun at ${row.startedAt} and never reported how it ended`,
    remedy: `It was not run again. Find out whether it happened (its key is ${row.key}), settle it with ${SETTLE(row)}, and resume. With the option \`probe\`, or \`idempotent\` from the beginning on, this goes by itself.`,
    cause,
  });

export const lostRun = (row: EffectRow): TurnsError =>
  failure("EFFECT_IN_DOUBT", row, {
    expected: "to know whether this call is a new deed",
    found: `the same effect (begun at ${row.startedAt}, ${row.status === "done" ? "done" : "outcome unknown"}) of a run, or of a call of a graph without a checkpointer, of which nothing was saved`,
    remedy: `It was not run again. To go on with a lost run, start it with its task, task_id ${JSON.stringify(row.taskId)}; if this is a new deed, call saver.effects.resolve(${JSON.stringify(row.id)}, { outcome: "history" }) and run again. Inputs tell effects apart, durability "async" loses no runs, and subgraphs with a checkpointer no calls.`,
  });

export const changed = (row: EffectRow): TurnsError =>
  failure("EFFECT_CHANGED", row, {
    expected: "the input that was recorded when it was begun",
    found: "another one",
    remedy:
      'It was not run. Give effects whose order can change an `id`; get an input that a model makes from an effect of its own; or pass onInputChange: "accept" to take the recorded effect for this one.',
  });

export const unclear = (row: EffectRow): TurnsError =>
  failure("EFFECT_CHANGED", row, {
    expected: "to know whether this call is another try or another effect",
    found: "one of the same name that failed in the same attempt, and neither an input nor an id to tell them apart",
    remedy: "It was not run. Give each effect an `id` or an `input`, or try again within its function.",
  });

export const notRecorded = (row: EffectRow, cause: unknown): TurnsError =>
  failure("EFFECT_NOT_RECORDED", row, {
    expected: "to commit its outcome",
    found: "a failing save; the deed itself has been done",
    remedy: `A retry in this process records it; otherwise it is in doubt: ${SETTLE(row)}.`,
    cause,
  });

/** @param now the row as changed by a person, or by somebody who took the thread over from a run that counted as dead */
export function overruled(row: EffectRow, now: EffectRow): TurnsError {
  const found =
    now.undoStatus !== row.undoStatus ? "one that is being undone, or was" : now.tries !== row.tries ? "another try" : now.status;
  return failure("EFFECT_NOT_RECORDED", row, {
    expected: "to commit its outcome; the deed itself has ended",
    found: `${found} meanwhile, by somebody who did not wait for it`,
    remedy: `What stands in the journal was left as it is. Look whether both happened (key ${now.key}): saver.effects.get(${JSON.stringify(row.id)}) shows it.`,
    data: dataOf(now),
  });
}

/** The effect is done, but its result isn't known. @param reason as {@link reasonOf} returns it */
export function resultNotSaved(row: EffectRow, reason: string, cause?: unknown): TurnsError {
  const resolve = `saver.effects.resolve(${JSON.stringify(row.id)}, { outcome: "done", result })`;
  return new TurnsError("UNSERIALIZABLE_VALUE", {
    problem: `${capitalised(nameOf(row))} is done, but its result can't be saved: ${reason}.`,
    remedy: `It won't run again. Return plain data from its function (or nothing), and give this effect a result: ${resolve}. Then resume.`,
    data: dataOf(row),
    cause,
  });
}

/** The thread was deleted while the effect was running. */
export const deletedMeanwhile = (row: EffectRow, deletedAt: number): TurnsError =>
  failure("THREAD_DELETED", row, {
    expected: "its thread",
    found: `a thread deleted at ${new Date(deletedAt).toISOString()}`,
    remedy: `The effect itself has ended, and its outcome was not saved: if it must not stay, undo it by hand (its key is ${row.key}). The run ends here.`,
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

function capitalised(text: string): string {
  return `${text.charAt(0).toUpperCase()}${text.slice(1)}`;
}

/** A rewind to a point before the effect removed its intent. */
export const gone = (row: EffectRow): TurnsError =>
  failure("EFFECT_NOT_FOUND", row, {
    expected: "its intent in the journal",
    found: "none: the thread was rewound meanwhile",
    remedy: `The effect itself has ended, and its outcome was not saved: if it must not stay, undo it by hand (its key is ${row.key}).`,
  });

export const ended = (name: string, { threadId, nodeTaskId }: EffectPlace): TurnsError =>
  new TurnsError("EFFECT_OUTSIDE_NODE", {
    what: `effect ${JSON.stringify(name)}`,
    expected: "a call from within a node, a tool or a task that is at work",
    found: "one that has ended, or ran into its timeout, and works on",
    remedy: "Nothing was done: its node may be at the same work again. Await every effect before the node returns.",
    data: { name, threadId, nodeTaskId },
  });

export const unknownEffect = (effectId: string): TurnsError =>
  new TurnsError("EFFECT_NOT_FOUND", {
    what: `effect ${JSON.stringify(effectId)}`,
    expected: "the id of an effect in the journal",
    found: "none of that id",
    remedy: "saver.effects.list(threadId) shows which there are.",
    data: { effectId },
  });
