import { defineConfig } from "tsup";

export default defineConfig({
  // One line per public subpath; each needs its twin under "exports" in package.json.
  entry: {
    index: "src/index.ts",
  },
  format: ["esm", "cjs"],
  target: "node20",
  platform: "node",
  dts: true,
  sourcemap: true,
  clean: true,
  // Shared chunks, in CommonJS too: a class must be the same class behind every subpath.
  splitting: true,
  treeshake: false,
  shims: false,
  removeNodeProtocol: false,
  external: [/^@langchain\//, /^better-sqlite3($|\/)/, /^zod($|\/)/],
});
