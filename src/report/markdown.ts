import MarkdownIt from "markdown-it";
import { TurnsError } from "../errors";

/** Lines `from` up to, not including, `to`; counted from 0. */
export interface LineRange {
  from: number;
  to: number;
}

/** A block at the top level of a Markdown text. Content of code, quotes, lists or HTML isn't at the top level. */
export type Block = LineRange &
  (
    | { kind: "marker"; word: string; argument: string }
    | { kind: "heading"; level: number; text: string }
    | { kind: "table"; rows: readonly TableRow[] }
    | { kind: "quote" }
    | { kind: "other" }
  );

export interface TableRow {
  line: number;
  cells: readonly string[];
}

type Token = ReturnType<MarkdownIt["parse"]>[number];

const MARKER_BEGINS = "<!-- turns:";
const MARKER_ENDS = "-->";

/** Parses blocks only; {@link fromInline} reads the content of a line. HTML has to be on, or comments would be paragraphs. */
const parser = new MarkdownIt({ html: true });
parser.core.ruler.enableOnly(["normalize", "block"]);

/** A comment that marks our own parts: a word, and what it is about. */
export function marker(word: string, argument = ""): string {
  return `${MARKER_BEGINS}${word}${argument === "" ? "" : ` ${argument}`} ${MARKER_ENDS}`;
}

export function blocksOf(text: string): Block[] {
  const tokens = parser.parse(text, {});
  const blocks: Block[] = [];
  for (let index = 0; index < tokens.length; index += 1) {
    const token = tokens[index] as Token;
    if (token.level !== 0 || token.nesting === -1 || token.map === null) continue;
    blocks.push(blockOf(token, tokens, index));
  }
  return blocks;
}

function blockOf(token: Token, tokens: readonly Token[], index: number): Block {
  const [from, to] = token.map as [number, number];
  if (token.type === "html_block") return { from, to, ...markerOf(token.content) };
  if (token.type === "blockquote_open") return { from, to, kind: "quote" };
  if (token.type === "table_open") return { from, to, kind: "table", rows: rowsOf(tokens, index) };
  // An underlined heading spans lines. Ours never are; a person's only has to be recognised as one.
  if (token.type === "heading_open") {
    const text = tokens[index + 1]?.content ?? "";
    return { from, to, kind: "heading", level: Number(token.tag.slice(1)), text };
  }
  return { from, to, kind: "other" };
}

function markerOf(html: string): { kind: "marker"; word: string; argument: string } | { kind: "other" } {
  const line = html.trim();
  if (!line.startsWith(MARKER_BEGINS) || !line.endsWith(MARKER_ENDS) || line.includes("\n")) return { kind: "other" };
  const inside = line.slice(MARKER_BEGINS.length, -MARKER_ENDS.length).trim();
  const cut = inside.indexOf(" ");
  if (cut === -1) return { kind: "marker", word: inside, argument: "" };
  return { kind: "marker", word: inside.slice(0, cut), argument: inside.slice(cut + 1).trim() };
}

function rowsOf(tokens: readonly Token[], open: number): TableRow[] {
  const rows: { line: number; cells: string[] }[] = [];
  for (let index = open + 1; tokens[index]?.type !== "table_close" && index < tokens.length; index += 1) {
    const token = tokens[index] as Token;
    if (token.type === "tr_open") rows.push({ line: token.map?.[0] ?? 0, cells: [] });
    if (token.type === "inline") rows.at(-1)?.cells.push(token.content);
  }
  return rows;
}

/**
 * Any string as Markdown that shows it and can be read exactly. Two notations are read: a backslash before punctuation, and a
 * decimal character reference such as `&#10;`. Both are Markdown's own, so a page shows the string itself.
 */

/**
 * Invisible characters, or ones that a file, an editor or a Markdown parser doesn't keep: control characters, line separators,
 * lone surrogates.
 */
