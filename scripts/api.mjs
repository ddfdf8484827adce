/**
 * Writes the public face of each entry to `etc/<entry>.api.md`: what it exports, and what the signatures of that need. A change of it shows in
 * a review. `--check` writes nothing, and fails if a report isn't what the code says.
 */
import { existsSync, mkdirSync, readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import ts from "typescript";
import { declarations, ROOT } from "./declarations.mjs";

const check = process.argv.includes("--check");
const reports = join(ROOT, "etc");
const { name: packageName } = JSON.parse(readFileSync(join(ROOT, "package.json"), "utf8"));
const printer = ts.createPrinter({ removeComments: true });
const { entries, needs } = declarations();

const root = entries.find(({ name }) => name === "index").exports.flatMap(({ statements }) => statements);
const inRoot = new Set([...root, ...neededBy(new Set(root))]);
const stale = entries.filter(({ name, exports }) => {
  const file = join(reports, `${name}.api.md`);
  const text = report(name, exports);
  if (existsSync(file) && readFileSync(file, "utf8") === text) return false;
  mkdirSync(reports, { recursive: true });
  if (!check) writeFileSync(file, text);
  return true;
});
for (const { name } of stale) console.log(`etc/${name}.api.md ${check ? "isn't what the code says" : "written"}`);
if (check && stale.length > 0) {
  console.error("The public face has changed. Run `npm run api`, and look at the difference.");
  process.exitCode = 1;
}

function report(entry, exports) {
  const named = new Set(exports.flatMap(({ statements }) => statements));
  // What the root's report has isn't repeated in the others.
  const needed = neededBy(named).filter((statement) => entry === "index" || !inRoot.has(statement));
  const sections = [
    ["Values", exports.filter(({ isValue }) => isValue).flatMap(({ statements }) => statements)],
    ["Types", exports.filter(({ isValue }) => !isValue).flatMap(({ statements }) => statements)],
    ["What their signatures need", needed],
  ];
  const counts = `${exports.filter(({ isValue }) => isValue).length} values, ${exports.filter(({ isValue }) => !isValue).length} types`;
  const parts = sections
    .filter(([, statements]) => statements.length > 0)
    .map(([title, statements]) => `## ${title}\n\n\`\`\`ts\n${unique(statements).map(printed).join("\n\n")}\n\`\`\`\n`);
  const title = entry === "index" ? packageName : `${packageName}/${entry}`;
  return `# ${title}\n\nWritten by \`npm run api\`. ${counts}.\n\n${parts.join("\n")}`;
}

function neededBy(named) {
  const found = new Set(named);
  for (const statement of found) for (const other of needs.get(statement) ?? []) found.add(other);
  const rest = [...found].filter((statement) => !named.has(statement));
  return rest.sort((left, right) => (nameOf(left) < nameOf(right) ? -1 : 1));
}

function unique(statements) {
  return [...new Set(statements)];
}

function nameOf(statement) {
  return statement.name?.text ?? statement.getText();
}

function printed(statement) {
  return printer.printNode(ts.EmitHint.Unspecified, statement, statement.getSourceFile());
}
