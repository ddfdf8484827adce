import { describe, TurnsError } from "../errors";
import type { Effect } from "../effects/types";
import type { TurnSaver } from "../saver";
import type { LastRun } from "../store/store";

/** An effect that was done, as far as it takes to name it. */
export type DoneEffect = Pick<Effect, "name" | "label" | "key">;

/** The effects of a thread's last run, as far as a run that begins anew would repeat them. */
export interface Repeated {
  done: readonly DoneEffect[];
  /** They may have happened, or are happening. */
  open: readonly Effect[];
}

/** @param run undefined: nothing has run */
export async function repeatedBy(saver: TurnSaver, threadId: string, run: LastRun | undefined): Promise<Repeated> {
  const effects = run === undefined ? [] : await saver.effects.list(threadId, { afterSeq: Math.max(0, run.sinceSeq - 1) });
  return {
    done: effects
      .filter(({ status, undoStatus }) => status === "done" && undoStatus !== "done")
      .map(({ name, label, key }) => ({ name, label, key })),
    open: effects.filter(({ status }) => status === "in-doubt" || status === "running"),
  };
}

/** On a new branch an effect has another key: nobody would find out that it is the same deed, not even a probe. */
export function restartInDoubt(threadId: string, open: readonly Effect[], obstacle: TurnsError): TurnsError {
  const [first] = open as readonly [Effect, ...Effect[]];
  const effects = open.map(({ id, name, label, key, nodeName, status }) => ({
    effectId: id,
    name,
    label,
    key,
    nodeName,
    status,
  }));
  return new TurnsError("EFFECT_IN_DOUBT", {
    what: `a new beginning (${obstacle.code}) of the run of thread ${describe(threadId)}`,
    expected: "effects whose outcome is known",
    found: effects
      .map(({ name, label, key, nodeName }) => `${describe(name)} (${label}, key ${key}) of node ${describe(nodeName)}`)
      .join(", "),
    remedy: `The run was not begun anew. Find out whether each happened, and settle it with saver.effects.resolve(${JSON.stringify(first.id)}, { outcome: "done", result }) or { outcome: "not-done" }; or pass drift: "ignore" to go on with what was done.`,
    data: { threadId, effectId: first.id, effects, reason: obstacle.code },
    cause: obstacle,
  });
}

/** For the warning. */
export function inWords(done: readonly DoneEffect[]): string {
  if (done.length === 0) return "";
  return ` Effects that were done, and are done again where it comes to them: ${done.map(({ name, label, key }) => `${describe(name)} (${label}, key ${key})`).join(", ")}.`;
}
