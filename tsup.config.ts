import { defineConfig } from "tsup";

export default defineConfig({
  // One line per public subpath; each needs its twin under "exports" in package.json.
  entry: {
    index: "src/index.ts",
    testing: "src/testing/index.ts",
    // Not a subpath but a program, which the one above starts.
    "testing-child": "src/testing/child.ts",
  },
  format: ["esm", "cjs"],
  target: "node20",
  platform: "node",
  dts: { entry: { index: "src/index.ts", testing: "src/testing/index.ts" } },
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
