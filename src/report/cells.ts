import { describe } from "../errors";
import { fromInline, toInline } from "./inline-text";
import { Malformed } from "./malformed-file";
import { type PhaseStatus, STATUSES } from "./progress";

/** What stands where there is nothing to say. */
const NONE = "–";

const ICONS: Readonly<Record<PhaseStatus, string>> = {
  pending: "⬜",
  "in-progress": "🔄",
  completed: "✅",
  failed: "❌",
  skipped: "⏭️",
};

/** A cell that may be empty-handed; the text that looks like "nothing" is written differently. */
export function orNone(text: string | null): string {
  if (text === null) return NONE;
  return text === NONE ? `&#${NONE.charCodeAt(0)};` : toInline(text);
}

export function textOrNone(cell: string): string | null {
  return cell === NONE ? null : fromInline(cell);
}

export function statusCell(status: PhaseStatus): string {
  return `${ICONS[status]} ${status}`;
}

/** The word counts; whoever changes it need not find the right sign. */
export function statusOf(cell: string, line: number): PhaseStatus {
  const word = cell.split(" ").at(-1);
  const status = STATUSES.find((each) => each === word);
  if (status === undefined) throw new Malformed(line, `a status, one of ${STATUSES.join(", ")}`, describe(cell));
  return status;
}

export function timeCell(time: Date | null): string {
  return time === null ? NONE : time.toISOString().replace("T", " ");
}

/** UTC; seconds and their fractions may be missing. */
export function timeOf(cell: string, line: number): Date | null {
  if (cell === NONE || cell === "") return null;
  const [, date, clock, seconds = ":00", fraction = ""] =
    /^((?:[+-]\d\d)?\d{4}-\d\d-\d\d)[ T](\d\d:\d\d)(:\d\d)?(\.\d{1,3})?Z$/.exec(cell) ?? [];
  const iso = `${date}T${clock}${seconds}.${fraction.slice(1).padEnd(3, "0")}Z`;
  const time = new Date(iso);
  // A 30th of February would become a day in March.
  if (date === undefined || Number.isNaN(time.getTime()) || time.toISOString() !== iso) {
    throw new Malformed(line, "a time in UTC such as 2026-01-31 17:00:00.000Z, or –", describe(cell));
  }
  return time;
}

export function countCell(count: number): string {
  return String(count).replace(/\B(?=(\d{3})+$)/g, ",");
}

export function countOf(cell: string, line: number): number {
  const digits = cell.replaceAll(",", "");
  const count = Number(digits);
  if (!/^\d+$/.test(digits) || !Number.isSafeInteger(count)) throw new Malformed(line, "a number of tokens", describe(cell));
  return count;
}

/** `yes`, or `no: ` and why. */
export function answerCell(reason: string | null): string {
  return reason === null ? "yes" : `no: ${toInline(reason)}`.trimEnd();
}

export function reasonOf(cell: string, line: number): string | null {
  if (cell === "yes") return null;
  if (!cell.startsWith("no:")) throw new Malformed(line, "yes, or no: and why not", describe(cell));
  return fromInline(cell.slice("no:".length).trimStart());
}
