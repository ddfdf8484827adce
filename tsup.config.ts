import { readFileSync } from "node:fs";
import { defineConfig } from "tsup";

/** One line per public entry; each needs its twin under "exports" in package.json. */
const entries = {
  index: "src/index.ts",
  "checkpoint-file": "src/report/index.ts",
  import: "src/import/index.ts",
  maintenance: "src/maintenance/index.ts",
  postgres: "src/postgres/index.ts",
  testing: "src/testing/index.ts",
  transactions: "src/transactions/index.ts",
};

const { version } = JSON.parse(readFileSync("package.json", "utf8")) as { version: string };

export default defineConfig({
  // These two aren't entries: /testing starts one as a program, and the other is the program `turns`.
  entry: { ...entries, "testing-child": "src/testing/child.ts", cli: "src/cli/index.ts" },
  define: { TURNS_VERSION: JSON.stringify(version) },
  // scripts/commonjs.mjs makes the CommonJS twins.
  format: "esm",
  target: "node20",
  platform: "node",
  // scripts/types.mjs makes the declarations.
  dts: false,
  sourcemap: true,
  clean: true,
  treeshake: false,
  shims: false,
  removeNodeProtocol: false,
  esbuildOptions(options) {
    // Maps lead a stack trace to file and line. They are made beside the package, not published.
    options.sourcesContent = false;
    // Names stay readable in stack traces.
    options.minifyWhitespace = true;
    options.minifySyntax = true;
    // Node prints the line that threw.
    options.lineLimit = 240;
  },
  // The same module, under the name by which LangGraph has loaded it already.
  noExternal: [/^zod$/],
  esbuildPlugins: [
    {
      name: "zod-as-langgraph-imports-it",
      setup: (build) => {
        build.onResolve({ filter: /^zod$/ }, () => ({ path: "zod/v4", external: true }));
      },
    },
  ],
  external: [
    "langgraph-checkpoint-turns",
    /^@langchain\//,
    /^@opentelemetry\//,
    /^better-sqlite3($|\/)/,
    /^pg$/,
    /^markdown-it($|\/)/,
    // scripts/join-chunks.mjs builds it into the program, as the ES module that it isn't.
    "commander",
  ],
});
