import { readdirSync, readFileSync } from "node:fs";
import path from "node:path";
import ts from "typescript";

/**
 * By the name of each test file in a folder and below it, what jest calls each test in it: the titles of the `describe`s around it and its own, with a space between. Rows of
 * `.each` stay unfilled (`… %s`); of a template, `…` stands for what is put in. Skipped tests prove nothing and are left out.
 *
 * @param isShort without the tests of the long lane alone
 * @throws if two files have the same name: citations name a file without its folder
 */
export function testTitles(folder: string, isShort = false): Map<string, string[]> {
  const titles = new Map<string, string[]>();
  for (const file of readdirSync(folder, { recursive: true, encoding: "utf8" })) {
    if (!file.endsWith(".test.ts")) continue;
    const name = path.basename(file);
    if (titles.has(name)) throw new Error(`two test files are called ${name}: rename ${file}`);
    titles.set(name, titlesOf(name, readFileSync(path.join(folder, file), "utf8"), isShort));
  }
  return titles;
}

function titlesOf(name: string, source: string, isShort: boolean): string[] {
  const titles: string[] = [];
  const visit = (node: ts.Node, around: readonly string[]): void => {
    const kind = ts.isCallExpression(node) ? kindOf(node.expression, isShort) : undefined;
    const title = kind === undefined ? undefined : textOf((node as ts.CallExpression).arguments[0]);
    if (title === undefined) return ts.forEachChild(node, (child) => visit(child, around));
    if (kind === "test" || kind === "it") titles.push([...around, title].join(" "));
    if (kind === "describe") ts.forEachChild(node, (child) => visit(child, [...around, title]));
  };
  visit(ts.createSourceFile(name, source, ts.ScriptTarget.Latest, true), []);
  return titles;
}

/** Each is a `test`. */
const TESTS: readonly string[] = ["testOfFiles", "laneTest", "laneTestOfFiles"];
/** Each is a `test` of the long lane alone. */
const LONG_TESTS: readonly string[] = ["longTest", "longTestOfFiles"];

/** `test` (one of {@link TESTS} and {@link LONG_TESTS} too), `it` or `describe`, also where `.each(rows)` made it or it is `.concurrent`; of anything else (`test.skip`) no such name. */
function kindOf(callee: ts.Expression, isShort: boolean): string | undefined {
  if (ts.isIdentifier(callee))
    return TESTS.includes(callee.text) || (!isShort && LONG_TESTS.includes(callee.text)) ? "test" : callee.text;
  if (ts.isPropertyAccessExpression(callee) && callee.name.text === "concurrent") return kindOf(callee.expression, isShort);
  const made = ts.isCallExpression(callee) ? callee.expression : ts.isTaggedTemplateExpression(callee) ? callee.tag : undefined;
  if (made === undefined || !ts.isPropertyAccessExpression(made) || made.name.text !== "each") return undefined;
  return kindOf(made.expression, isShort);
}

function textOf(title: ts.Expression | undefined): string | undefined {
  if (title === undefined) return undefined;
  if (ts.isStringLiteralLike(title)) return title.text;
  if (!ts.isTemplateExpression(title)) return undefined;
  return [title.head.text, ...title.templateSpans.map(({ literal }) => literal.text)].join("…");
}
