/** A text as lines with their own ends, so that what is not ours can be written back letter by letter. */
export interface TextLines {
  /** What some editors put in front of everything. */
  mark: string;
  /** Without their ends; counted as Markdown counts them. */
  lines: readonly string[];
  /** The end of each line; empty for the last one if the text does not end with one. */
  ends: readonly string[];
  /** How our own lines end. */
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

/** Takes the lines `from` up to `to` out and puts others in. */
export interface LineEdit {
  from: number;
  to: number;
  insert: readonly string[];
}

/** @param edits that do not overlap; of those at one place the first comes first */
export function edited(text: TextLines, edits: readonly LineEdit[]): string {
  const { mark, lines, ends, end } = text;
  const out: string[] = [mark];
  let at = 0;
  const copy = (to: number): void => {
    for (; at < to; at += 1) out.push(lines[at] ?? "", ends[at] ?? "");
  };
  for (const { from, to, insert } of [...edits].sort((left, right) => left.from - right.from)) {
    copy(from);
    // Behind a last line that has no end of its own.
    if (insert.length > 0 && from > 0 && ends[from - 1] === "") out.push(end);
    for (const line of insert) out.push(line, end);
    at = Math.max(at, to);
  }
  copy(lines.length);
  return out.join("");
}
