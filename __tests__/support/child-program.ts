import { mkdirSync, mkdtempSync, rmSync } from "node:fs";
import { basename, join } from "node:path";
import { buildSync } from "esbuild";

const ROOT = join(__dirname, "..", "..");
const OPTIONS = process.env["TURNS_TEST_NODE_OPTIONS"];

/** The environment of a child: without the options that jest was started with, but with those of the lane. */
export const CHILD_ENV = { ...process.env, NODE_OPTIONS: OPTIONS ?? "" };

let folder: string | undefined;
const compiled = new Map<string, string>();

/**
 * What Node is given to run a program. The first call compiles it into one file, so each process takes a third of the time that `tsx` needs:
 * `spawn(process.execPath, [...childProgram(join(__dirname, "x-child.ts")), path], { env: CHILD_ENV })`.
 *
 * @param source the path of the program
 */
export function childProgram(source: string): string[] {
  // There the package and the tests get different drivers, told apart by the file that asks.
  if (OPTIONS !== undefined) return ["--import", "tsx", source];
  const known = compiled.get(source);
  if (known !== undefined) return [known];
  // Inside the repository, where the program finds its dependencies.
  folder ??= newFolder();
  const outfile = join(folder, `${basename(source, ".ts")}.mjs`);
  buildSync({
    entryPoints: [source],
    outfile,
    bundle: true,
    format: "esm",
    platform: "node",
    target: "node20",
    // One file with LangGraph in it starts in a third of the time. What is external has a binary, or may be missing.
    external: ["better-sqlite3", "pg", "@opentelemetry/api"],
    banner: { js: 'import { createRequire as requireFrom } from "node:module"; const require = requireFrom(import.meta.url);' },
    alias: {
      "langgraph-checkpoint-turns": join(ROOT, "src", "index.ts"),
      "langgraph-checkpoint-turns/checkpoint-file": join(ROOT, "src", "report", "index.ts"),
      "langgraph-checkpoint-turns/import": join(ROOT, "src", "import", "index.ts"),
      "langgraph-checkpoint-turns/maintenance": join(ROOT, "src", "maintenance", "index.ts"),
    },
    keepNames: true,
    logOverride: { "empty-import-meta": "silent" },
    absWorkingDir: ROOT,
  });
  compiled.set(source, outfile);
  return [outfile];
}

function newFolder(): string {
  mkdirSync(join(ROOT, ".tmp"), { recursive: true });
  return mkdtempSync(join(ROOT, ".tmp", "children-"));
}

afterAll(() => {
  if (folder !== undefined) rmSync(folder, { recursive: true, force: true });
});
