/**
 * Any string as Markdown that shows it and gives it back. Two notations are read: a backslash before punctuation, and a decimal
 * character reference such as `&#10;`; both are Markdown's own, so that what a page shows is the string.
 */

/** Not visible, or not kept by a file, an editor or a Markdown parser: control characters, line separators, halves of surrogate pairs. */
const UNSEEN = /[\p{Cc}\p{Zl}\p{Zp}\p{Surrogate}\ufeff]/gu;
const UNSEEN_BUT_LAYOUT = /(?![\t\n])[\p{Cc}\p{Zl}\p{Zp}\p{Surrogate}\ufeff]/gu;
const ESCAPED = /\\([!-/:-@[-`{-~])|&#(\d{1,5});/g;
const REFERENCE = /&#(\d{1,5});/g;
const LARGEST = 0xffff;

/** A string as one line of inline Markdown that stands in a heading or a table cell. Inverse of {@link fromInline}. */
export function toInline(text: string): string {
  return text
    .replace(/[\\`*[\]<~$]|&(?=[#a-z])|(?<![a-z0-9])_|_(?![a-z0-9])|#$/gi, "\\$&")
    .replaceAll("|", reference)
    .replace(UNSEEN, reference)
    .replace(/^\s|\s$/g, reference);
}

/** What a line of inline Markdown says, by the two notations; other Markdown in it is taken literally. */
export function fromInline(line: string): string {
  return line.replace(ESCAPED, (found, punctuation: string | undefined, code: string | undefined) =>
    punctuation === undefined ? characterOf(found, code) : punctuation,
  );
}

/** Markdown of any kind as the lines of a quote. Only what no line can hold is written differently. Inverse of {@link fromQuote}. */
export function toQuote(markdown: string): string[] {
  return markdown
    .replace(REFERENCE, (found) => `&#38;${found.slice(1)}`)
    .replace(UNSEEN_BUT_LAYOUT, reference)
    .split("\n")
    .map((line) => (line === "" ? ">" : `> ${line}`));
}

/** A line without its `>` continues the paragraph above it, as Markdown has it. */
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
