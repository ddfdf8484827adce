/**
 * Joins the chunks that importing the root loads into one. Each file costs about half a millisecond to load, and esbuild makes one
 * for each set of entries that share it. Then it shortens the names of variables and functions, which makes the package a fifth
 * smaller. Classes keep theirs, which errors show; a stack trace leads to the rest through the maps. What users import is plain ASCII:
 * a single other character makes V8 keep the whole file in two bytes a character, and Node takes twice as long to decode it.
 */
import { readdir, readFile, rm, writeFile } from "node:fs/promises";
import { basename, join, resolve } from "node:path";
import { fileURLToPath } from "node:url";
import commonjs from "@rollup/plugin-commonjs";
import { nodeResolve } from "@rollup/plugin-node-resolve";
import { rollup } from "rollup";
import { minify } from "terser";

/** Another folder than `dist/` may be given. */
const DIST =
  process.argv[2] === undefined ? fileURLToPath(new URL("../dist/", import.meta.url)) : join(resolve(process.argv[2]), "/");
const ROOT = join(DIST, "index.js");

const files = (await readdir(DIST)).filter((file) => file.endsWith(".js"));
/** Programs that nobody imports: no stack trace of them leads a user to a name. */
const isProgram = (name) => /^(?:cli$|program-)/.test(name);
const isChunk = (file) => file.startsWith("chunk-");

const bundle = await rollup({
  input: Object.fromEntries(files.filter((file) => !isChunk(file)).map((file) => [basename(file, ".js"), join(DIST, file)])),
  external: (id, importer = "") => {
    const isCommander =
      id === "commander" || /node_modules[\\/]commander[\\/]/.test(id) || /node_modules[\\/]commander[\\/]/.test(importer);
    return id.startsWith("node:") || (!isCommander && !id.startsWith(".") && !id.startsWith(DIST));
  },
  plugins: [
    {
      name: "with-maps",
      load: async (id) =>
        id.startsWith(DIST) ? { code: await readFile(id, "utf8"), map: await readFile(`${id}.map`, "utf8") } : undefined,
    },
    // Commander alone.
    nodeResolve({ exportConditions: ["node", "require"] }),
    commonjs(),
  ],
});

/** What the root imports, directly or not, without what it imports when asked. */
function loadedWithRoot(id, { getModuleInfo }, seen = new Set()) {
  if (seen.has(id)) return seen;
  seen.add(id);
  for (const imported of getModuleInfo(id).importedIds)
    if (imported.startsWith(DIST)) loadedWithRoot(imported, { getModuleInfo }, seen);
  return seen;
}

let shared;
await Promise.all((await readdir(DIST)).filter((file) => /\.js(\.map)?$/.test(file)).map((file) => rm(join(DIST, file))));
const keepsNames = { keep_classnames: true };
const shorterLocals = {
  name: "shorter-locals",
  // Node prints the line that threw before the message of an error that nobody catches. The program catches what its commands throw.
  renderChunk: (code, { name }) => {
    const isRunOnly = isProgram(name);
    const names = isRunOnly ? {} : keepsNames;
    return minify(code, {
      module: true,
      ecma: 2020,
      compress: isRunOnly ? { passes: 3 } : { passes: 3, inline: false, reduce_funcs: false, ...names },
      // These are commander's own.
      mangle: { toplevel: true, ...names, ...(isRunOnly && { properties: { regex: /^_[a-z]/ } }) },
      ...names,
      sourceMap: true,
      format: { max_line_len: isRunOnly ? 4_000 : 400, ascii_only: !isRunOnly },
    });
  },
};

await bundle.write({
  dir: DIST,
  plugins: [shorterLocals],
  format: "es",
  compact: true,
  sourcemap: true,
  hoistTransitiveImports: false,
  entryFileNames: "[name].js",
  chunkFileNames: "chunk-[hash].js",
  manualChunks: (id, parts) => {
    shared ??= loadedWithRoot(ROOT, parts);
    return id !== ROOT && shared.has(id) ? "shared" : undefined;
  },
});
await bundle.close();
for (const name of (await readdir(DIST)).filter((one) => one.endsWith(".js") && isProgram(basename(one, ".js")))) {
  const file = join(DIST, name);
  await writeFile(file, (await readFile(file, "utf8")).replace(/\/\/# sourceMappingURL=.*\n?/, ""));
  await rm(`${file}.map`);
}
