import type { BaseTurnSaver } from "../base-saver";
import type { EffectDetails } from "../effects/effects";
import { TurnsError } from "../errors";
import { internalsOf } from "../internals";
import { checkedUndos } from "../rewind/undos";
import { settledBy, type SettledBy } from "../runner/thread-status";
import { plain } from "./plain";
import { errorOf } from "./standing";
import { type EffectLine, effectLine } from "./turns";
import { turns } from "./words";

/** An effect with what went in and what came out, as JSON. */
export interface EffectInFull extends EffectLine {
  /** Undefined if there is none, or it wasn't kept. */
  input: unknown;
  result: unknown;
  error: { name: string; message: string; stack: string | null } | null;
  /** The process that performs it, or did last; null if that isn't known. */
  pid: number | null;
  /** Why its input or result isn't shown. */
  notKept: string | null;
}

/** @throws {TurnsError} EFFECT_NOT_FOUND */
export async function effectInFull(saver: BaseTurnSaver, effectId: string): Promise<EffectInFull> {
  const { store } = internalsOf(saver);
  const row = await store.getEffect(effectId);
  const pid = Number(row?.process.split(" ", 1)[0]);
  const known = { pid: Number.isSafeInteger(pid) && pid > 0 ? pid : null, notKept: null };
  try {
    return { ...contentOf(await saver.effects.get(effectId)), ...known };
  } catch (error) {
    // Its row says enough without a content that can't be read.
    if (row === undefined || !TurnsError.is(error)) throw error;
    const [line] = (await saver.effects.list(row.threadId, { after: row.seq - 1, limit: 1 })).map(effectLine);
    if (line?.id !== effectId) throw error;
    return { ...line, input: undefined, result: undefined, error: null, ...known, notKept: error.message };
  }
}

function contentOf(effect: EffectDetails): Omit<EffectInFull, "pid" | "notKept"> {
  const { input, result, error } = effect;
  const stack = (error as { stack?: unknown } | undefined)?.stack;
  return {
    ...effectLine(effect),
    input: input === undefined ? undefined : plain(input),
    result: result === undefined ? undefined : plain(result),
    error: error === undefined ? null : { ...errorOf(error), stack: typeof stack === "string" ? stack : null },
  };
}

/** Effects without an id of their own are told apart by what they were called with, and by their number: the first has none. */
export function titleOf({ name, label, input }: Pick<EffectInFull, "name" | "label"> & { input?: unknown }): string {
  if (!label.startsWith("#")) return `${name} · ${label}`;
  const first =
    typeof input === "object" && input !== null ? Object.values(input).find((part) => typeof part === "string") : input;
  const called = typeof first === "string" && first.length <= MOST_IN_TITLE ? ` · ${first}` : "";
  return name + called + (label === "#0" ? "" : ` ${label}`);
}

/** Effects with their titles. Of so many it's told what they were called with. */
export async function titled<E extends Pick<EffectLine, "id" | "name" | "label">>(
  saver: BaseTurnSaver,
  effects: readonly E[],
): Promise<(E & { title: string })[]> {
  const told: (E & { title: string })[] = [];
  for (const effect of effects)
    told.push({ ...effect, title: titleOf(told.length < MOST_TITLES ? await effectInFull(saver, effect.id) : effect) });
  return told;
}

const MOST_TITLES = 200;

const MOST_IN_TITLE = 48;

const BY_HAND = "settle it by hand, as done or not-done.";
const SETTLED: Readonly<Record<SettledBy, string>> = {
  probe: `A resume asks its probe. Or ${BY_HAND}`,
  key: "A resume calls it again with the same key, which is harmless.",
  "maybe-probe": `A resume asks its probe, if it has one. Or ${BY_HAND}`,
  person: `It has no probe: ${BY_HAND}`,
  rewind: "A rewind calls its undo again.",
};

/** What a person should know of an effect, in a sentence; null if it's simply done. */
export function noteOf(effect: EffectLine): string | null {
  const { name, status, undoStatus, undoError, idempotent, settledBy: by } = effect;
  if (undoStatus === "begun") return "A rewind had begun to undo it, and nobody knows whether that happened.";
  if (undoStatus === "failed") return `Its undo failed${undoError === null ? "" : `: ${undoError}`}.`;
  if (undoStatus === "done") return "A rewind has undone it.";
  switch (status) {
    case "in-doubt": {
      const undo = effect.undo === "" ? false : (effect.undo ?? undefined);
      const settler = settledBy({ name, status, undo, undoStatus: undefined, idempotent }, checkedUndos(undefined));
      return `It was started, and the process stopped before it reported. ${SETTLED[settler]}`;
    }
    case "running":
      return "It is running now.";
    case "failed":
      return "It failed, and may be tried again.";
    case "failed-for-good":
      return "It failed for good.";
    case "done":
      return by === null ? null : `Its outcome was settled by ${by === "person" ? "a person" : `its ${by}`}.`;
  }
}

/** The command that settles an effect, without `--yes`: a person looks at the outcome first. Null if nothing is in doubt. */
export function settlingCommand({ id, status, undoStatus }: EffectLine): string | null {
  if (undoStatus === "begun" || undoStatus === "failed") return turns("effect resolve", [id, "undo-done"]);
  return status === "in-doubt" ? turns("effect resolve", [id, "done"]) : null;
}