const UNSEEN = /[\p{Cc}\p{Zl}\p{Zp}\p{Surrogate}\ufeff]/gu;
const UNSEEN_BUT_LAYOUT = /(?![\t\n])[\p{Cc}\p{Zl}\p{Zp}\p{Surrogate}\ufeff]/gu;
const ESCAPED = /\\([!-/:-@[-`{-~])|&#(\d{1,5});/g;
const REFERENCE = /&#(\d{1,5});/g;
const LARGEST = 0xffff;

/** A string as one line of inline Markdown for a heading or a table cell. Inverse of {@link fromInline}. */
export function toInline(text: string): string {
  return text
    .replace(/[\\`*[\]<~$]|&(?=[#a-z])|(?<![a-z0-9])_|_(?![a-z0-9])|#$/gi, "\\$&")
    .replaceAll("|", reference)
    .replace(UNSEEN, reference)
    .replace(/^\s|\s$/g, reference);
}

/** The text of a line of inline Markdown, read by the two notations. Other Markdown in it is taken literally. */
export function fromInline(line: string): string {
  return line.replace(ESCAPED, (found, punctuation: string | undefined, code: string | undefined) =>
    punctuation === undefined ? characterOf(found, code) : punctuation,
  );
}

/**
 * Any Markdown as the lines of a quote. Only characters that a line can't hold are written differently. Inverse of
 * {@link fromQuote}.
 */
export function toQuote(markdown: string): string[] {
  return markdown
    .replace(REFERENCE, (found) => `&#38;${found.slice(1)}`)
    .replace(UNSEEN_BUT_LAYOUT, reference)
    .split("\n")
    .map((line) => (line === "" ? ">" : `> ${line}`));
}

/** A line without its `>` continues the paragraph above it, as in Markdown. */
export function fromQuote(lines: readonly string[]): string {
  return lines
    .map((line) => line.replace(/^ {0,3}> ?/, ""))
    .join("\n")
    .replace(REFERENCE, characterOf);
}

function reference(character: string): string {
  return `&#${character.charCodeAt(0)};`;
}

function characterOf(found: string, code: string | undefined): string {
  return Number(code) <= LARGEST ? String.fromCharCode(Number(code)) : found;
}

/** A text as lines with their own line ends, so that other people's text is written unchanged, byte by byte. */
export interface TextLines {
  /** The byte order mark that some editors write first. */
  mark: string;
  /** Without their line ends; counted as Markdown counts them. */
  lines: readonly string[];
  /** The end of each line; empty for the last one if the text doesn't end with one. */
  ends: readonly string[];
  /** The line end of our own lines. */
  end: string;
}

const MARK = "\ufeff";

export function linesOf(text: string): TextLines {
  const mark = text.startsWith(MARK) ? MARK : "";
  const parts = text.slice(mark.length).split(/(\r\n?|\n)/);
  const lines = parts.filter((_, index) => index % 2 === 0);
  const ends = parts.filter((_, index) => index % 2 === 1);
  if (lines.at(-1) === "") lines.pop();
  else ends.push("");
  return { mark, lines, ends, end: ends[0] === "\r\n" ? "\r\n" : "\n" };
}

/** Replaces the lines `from` up to `to` by others. */
export interface LineEdit {
  from: number;
  to: number;
  insert: readonly string[];
}

/** @param edits must not overlap; of several at one place, the first comes first */
export function edited(text: TextLines, edits: readonly LineEdit[]): string {
  const { mark, lines, ends, end } = text;
  const out: string[] = [mark];
  let at = 0;
  const copy = (to: number): void => {
    for (; at < to; at += 1) out.push(lines[at] ?? "", ends[at] ?? "");
  };
  for (const { from, to, insert } of [...edits].sort((left, right) => left.from - right.from)) {
    copy(from);
    // After a last line without a line end.
    if (insert.length > 0 && from > 0 && ends[from - 1] === "") out.push(end);
    for (const line of insert) out.push(line, end);
    at = Math.max(at, to);
  }
  copy(lines.length);
  return out.join("");
}

/**
 * Why and where a text isn't a valid progress file. The parser's parts throw it; the parser, which knows the file's name, catches
 * it.
 */
export class Malformed extends Error {
  /** @param at the line's index, from 0 */
  constructor(
    readonly at: number,
    readonly expected: string,
    readonly found: string,
  ) {
    super(`line ${at + 1}: expected ${expected}; found ${found}`);
  }
}

export const malformedFile = (name: string, { at, expected, found }: Malformed): TurnsError =>
  new TurnsError("CHECKPOINT_FILE_MALFORMED", {
    problem: `Line ${at + 1} of ${name} can't be read: it should have ${expected}, and has ${found}.`,
    remedy: "Correct the line, or move the file away to have a new one written; it was not changed.",
    data: { file: name, line: at + 1 },
  });
