/**
 * Writes the declarations of the entries into `dist/`: one file per module in `dist/types/`, under its own name, and one per entry. Each has
 * a twin for CommonJS (`.d.cts`), without comments and indentation: they would be 4 % of the package. The others are indented by tabs,
 * without an asterisk before each line of a comment.
 */
import { mkdirSync, rmSync, writeFileSync } from "node:fs";
import { dirname, join } from "node:path";
import ts from "typescript";
import { declarations, ROOT, textOf } from "./declarations.mjs";

const DIST = join(ROOT, "dist");
const TWINS = { "d.ts": "js", "d.cts": "cjs" };

const printer = ts.createPrinter({ removeComments: true });
const withoutComments = (text) =>
  printer.printFile(ts.createSourceFile("types.d.ts", text, ts.ScriptTarget.Latest)).replace(/^ +/gm, "");
const withTabs = (text) => text.replace(/^(?: {4})+/gm, (spaces) => "\t".repeat(spaces.length / 4));
const withoutAsterisks = (text) =>
  text.replace(/\/\*\*[^]*?\*\//g, (comment) => comment.replace(/\n[ \t]*\*(?!\/) ?/g, "\n").replace(/\n[ \t]*\*\/$/, "\n*/"));

const { entries, modules } = declarations();
rmSync(join(DIST, "types"), { recursive: true, force: true });
for (const [extension, script] of Object.entries(TWINS)) {
  for (const [module, kept] of modules) {
    const file = join(DIST, "types", `${module}.${extension}`);
    mkdirSync(dirname(file), { recursive: true });
    const text = textOf(module, kept, script);
    writeFileSync(file, extension === "d.cts" ? withoutComments(text) : withoutAsterisks(withTabs(text)));
  }
  for (const { name, exports } of entries) {
    const lines = exports.map(({ name: exported, declared, module, isValue }) => {
      const what = exported === declared ? exported : `${declared} as ${exported}`;
      return `export ${isValue ? "" : "type "}{ ${what} } from "./types/${module}.${script}";`;
    });
    writeFileSync(join(DIST, `${name}.${extension}`), `${lines.join("\n")}\n`);
  }
}
console.log(`${modules.size} modules of declarations`);
