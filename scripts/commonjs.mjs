/**
 * Makes a CommonJS twin of each built ES module in `dist/` (`.cjs`), and of each declaration file (`.d.cts`). The entries share their
 * chunks in both formats, so a class is the same class in all entries. (esbuild itself splits only ES modules.)
 */
import { readdir, readFile, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { transform } from "esbuild";

const DIST = fileURLToPath(new URL("../dist/", import.meta.url));
/** A relative import of another built file, in either kind of quotes. */
const BUILT_FILE = /(["'])(\.\/[^"']+)\.js\1/g;

/** A built file that is loaded only when it's needed. */
const LATER = /\bimport\((["']\.\/[^"']+\.js["'])\)/g;

const files = await readdir(DIST);
for (const file of files.filter((name) => name.endsWith(".js"))) {
  const { code } = await transform(await readFile(join(DIST, file), "utf8"), {
    format: "cjs",
    target: "node20",
    platform: "node",
    minifyWhitespace: true,
    // src/testing/child-program.ts and src/store/sqlite/own-require.ts have another way in CommonJS.
    logOverride: { "empty-import-meta": "silent" },
  });
  // Whatever else is imported later, such as a user's module, stays an import: it may be an ES module.
  const required = code.replace(LATER, "Promise.resolve().then(()=>require($1))");
  const twin = required.replace(BUILT_FILE, "$1$2.cjs$1").replace(/\/\/# sourceMappingURL=.*/, "");
  await writeFile(join(DIST, file.replace(/\.js$/, ".cjs")), twin);
}
for (const file of files.filter((name) => name.endsWith(".d.ts"))) {
  const text = await readFile(join(DIST, file), "utf8");
  await writeFile(join(DIST, file.replace(/\.d\.ts$/, ".d.cts")), text.replace(BUILT_FILE, "$1$2.cjs$1"));
}
