import { toInline } from "./inline-text";

const BEGINS = "**Failed:** ";

/** Why a phase failed, as one line of its notes: by its beginning it is found again when the reason is another, or none any more. */
export function failureLine(reason: string): string {
  return BEGINS + toInline(reason);
}

/** Notes with the line of their failure taken out, and another one put behind them; what people wrote stays. */
export function withFailure(notes: string, line: string): string {
  const lines = notes.split("\n");
  const kept = lines.filter((each) => !each.startsWith(BEGINS));
  const same = kept.length === lines.length;
  // The empty lines that set it off go with it.
  const others = same ? notes : withoutEmptyEnds(kept).join("\n");
  if (line === "") return others;
  return others === "" ? line : `${others}${others.endsWith("\n") ? "" : "\n"}\n${line}`;
}

/** By counting: a regular expression for the end would try anew at each of a million empty lines in the middle. */
function withoutEmptyEnds(lines: readonly string[]): string[] {
  const first = lines.findIndex((line) => line !== "");
  return first === -1 ? [] : lines.slice(first, lines.findLastIndex((line) => line !== "") + 1);
}
