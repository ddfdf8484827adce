import { describe } from "../errors";
import { type Block, fromInline, Malformed, type TableRow, toInline } from "./markdown";
import {
  type Phase,
  type PhaseStatus,
  type PhaseTokens,
  type Progress,
  type ResumeInfo,
  STATUSES,
  TOKEN_KINDS,
} from "./progress";

/** The beginning of the file's heading; the thread's id follows. */
export const TITLE = "Progress of ";

type Table = Extract<Block, { kind: "table" }>;

const PHASE_HEADER = ["phase", "status", "started", "ended", "tokens in", "tokens out", "cached", "reasoning"];
const RESUME_HEADER = ["resume", ""];
const RESUME_ROWS = ["last completed phase", "next phase", "next step", "can resume"] as const;
const TOTAL = "**total**";

/** Whether a table is ours, by the first cell of its header. The rest of the header is checked when the table is read. */
export function tableNamed(name: "phase" | "resume"): (table: Table) => boolean {
  return (table) => table.rows[0]?.cells[0] === name;
}

export function phaseTable(progress: Progress): string[] {
  const rows = progress.phases.map((phase) => [
    toInline(phase.id),
    `${ICONS[phase.status]} ${phase.status}`,
    timeCell(phase.startedAt),
    timeCell(phase.endedAt),
    ...countCells(phase.tokens),
  ]);
  const total = [TOTAL, "", "", "", ...countCells(progress.totals)];
  return [PHASE_HEADER, ["---", "---", "---", "---", "---:", "---:", "---:", "---:"], ...rows, total].map(rowLine);
}

export function resumeTable(resume: ResumeInfo): string[] {
  const cells = [orNone(resume.lastPhase), orNone(resume.nextPhase), orNone(resume.nextStep), answerCell(resume.reason)];
  const rows = RESUME_ROWS.map((name, index) => [name, cells[index] ?? ""]);
  return [RESUME_HEADER, ["---", "---"], ...rows].map(rowLine);
}

interface PhaseRow extends Omit<Phase, "name" | "notes"> {
  line: number;
}

/** @throws {Malformed} */
export function phaseRowsOf(table: Table): { rows: PhaseRow[]; totals: PhaseTokens; totalLine: number } {
  const [, ...rows] = withHeader(table, PHASE_HEADER);
  const total = rows.pop();
  if (total?.cells[0] !== TOTAL) {
    throw new Malformed(table.to - 1, `a last row that begins with ${TOTAL}`, describe(total?.cells[0] ?? "no row"));
  }
  return { rows: rows.map(phaseRow), totals: countsOf(total), totalLine: total.line };
}

function phaseRow({ line, cells }: TableRow): PhaseRow {
  const [id = "", status = "", started = "", ended = ""] = cells;
  return {
    line,
    id: fromInline(id),
    status: statusOf(status, line),
    startedAt: timeOf(started, line),
    endedAt: timeOf(ended, line),
    tokens: countsOf({ line, cells }),
  };
}

/** @throws {Malformed} */
export function resumeRowsOf(table: Table): ResumeInfo {
  const [, ...rows] = withHeader(table, RESUME_HEADER);
  RESUME_ROWS.forEach((name, index) => {
    const row = rows[index];
    if (row?.cells[0] !== name) throw new Malformed(row?.line ?? table.to - 1, `a row "${name}"`, describe(row?.cells[0]));
  });
  const surplus = rows[RESUME_ROWS.length];
  if (surplus !== undefined) throw new Malformed(surplus.line, "the end of the table, and an empty line", "another row");
  const [last = "", next = "", step = "", answer = ""] = rows.map((row) => row.cells[1]);
  const reason = reasonOf(answer, rows[3]?.line ?? table.from);
  return {
    lastPhase: textOrNone(last),
    nextPhase: textOrNone(next),
    nextStep: textOrNone(step),
    canResume: reason === null,
    reason,
  };
}

function withHeader(table: Table, header: readonly string[]): readonly TableRow[] {
  const found = table.rows[0]?.cells ?? [];
  const off = header.findIndex((name, index) => found[index] !== name);
  if (off !== -1) throw new Malformed(table.from, `a column "${header[off]}"`, describe(found[off] ?? "none"));
  if (found.length > header.length) throw new Malformed(table.from, `${header.length} columns`, `${found.length}`);
  return table.rows;
}

function countCells(tokens: PhaseTokens): string[] {
  return TOKEN_KINDS.map((kind) => String(tokens[kind]).replace(/\B(?=(\d{3})+$)/g, ","));
}

function countsOf({ line, cells }: TableRow): PhaseTokens {
  const [input, output, cached, reasoning] = cells.slice(4).map((cell) => countOf(cell, line));
  return { input: input ?? 0, output: output ?? 0, cached: cached ?? 0, reasoning: reasoning ?? 0 };
}

function rowLine(cells: readonly string[]): string {
  return `| ${cells.join(" | ")} |`;
}

const NONE = "–";

const ICONS: Readonly<Record<PhaseStatus, string>> = {
  pending: "⬜",
  "in-progress": "🔄",
  completed: "✅",
  failed: "❌",
  skipped: "⏭️",
};

/** A cell that may be empty. A text that looks like "nothing" is escaped. */
function orNone(text: string | null): string {
  if (text === null) return NONE;
  return text === NONE ? `&#${NONE.charCodeAt(0)};` : toInline(text);
}

function textOrNone(cell: string): string | null {
  return cell === NONE ? null : fromInline(cell);
}

/** Only the word counts, so people can change it without finding the right sign. */
function statusOf(cell: string, line: number): PhaseStatus {
  const word = cell.split(" ").at(-1);
  const status = STATUSES.find((each) => each === word);
  if (status === undefined) throw new Malformed(line, `a status, one of ${STATUSES.join(", ")}`, describe(cell));
  return status;
}

function timeCell(time: Date | null): string {
  return time === null ? NONE : time.toISOString().replace("T", " ");
}

/** UTC; seconds and their fractions may be missing. */
function timeOf(cell: string, line: number): Date | null {
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

function countOf(cell: string, line: number): number {
  const digits = cell.replaceAll(",", "");
  const count = Number(digits);
  if (!/^\d+$/.test(digits) || !Number.isSafeInteger(count)) throw new Malformed(line, "a number of tokens", describe(cell));
  return count;
}

function answerCell(reason: string | null): string {
  return reason === null ? "yes" : `no: ${toInline(reason)}`.trimEnd();
}

function reasonOf(cell: string, line: number): string | null {
  if (cell === "yes") return null;
  if (!cell.startsWith("no:")) throw new Malformed(line, "yes, or no: and why not", describe(cell));
  return fromInline(cell.slice("no:".length).trimStart());
}
