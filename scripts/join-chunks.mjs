/**
 * Joins the chunks that importing the root loads into one. Each file costs about half a millisecond to load, and esbuild makes one
 * for each set of entries that share it.
 */
import { readdir, readFile, rm } from "node:fs/promises";
import { basename, join } from "node:path";
import { fileURLToPath } from "node:url";
import { rollup } from "rollup";

const DIST = fileURLToPath(new URL("../dist/", import.meta.url));
const ROOT = join(DIST, "index.js");

const files = (await readdir(DIST)).filter((file) => file.endsWith(".js"));
const isChunk = (file) => file.startsWith("chunk-");

const bundle = await rollup({
  input: Object.fromEntries(files.filter((file) => !isChunk(file)).map((file) => [basename(file, ".js"), join(DIST, file)])),
  external: (id) => !id.startsWith(".") && !id.startsWith(DIST),
  treeshake: false,
  plugins: [
    {
      name: "with-maps",
      load: async (id) => ({ code: await readFile(id, "utf8"), map: await readFile(`${id}.map`, "utf8") }),
    },
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
await bundle.write({
  dir: DIST,
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
