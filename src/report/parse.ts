import { describe } from "../errors";
import { expectationOf } from "../options";
import {
  type Block,
  blocksOf,
  fromInline,
  fromQuote,
  type LineRange,
  linesOf,
  Malformed,
  malformedFile,
  type TextLines,
} from "./markdown";
import { type Phase, type Progress, progressSchema, type ResumeInfo } from "./progress";
import { phaseRowsOf, resumeRowsOf, tableNamed, TITLE } from "./tables";

type Part<K extends Block["kind"]> = Extract<Block, { kind: K }>;

/** One phase's block, from its marker to its end. */
export interface Section extends LineRange {
  id: string;
  heading: LineRange;
  name: string;
  quote: LineRange | undefined;
  notes: string;
}

/** A progress file and the positions of its parts. All other lines belong to people. */
export interface ParsedFile {
  progress: Progress;
  text: TextLines;
  title: LineRange;
  phaseTable: LineRange;
  resumeTable: LineRange;
  /** The block at the top, with title and tables. */
  head: LineRange;
  sections: ReadonlyMap<string, Section>;
  /** Where a phase's own text stops: at our blocks and, outside them, at a person's headings of the first two levels. */
  breaks: readonly number[];
}

const VERSION = "1";

/**
 * Reads a progress file.
 *
 * @param name what messages call the file
 * @throws {TurnsError} CHECKPOINT_FILE_MALFORMED with the line and what is wrong there
 */
export function parseProgress(markdown: string, name = "the progress file"): Progress {
  return parseFile(markdown, name).progress;
}

/** {@link parseProgress}, with the positions. */
export function parseFile(markdown: string, name: string): ParsedFile {
  try {
    return parse(linesOf(markdown), markdown);
  } catch (error) {
    throw error instanceof Malformed ? malformedFile(name, error) : error;
  }
}

function parse(text: TextLines, markdown: string): ParsedFile {
  const groups = grouped(blocksOf(markdown.slice(text.mark.length)));
  const head = groups.ours.find((group) => group.word === "progress");
  if (head === undefined) throw new Malformed(0, 'a comment "<!-- turns:progress 1 -->" where the progress begins', "none");
  if (head.argument !== VERSION) throw new Malformed(head.from, `version ${VERSION} of the format`, describe(head.argument));

  const title = only(head.blocks.filter(isA("heading")).slice(0, 1), head.from, `the heading "# ${TITLE}…"`);
  if (title.level !== 1 || !title.text.startsWith(TITLE)) {
    throw new Malformed(title.from, `the heading "# ${TITLE}…"`, "another heading");
  }
  const tables = head.blocks.filter(isA("table"));
  const phaseTable = only(tables.filter(tableNamed("phase")), head.from, "one table of the phases");
  const resumeTable = only(tables.filter(tableNamed("resume")), head.from, "one table of how to resume");

  const sections = sectionsOf(text, groups.ours);
  const { rows, totals, totalLine } = phaseRowsOf(phaseTable);
  const phases = rows.map(({ line, ...row }): Phase => {
    const section = sections.get(row.id);
    if (section === undefined) throw new Malformed(line, "a section for each phase of the table", `none for ${describe(row.id)}`);
    return { ...row, name: section.name, notes: section.notes };
  });
  const ids = new Set(phases.map((phase) => phase.id));
  for (const section of sections.values()) {
    if (ids.has(section.id)) continue;
    throw new Malformed(section.from, "a phase that is in the table", `a section for ${describe(section.id)}`);
  }
  const resume: ResumeInfo = resumeRowsOf(resumeTable);
  const threadId = fromInline(title.text.slice(TITLE.length).trimStart());
  const progress = validated({ threadId, phases, resume, totals }, (path) => {
    if (path[0] === "totals") return totalLine;
    if (path[0] === "resume") return resumeTable.from;
    if (path[0] === "phases") return rows[Number(path[1])]?.line ?? phaseTable.from;
    return title.from;
  });
  return {
    progress,
    text,
    title,
    phaseTable,
    resumeTable,
    head: { from: head.from, to: head.to },
    sections,
    breaks: groups.breaks,
  };
}

/** What is between a marker and the next end. */
interface Group extends LineRange {
  word: string;
  argument: string;
  blocks: Block[];
}

