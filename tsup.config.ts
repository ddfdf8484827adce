import { defineConfig } from "tsup";

/** One line per public entry; each needs its twin under "exports" in package.json. */
const entries = {
  index: "src/index.ts",
  import: "src/import/index.ts",
  maintenance: "src/maintenance/index.ts",
  testing: "src/testing/index.ts",
};

export default defineConfig({
  // testing-child is no entry but the program that /testing starts.
  entry: { ...entries, "testing-child": "src/testing/child.ts" },
  format: ["esm", "cjs"],
  target: "node20",
  platform: "node",
  dts: { entry: entries },
  sourcemap: true,
  clean: true,
  // Entries share chunks in ESM (tsup's default); in CommonJS each carries its own copy, so errors are told apart by their code
  // (TurnsError.is), not by their class.
  treeshake: false,
  shims: false,
  removeNodeProtocol: false,
  esbuildOptions(options) {
    // src/testing/child-program.ts asks for it where CommonJS has something else.
    options.logOverride = { "empty-import-meta": "silent" };
  },
  external: [
    "langgraph-checkpoint-turns",
    /^@langchain\//,
    /^@opentelemetry\//,
    /^better-sqlite3($|\/)/,
    /^markdown-it($|\/)/,
    /^zod($|\/)/,
  ],
});
