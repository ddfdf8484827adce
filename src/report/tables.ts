import { describe } from "../errors";
import { answerCell, countCell, countOf, orNone, reasonOf, statusCell, statusOf, textOrNone, timeCell, timeOf } from "./cells";
import { fromInline, toInline } from "./inline-text";
import { Malformed } from "./malformed-file";
import type { Block, TableRow } from "./markdown-blocks";
import { type Phase, type PhaseTokens, type Progress, type ResumeInfo, TOKEN_KINDS } from "./progress";

/** The heading of the file begins so, and goes on with the thread's id. */
export const TITLE = "Progress of ";

type Table = Extract<Block, { kind: "table" }>;

const PHASE_HEADER = ["phase", "status", "started", "ended", "tokens in", "tokens out", "cached", "reasoning"];
const RESUME_HEADER = ["resume", ""];
const RESUME_ROWS = ["last completed phase", "next phase", "next step", "can resume"] as const;
const TOTAL = "**total**";

/** Whether a table is ours, by the first cell of its header; what else the header says is checked when it is read. */
export function tableNamed(name: "phase" | "resume"): (table: Table) => boolean {
  return (table) => table.rows[0]?.cells[0] === name;
}

export function phaseTable(progress: Progress): string[] {
  const rows = progress.phases.map((phase) => [
    toInline(phase.id),
    statusCell(phase.status),
    timeCell(phase.startedAt),
    timeCell(phase.endedAt),
    ...countCells(phase.tokens),
  ]);
  return [
    rowLine(PHASE_HEADER),
    rowLine(["---", "---", "---", "---", "---:", "---:", "---:", "---:"]),
    ...rows.map(rowLine),
    rowLine([TOTAL, "", "", "", ...countCells(progress.totals)]),
  ];
}

export function resumeTable(resume: ResumeInfo): string[] {
  const cells = [orNone(resume.lastPhase), orNone(resume.nextPhase), orNone(resume.nextStep), answerCell(resume.reason)];
  return [
    rowLine(RESUME_HEADER),
    rowLine(["---", "---"]),
    ...RESUME_ROWS.map((name, index) => rowLine([name, cells[index] ?? ""])),
  ];
}

export interface PhaseRow extends Omit<Phase, "name" | "notes"> {
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
  return TOKEN_KINDS.map((kind) => countCell(tokens[kind]));
}

function countsOf({ line, cells }: TableRow): PhaseTokens {
  const [input, output, cached, reasoning] = cells.slice(4).map((cell) => countOf(cell, line));
  return { input: input ?? 0, output: output ?? 0, cached: cached ?? 0, reasoning: reasoning ?? 0 };
}

function rowLine(cells: readonly string[]): string {
  return `| ${cells.join(" | ")} |`;
}
