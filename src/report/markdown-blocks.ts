import MarkdownIt from "markdown-it";

/** Lines `from` up to, not including, `to`; counted from 0. */
export interface LineRange {
  from: number;
  to: number;
}

/** A block at the top level of a Markdown text. What stands inside code, quotes, lists or HTML is not at the top level. */
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

/** Blocks only: what stands in a line is read by `inline-text.ts`. HTML has to be on, or comments would be paragraphs. */
const parser = new MarkdownIt({ html: true });
parser.core.ruler.enableOnly(["normalize", "block"]);

/** A comment by which we find our parts again: a word, and what it is about. */
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
  // A heading that is underlined spans lines; ours never is, and a person's only has to be known as one.
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
