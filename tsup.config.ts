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
  // Entries share chunks in ESM (tsup's default); in CommonJS each carries its own copy, so errors are told apart by their code
  // (TurnsError.is), not by their class.
  treeshake: false,
  shims: false,
  removeNodeProtocol: false,
  external: [/^@langchain\//, /^@opentelemetry\//, /^better-sqlite3($|\/)/, /^markdown-it($|\/)/, /^zod($|\/)/],
});
