import { readdirSync, readFileSync } from "node:fs";
import path from "node:path";
import ts from "typescript";

/** House style, the part that a machine can hold: words that make prose read like a translation, and what to write instead. */
const INSTEAD: readonly [RegExp, string][] = [
  [/\bdeeds?\b/i, "side effect"],
  [/\b(go|goes|going|went|gone) on\b/i, "continue, resume, or keep doing"],
  [/\banew\b/i, "again, or from scratch"],
  [/\bat work\b/i, "running"],
  [/\b(come|comes|coming|came) back\b/i, "is read, is restored, returns"],
  [/\bhow-manieth\b/i, "its position"],
  [/\bwholly\b/i, "fully, or all"],
  [/\bended\b/i, "finished, completed, or stopped"],
  [/\b(whoever|whosoever|whatever|whichever)\b/i, "name it, or: any, no matter which"],
  [/\bof which\b/i, "split the sentence"],
  [/\bfound what is none\b|\bwhat is none\b/i, "say what it is"],
  [/\b(lest|as ever|hence|thereof|whereby|wherein|nought)\b/i, "plain words"],
];

const root = path.resolve(__dirname, "..", "..");
const read = (file: string): string => readFileSync(path.join(root, file), "utf8");
const filesIn = (folder: string, end: string): string[] =>
  readdirSync(path.join(root, folder), { recursive: true, encoding: "utf8" })
    .filter((name) => name.endsWith(end))
    .map((name) => path.join(folder, name));

/** `line: text` of each sentence of a text with a word that isn't ours. Code is left out. */
function wrongWords(text: string, offset = 0): string[] {
  const prose = text
    .replaceAll(/```[\s\S]*?```/g, (code) => code.replaceAll(/[^\n]/g, " "))
    .replaceAll(/`[^`\n]*`|\{@link[^}]*\}/g, "");
  return prose
    .split("\n")
    .flatMap((line, at) =>
      INSTEAD.filter(([word]) => word.test(line)).map(
        ([word, instead]) => `${offset + at + 1}: ${word.exec(line)?.[0]} (${instead})`,
      ),
    );
}

/** The comments and texts of a program: what readers and users read of it. Names are code. */
function proseOf(file: string): { line: number; text: string }[] {
  const source = ts.createSourceFile(file, read(file), ts.ScriptTarget.Latest, true);
  const found: { line: number; text: string }[] = [];
  const add = (from: number, to: number): void => {
    const text = source.text.slice(from, to);
    if (/\s/.test(text)) found.push({ line: source.getLineAndCharacterOfPosition(from).line, text });
  };
  const seen = new Set<number>();
  const visit = (node: ts.Node): void => {
    for (const { pos, end } of ts.getLeadingCommentRanges(source.text, node.getFullStart()) ?? [])
      if (!seen.has(pos)) {
        seen.add(pos);
        add(pos, end);
      }
    if (ts.isStringLiteralLike(node) || ts.isTemplateHead(node) || ts.isTemplateMiddleOrTemplateTail(node))
      add(node.getStart(), node.end);
    node.forEachChild(visit);
  };
  visit(source);
  return found;
}

const wrongIn = (file: string): string[] =>
  (file.endsWith(".ts") ? proseOf(file) : [{ line: 0, text: read(file) }]).flatMap(({ line, text }) => wrongWords(text, line));

const pages = [
  ...["README.md", "CONTRIBUTING.md", "SECURITY.md", "CHANGELOG.md", "examples/README.md", "bench/RESULTS.md"],
  ...filesIn("docs", ".md"),
  ...filesIn("torture/results", ".md"),
];
const sources = ["src", "examples", "bench", "torture"].flatMap((folder) =>
  filesIn(folder, ".ts").filter((file) => !file.endsWith(".generated.ts")),
);

describe("words", () => {
  test("the style page's own example is found, code and names are not", () => {
    expect(wrongWords("A run goes on.\n`anew`, {@link deed}\n```\nwhoever\n```\nwe start anew")).toEqual([
      "1: goes on (continue, resume, or keep doing)",
      "6: anew (again, or from scratch)",
    ]);
  });

  test.each(pages)("%s is in plain English", (file) => {
    expect(wrongIn(file)).toEqual([]);
  });

  test.each(sources)("comments and messages of %s are in plain English", (file) => {
    expect(wrongIn(file)).toEqual([]);
  });

  test("titles of tests are in plain English", () => {
    const titles = filesIn("__tests__", ".test.ts").flatMap((file) =>
      [...read(file).matchAll(/^\s*(?:test|it|describe)(?:\.\w+)*(?:\([^\n]*?\))?\(\s*(["`])((?:(?!\1).)*)\1/gm)].flatMap(
        ([, , title = ""]) => wrongWords(title.replaceAll("`", "")).map((found) => `${file}: ${title}: ${found}`),
      ),
    );
    expect(titles).toEqual([]);
  });
});
