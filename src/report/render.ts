import { isDeepStrictEqual } from "node:util";
import { TurnsError } from "../errors";
import { withFailure } from "./phase-changes";
import { edited, type LineEdit, type LineRange, Malformed, malformedFile, marker, toInline, toQuote } from "./markdown";
import { type ParsedFile, parseProgress, type Section } from "./parse";
import { checkedProgress, type Phase, type Progress } from "./progress";
import { phaseTable, resumeTable, TITLE } from "./tables";

const END = marker("end");

/**
 * A progress as Markdown, from which `parseProgress` restores it exactly.
 *
 * @throws {TurnsError} INVALID_OPTION for an invalid progress
 */
export function renderProgress(progress: Progress): string {
  const { threadId, phases, resume } = checkedProgress(progress);
  const tables = [...phaseTable(progress), "", ...resumeTable(resume)];
  const head = [marker("progress", "1"), "", titleLine(threadId), "", ...tables, "", END];
  return `${[...head, ...phases.flatMap((phase) => ["", ...sectionLines(phase)])].join("\n")}\n`;
}

/**
 * Replaces the progress that a file shows. Lines with the same content stay unchanged, people's text stays where it is, and new
 * phases come after the ones before them.
 *
 * @throws {TurnsError} INVALID_OPTION; CHECKPOINT_FILE_MALFORMED if the surrounding text would hide the new parts, which is
 *   checked before anything is written
 */
export function renderInto(file: ParsedFile, progress: Progress, name: string): string {
  const wanted = checkedProgress(progress);
  // People's text may contain an unclosed code fence. Anything inserted after it wouldn't be found again.
  for (const isClose of [false, true]) {
    const text = edited(file.text, editsOf(file, wanted, isClose));
    if (isDeepStrictEqual(progressIn(text, name), wanted)) return text;
  }
  const expected = "text that leaves room for the phases (no open code fence, comment or HTML)";
  throw malformedFile(name, new Malformed(file.head.to - 1, expected, "text that hides what is put in behind this line"));
}

/** Undefined if it isn't a progress file. */
function progressIn(text: string, name: string): Progress | undefined {
  try {
    return parseProgress(text, name);
  } catch (error) {
    if (TurnsError.is(error, "CHECKPOINT_FILE_MALFORMED")) return undefined;
    throw error;
  }
}

/** @param isClose put new phases directly after the ones before them, not after the text that people wrote there */
function editsOf(file: ParsedFile, progress: Progress, isClose: boolean): LineEdit[] {
  const { progress: old, sections } = file;
  const edits: LineEdit[] = [];
  if (old.threadId !== progress.threadId) edits.push({ ...file.title, insert: [titleLine(progress.threadId)] });
  replaced(edits, file.phaseTable, phaseTable(old), phaseTable(progress));
  replaced(edits, file.resumeTable, resumeTable(old.resume), resumeTable(progress.resume));
  const added = new Map<number, string[]>();
  let behind = file.head.to;
  for (const phase of progress.phases) {
    const section = sections.get(phase.id);
    if (section === undefined) {
      const at = isClose ? behind : (file.breaks.find((line) => line >= behind) ?? file.text.lines.length);
      const before = added.get(at);
      added.set(at, before === undefined ? sectionLines(phase) : [...before, "", ...sectionLines(phase)]);
    } else {
      edits.push(...sectionEdits(file, section, phase));
      behind = section.to;
    }
  }
  for (const [at, lines] of added) edits.push({ from: at, to: at, insert: setOff(file, at, at, lines) });
  const ids = new Set(progress.phases.map((phase) => phase.id));
  for (const section of sections.values()) if (!ids.has(section.id)) edits.push(...removal(file, section));
  return edits;
}

function replaced(edits: LineEdit[], range: LineRange, before: readonly string[], after: readonly string[]): void {
  if (!isDeepStrictEqual(before, after)) edits.push({ from: range.from, to: range.to, insert: after });
}

function sectionEdits(file: ParsedFile, section: Section, phase: Phase): LineEdit[] {
  const edits: LineEdit[] = [];
  if (section.name !== phase.name) edits.push({ ...section.heading, insert: [headingLine(phase)] });
  if (section.notes === phase.notes) return edits;
  const { quote, heading } = section;
  if (phase.notes === "") return quote === undefined ? edits : [...edits, taken(file, quote, heading.to)];
  const at = quote ?? { from: heading.to, to: heading.to };
  return [...edits, { from: at.from, to: at.to, insert: setOff(file, at.from, at.to, toQuote(phase.notes)) }];
}

/**
 * Removes the block of a phase that no longer exists. What people wrote inside it stays, and so do its notes, under their
 * heading: they may be people's.
 */
function removal(file: ParsedFile, section: Section): LineEdit[] {
  const { quote, heading, notes } = section;
  const isNoted = withFailure(notes, "") !== "";
  const ours: LineRange[] = [
    { from: section.from, to: section.from + 1 },
    ...(isNoted ? [] : [heading]),
    ...(isNoted || quote === undefined ? [] : [quote]),
    { from: section.to - 1, to: section.to },
  ];
  return ours.map((range) => taken(file, range, 0));
}

/** Removes lines, and the empty line above them if there is one below as well. */
function taken(file: ParsedFile, range: LineRange, notAbove: number): LineEdit {
  const aboveIsBlank = range.from > notAbove && isBlank(file, range.from - 1);
  const from = aboveIsBlank ? range.from - 1 : range.from;
  return { from, to: range.to, insert: isBlank(file, range.to) || range.from === 0 ? [] : [""] };
}

/** Lines with an empty line above and below, unless there is one already. */
function setOff(file: ParsedFile, from: number, to: number, lines: readonly string[]): string[] {
  const above = from === 0 || isBlank(file, from - 1) ? [] : [""];
  const below = to >= file.text.lines.length || isBlank(file, to) ? [] : [""];
  return [...above, ...lines, ...below];
}

function isBlank(file: ParsedFile, line: number): boolean {
  return (file.text.lines[line] ?? "").trim() === "";
}

function titleLine(threadId: string): string {
  return `# ${TITLE}${toInline(threadId)}`;
}

function headingLine(phase: Phase): string {
  return `## ${toInline(phase.name)}`.trimEnd();
}

function sectionLines(phase: Phase): string[] {
  const notes = phase.notes === "" ? [] : [...toQuote(phase.notes), ""];
  // A comment stops at its first "-->".
  const id = JSON.stringify(phase.id).replaceAll(">", "\\u003e");
  return [marker("phase", id), "", headingLine(phase), "", ...notes, END];
}
