/**
 * Makes a CommonJS twin of each built ES module in `dist/` (`.cjs`). The entries share their
 * chunks in both formats, so a class is the same class in all entries. (esbuild itself splits only ES modules.)
 */
import { readdir, readFile, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { transform } from "esbuild";
import { minify } from "terser";

const DIST = fileURLToPath(new URL("../dist/", import.meta.url));
/** A relative import of another built file, in either kind of quotes. */
const BUILT_FILE = /(["'])(\.\/[^"']+)\.js\1/g;

/** What a user names, an ES module too, is still imported: `require` takes no URL. All else is what CommonJS can evaluate anywhere. */
const NAMED_BY_USERS = /\bimport\((?!["'`])/g;
const KEPT = "importNamedByUser(";

/**
 * Imports of other built files for nothing but their side effects, of which there are none: bundlers warn of them.
 */
const IMPORTED_FOR_NOTHING = /(?<=^|[;\n])import(["'])\.\/chunk-[^"']+\1(?=\s*;)/g;

/** A program is started, never imported; and so is what it alone loads. */
const PROGRAM = /^(?:cli|program-\w+)\.js/;

const files = (await readdir(DIST)).filter((name) => !PROGRAM.test(name));
for (const file of files.filter((name) => name.endsWith(".js"))) {
  const source = await readFile(join(DIST, file), "utf8");
  // As long as before, so that the maps still hold.
  await writeFile(
    join(DIST, file),
    source.replace(IMPORTED_FOR_NOTHING, (text) => " ".repeat(text.length)),
  );
}
for (const file of files.filter((name) => name.endsWith(".js"))) {
  const source = await readFile(join(DIST, file), "utf8");
  const { code } = await transform(source.replace(NAMED_BY_USERS, KEPT), {
    format: "cjs",
    target: "node20",
    platform: "node",
    minifyWhitespace: true,
    supported: { "dynamic-import": false },
    // src/testing/child-program.ts and src/store/sqlite/own-require.ts have another way in CommonJS.
    logOverride: { "empty-import-meta": "silent" },
  });
  const renamed = code.replace(BUILT_FILE, "$1$2.cjs$1").replaceAll(KEPT, "import(");
  // As in scripts/join-chunks.mjs.
  const names = { keep_fnames: false, keep_classnames: true };
  const { code: twin = "" } = await minify(renamed, {
    ecma: 2020,
    compress: { passes: 3, toplevel: true, ...names },
    mangle: { toplevel: true, ...names },
    format: { max_line_len: 500, ascii_only: true },
  });
  await writeFile(join(DIST, file.replace(/\.js$/, ".cjs")), twin);
}
