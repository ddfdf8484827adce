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

/** `line: text` of each phrase that isn't ours, also where it is broken over two lines. Code is left out. */
function wrongWords(text: string, offset = 0): string[] {
  const prose = text
    .replaceAll(/```[\s\S]*?```/g, (code) => code.replaceAll(/[^\n]/g, " "))
    .replaceAll(/`[^`\n]*`|\{@link[^}]*\}/g, "")
    // What a line of a comment or of a quotation begins with.
    .replaceAll(/[ \t]*\n[ \t]*(?:\/\/|--|\*|>)?[ \t]*/g, "\n");
  return INSTEAD.flatMap(([word, instead]) =>
    [...prose.matchAll(new RegExp(word.source.replaceAll(" ", "\\s"), "gi"))].map(({ 0: phrase, index }) => ({
      line: offset + prose.slice(0, index).split("\n").length,
      told: `${phrase.replaceAll("\n", " ")} (${instead})`,
    })),
  )
    .toSorted((left, right) => left.line - right.line)
    .map(({ line, told }) => `${line}: ${told}`);
}

/** The comments and texts of a program: what readers and users read of it. Names are code. */
function proseOf(file: string, text = read(file)): { line: number; text: string }[] {
  const source = ts.createSourceFile(file, text, ts.ScriptTarget.Latest, true);
  const found: { line: number; text: string }[] = [];
  const add = (from: number, prose: string): void => {
    if (/\s/.test(prose)) found.push({ line: source.getLineAndCharacterOfPosition(from).line, text: prose });
  };
  const seen = new Set<number>();
  const visit = (node: ts.Node): void => {
    // Line comments under each other are one text.
    const comments: { pos: number; end: number }[] = [];
    for (const { pos, end } of ts.getLeadingCommentRanges(source.text, node.getFullStart()) ?? []) {
      const last = comments.at(-1);
      if (last !== undefined && /^\n[ \t]*$/.test(source.text.slice(last.end, pos))) last.end = end;
      else comments.push({ pos, end });
    }
    for (const { pos, end } of comments)
      if (!seen.has(pos)) {
        seen.add(pos);
        add(pos, source.text.slice(pos, end));
      }
    if (ts.isStringLiteralLike(node) || ts.isTemplateHead(node) || ts.isTemplateMiddleOrTemplateTail(node))
      add(node.getStart(), node.getText());
    if (ts.isBinaryExpression(node) && !ts.isBinaryExpression(node.parent)) add(node.getStart(), joined(node));
    node.forEachChild(visit);
  };
  visit(source);
  return found;
}

/** The text of `"one " + "two"`. What isn't written there is a mark that no phrase has. */
function joined(node: ts.Expression): string {
  if (ts.isStringLiteralLike(node)) return node.text;
  if (ts.isParenthesizedExpression(node)) return joined(node.expression);
  if (!ts.isBinaryExpression(node) || node.operatorToken.kind !== ts.SyntaxKind.PlusToken) return "…";
  return joined(node.left) + joined(node.right);
}

const wrongIn = (file: string): string[] =>
  (file.endsWith(".ts") ? proseOf(file) : [{ line: 0, text: read(file) }]).flatMap(({ line, text }) => wrongWords(text, line));

const pages = [
  ...["README.md", "CONTRIBUTING.md", "SECURITY.md", "CHANGELOG.md", "examples/README.md", "bench/RESULTS.md"],
  ...filesIn("docs", ".md"),
  ...filesIn("torture/results", ".md"),
  ...filesIn("migrations", ".sql"),
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

  test("a phrase that is broken over two lines is found in prose, comments and joined texts", () => {
    expect(wrongWords("A run goes\non. Two paragraphs go\n\non the page\n> they come\n> back")).toEqual([
      "1: goes on (continue, resume, or keep doing)",
      "5: come back (is read, is restored, returns)",
    ]);
    const code = [
      "/**\n * They go\n * on.\n */\nconst a = 1;",
      "// They are at\n// work.\nconst b = 1;",
      'const c = "it came " +\n  "back";',
    ].join("\n");
    const found = proseOf("x.ts", code).flatMap(({ line, text }) => wrongWords(text, line));
    expect(found.map((one) => one.split(" (")[0])).toEqual(["2: go on", "6: at work", "9: came back"]);
  });

  test.each(pages)("%s is in plain English", (file) => {
    expect(wrongIn(file)).toEqual([]);
  });

  test.each(sources)("comments and messages of %s are in plain English", (file) => {
    expect(wrongIn(file)).toEqual([]);
  });

  test("titles of tests are in plain English", () => {
    const titles = filesIn("__tests__", ".test.ts").flatMap((file) =>
      [
        ...read(file).matchAll(
          /^\s*(?:test|it|describe|testOfFiles|(?:lane|long)Test(?:OfFiles)?)(?:\.\w+)*(?:\([^\n]*?\))?\(\s*(["`])((?:(?!\1).)*)\1/gm,
        ),
      ].flatMap(([, , title = ""]) => wrongWords(title.replaceAll("`", "")).map((found) => `${file}: ${title}: ${found}`)),
    );
    expect(titles).toEqual([]);
  });
});
