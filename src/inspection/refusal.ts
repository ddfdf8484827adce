import { TurnsError } from "../errors";
import type { EffectSummary } from "../rewind/plan";
import { listed, once, startedAs, turns } from "./words";

/** Why a change would be refused now. */
export interface Refusal {
  code: string;
  message: string;
}

const AWAY: readonly string[] = ["STORE_BUSY", "STORE_UNAVAILABLE", "STORE_CLOSED"];

/**
 * What is said of a thread in place of an answer.
 *
 * @throws what was caught, if it's no error of ours, or if the database gave no answer: that says nothing of the thread
 */
export function refusalOf(error: unknown): TurnsError {
  if (!TurnsError.is(error) || AWAY.includes(error.code)) throw error;
  return error;
}

const hasNoUndo = ({ verdict }: Pick<EffectSummary, "verdict">): boolean =>
  ["missing", "unregistered", "ambiguous"].includes(verdict);

/**
 * Why a rewind is refused, and what to do about it there; undefined: the error says it.
 *
 * @param page how commands begin that the page shows; undefined on the command line
 */
export function rewindRefusal(
  code: string | null,
  threadId: string,
  effects: readonly Pick<EffectSummary, "id" | "name" | "status" | "verdict">[],
  page?: string,
): string | undefined {
  const started = (command: string): string => (page === undefined ? command : startedAs(page, command));
  const load = page === undefined ? "give its module with --graph ./agent.ts" : "start the page with --graph";
  switch (code) {
    case "EFFECT_UNCOMPENSATED": {
      const without = effects.filter(hasNoUndo);
      const isInCode = without.some(({ verdict }) => verdict === "unregistered");
      const leave = page === undefined ? "Add --allow-uncompensated" : "Tick the box";
      return `Nothing here can undo ${listed(once(without.map(({ name }) => name)))}. ${isInCode ? `The undos are in your code: ${load}. ` : ""}${leave} to leave it as it is.`;
    }
    case "EFFECT_IN_DOUBT": {
      const doubt = effects.find(
        (effect) => effect.verdict.endsWith("in-doubt") || (effect.status === "in-doubt" && hasNoUndo(effect)),
      );
      if (doubt === undefined) return undefined;
      const [what, outcome] =
        doubt.verdict === "undo-in-doubt" ? [`the undo of ${doubt.name}`, "undo-done"] : [doubt.name, "done"];
      const code = doubt.verdict === "unregistered" ? ` Its undo may be in your code: ${load}.` : "";
      return `Nobody knows whether ${what} happened.${code} Settle it first: ${started(turns("effect resolve", [doubt.id, outcome]))}`;
    }
    case "UNDO_FAILED":
    case "REWIND_UNFINISHED":
      return `${code === "UNDO_FAILED" ? "An undo failed, and nothing was deleted" : "A rewind was begun and isn't finished"}. The same rewind again continues it. To give it up: ${started(turns("rewind", [threadId], "--abandon", "--yes"))}`;
    default:
      return undefined;
  }
}