function grouped(blocks: readonly Block[]): { ours: Group[]; breaks: number[] } {
  const ours: Group[] = [];
  const breaks: number[] = [];
  let open: Group | undefined;
  for (const block of blocks) {
    if (block.kind === "marker" && block.word === "end") {
      if (open === undefined) throw new Malformed(block.from, 'a block of ours before its "turns:end"', "none");
      ours.push({ ...open, to: block.to });
      open = undefined;
    } else if (block.kind === "marker") {
      if (open !== undefined) throw unended(open);
      if (block.word !== "progress" && block.word !== "phase") {
        throw new Malformed(block.from, '"turns:progress", "turns:phase" or "turns:end"', describe(`turns:${block.word}`));
      }
      if (block.word === "progress" && ours.length > 0) {
        throw new Malformed(block.from, "one block of progress, before all phases", "another, or one behind a phase");
      }
      open = { ...block, blocks: [] };
      breaks.push(block.from);
    } else if (open !== undefined) {
      open.blocks.push(block);
    } else if (block.kind === "heading" && block.level <= 2) {
      breaks.push(block.from);
    }
  }
  if (open !== undefined) throw unended(open);
  return { ours, breaks };
}

function unended(group: Group): Malformed {
  const found = "none; a code fence or a comment that is not closed may hide it";
  return new Malformed(group.from, 'a "<!-- turns:end -->" behind the block that begins here', found);
}

function sectionsOf(text: TextLines, groups: readonly Group[]): Map<string, Section> {
  const sections = new Map<string, Section>();
  for (const group of groups.filter(({ word }) => word === "phase")) {
    const id = idOf(group);
    if (sections.has(id)) throw new Malformed(group.from, "one section for each phase", `another for ${describe(id)}`);
    const heading = only(group.blocks.filter(isA("heading")).slice(0, 1), group.from, "a heading with the name of the phase");
    if (heading.level !== 2 || heading.to - heading.from !== 1) {
      throw new Malformed(heading.from, 'a heading with the name of the phase, "## …"', "a heading of another kind");
    }
    const quotes = group.blocks.filter(isA("quote"));
    if (quotes.length > 1) {
      throw new Malformed(
        quotes[1]?.from ?? 0,
        "one quote with the notes of the phase",
        "another; move it behind the block's end",
      );
    }
    const quote = quotes[0] && withoutBlankEnd(text, quotes[0]);
    const notes = quote === undefined ? "" : fromQuote(text.lines.slice(quote.from, quote.to));
    const { from, to } = group;
    sections.set(id, { id, from, to, heading, name: fromInline(heading.text), quote, notes });
  }
  return sections;
}

/** The parser extends a quote that ends in an empty quoted line by the empty lines after it. */
function withoutBlankEnd(text: TextLines, { from, to }: LineRange): LineRange {
  let end = to;
  while (end > from && text.lines[end - 1]?.trim() === "") end -= 1;
  return { from, to: end };
}

function idOf(group: Group): string {
  try {
    const id: unknown = JSON.parse(group.argument);
    if (typeof id === "string") return id;
  } catch {
    // Invalid JSON is reported below.
  }
  throw new Malformed(group.from, 'the id of a phase in quotes, <!-- turns:phase "…" -->', describe(group.argument));
}

function isA<K extends Block["kind"]>(kind: K): (block: Block) => block is Part<K> {
  return (block): block is Part<K> => block.kind === kind;
}

function only<T extends LineRange>(found: readonly T[], from: number, expected: string): T {
  const [first, second] = found;
  if (first === undefined) throw new Malformed(from, `${expected} in the block that begins here`, "none");
  if (second !== undefined) throw new Malformed(second.from, expected, "another one");
  return first;
}

/** @param lineOf the line of the field at a path */
function validated(progress: Progress, lineOf: (path: readonly PropertyKey[]) => number): Progress {
  const result = progressSchema.safeParse(progress);
  if (result.success) return result.data;
  const issue = result.error.issues[0];
  const path = issue?.path ?? [];
  const what = issue === undefined ? "a valid progress" : `${path.join(".")} ${expectationOf(issue)}`;
  throw new Malformed(lineOf(path), what, "something else");
}
