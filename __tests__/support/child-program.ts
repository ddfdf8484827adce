import { createHash } from "node:crypto";
import { existsSync, mkdirSync, readdirSync, renameSync, rmSync, statSync } from "node:fs";
import { join, relative } from "node:path";
import { buildSync } from "esbuild";

const ROOT = join(__dirname, "..", "..");
const OPTIONS = process.env["TURNS_TEST_NODE_OPTIONS"];

/** The environment of a child: without the options that jest was started with, but with those of the lane. */
export const CHILD_ENV = { ...process.env, NODE_OPTIONS: OPTIONS ?? "" };

/** Inside the repository, where the programs find their dependencies. Other lanes and later runs find here what is compiled. */
const COMPILED = join(ROOT, ".tmp", "children");
const DAY_MS = 86_400_000;

let folder: string | undefined;

/**
 * What Node is given to run a program. The first call compiles it into one file, so each process takes a third of the time that `tsx` needs.
 * Until a source changes, that file stays:
 * `spawn(process.execPath, [...childProgram(join(__dirname, "x-child.ts")), path], { env: CHILD_ENV })`.
 *
 * @param source the path of the program
 */
export function childProgram(source: string): string[] {
  // There the package and the tests get different drivers, told apart by the file that asks.
  if (OPTIONS !== undefined) return ["--import", "tsx", source];
  folder ??= folderOfSources();
  const outfile = join(folder, `${relative(ROOT, source).replaceAll(/[/\\]|\.ts$/g, "-")}.mjs`);
  if (existsSync(outfile)) return [outfile];
  const unfinished = `${outfile}-${process.pid}`;
  buildSync({
    entryPoints: [source],
    outfile: unfinished,
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
      "langgraph-checkpoint-turns/transactions": join(ROOT, "src", "transactions", "index.ts"),
    },
    keepNames: true,
    // A third less to compile at each start. The syntax stays: graphs of a child and of a test are compared by their source.
    minifyWhitespace: true,
    logOverride: { "empty-import-meta": "silent" },
    absWorkingDir: ROOT,
  });
  renameSync(unfinished, outfile);
  return [outfile];
}

/** A folder of its own for each state of the sources. Those to which nothing was added for a day are removed. */
function folderOfSources(): string {
  const hash = createHash("sha256");
  const sources = ["__tests__", "src", "torture"].flatMap((part) =>
    readdirSync(join(ROOT, part), { recursive: true, encoding: "utf8" }).map((name) => join(part, name)),
  );
  const programs = sources.filter((name) => name.endsWith(".ts") && !name.endsWith(".test.ts")).sort();
  for (const name of [...programs, "package-lock.json", join("node_modules", ".package-lock.json")]) {
    const { mtimeMs, size } = statSync(join(ROOT, name));
    hash.update(`${name} ${mtimeMs} ${size}\n`);
  }
  mkdirSync(COMPILED, { recursive: true });
  const own = join(COMPILED, hash.digest("hex").slice(0, 16));
  for (const other of readdirSync(COMPILED).map((name) => join(COMPILED, name))) {
    const changed = statSync(other, { throwIfNoEntry: false })?.mtimeMs ?? Infinity;
    if (other !== own && changed < Date.now() - DAY_MS) rmSync(other, { recursive: true, force: true });
  }
  mkdirSync(own, { recursive: true });
  return own;
}
