import { execFileSync, spawn } from "node:child_process";
import { mkdirSync, mkdtempSync } from "node:fs";
import path from "node:path";
import { buildSync } from "esbuild";
import { builtOnce } from "../support/built-once";

/** Tests and scripts start here. */
const ROOT = process.cwd();

/** Builds the program as `npm run build` does, without what it doesn't need; once in a run of jest. @returns its path */
export function builtProgram(): string {
  const shared = builtOnce("program", buildInto);
  if (shared !== undefined) return path.join(shared, "cli.js");
  mkdirSync(path.join(ROOT, ".tmp"), { recursive: true });
  const folder = mkdtempSync(path.join(ROOT, ".tmp", "cli-"));
  buildInto(folder);
  return path.join(folder, "cli.js");
}

/**
 * The same program with LangGraph in its files, which starts in half of the time: most of a start goes into loading some 600 files.
 * It isn't for `--graph` with a module: that has LangGraph's classes from elsewhere. Nor to measure the program. @returns its path
 */
export function quickProgram(): string {
  const program = builtProgram();
  const shared = builtOnce("quick-program", (folder) => bundleInto(folder, program));
  if (shared !== undefined) return path.join(shared, "cli.mjs");
  const folder = path.join(path.dirname(program), "quick");
  bundleInto(folder, program);
  return path.join(folder, "cli.mjs");
}

function bundleInto(folder: string, program: string): void {
  buildSync({
    entryPoints: [program],
    outdir: folder,
    outExtension: { ".js": ".mjs" },
    bundle: true,
    splitting: true,
    format: "esm",
    platform: "node",
    target: "node20",
    external: ["better-sqlite3", "pg", "@opentelemetry/api"],
    banner: { js: 'import { createRequire as requireFrom } from "node:module"; const require = requireFrom(import.meta.url);' },
    minifyWhitespace: true,
    minifySyntax: true,
    keepNames: true,
    logLevel: "error",
  });
}

function buildInto(folder: string): void {
  const node = (...args: string[]) =>
    execFileSync(process.execPath, args, { cwd: ROOT, stdio: "pipe", env: { ...process.env, NODE_OPTIONS: "" } });
  node(path.join(ROOT, "node_modules", "tsup", "dist", "cli-default.js"), "--out-dir", folder);
  node(path.join(ROOT, "scripts", "join-chunks.mjs"), folder);
}

export interface Told {
  code: number | null;
  stdout: string;
  stderr: string;
}

/** Runs a program until it ends, without a terminal. */
export async function told(
  command: readonly string[],
  { env = {}, input = "", cwd = ROOT }: { env?: NodeJS.ProcessEnv; input?: string; cwd?: string } = {},
): Promise<Told> {
  const clean = {
    ...process.env,
    NODE_OPTIONS: "",
    FORCE_COLOR: undefined,
    NO_COLOR: undefined,
    COLUMNS: undefined,
    DATABASE_URL: undefined,
  };
  const child = spawn(command[0] ?? "", command.slice(1), { cwd, env: { ...clean, ...env } });
  const [stdout, stderr]: [string[], string[]] = [[], []];
  child.stdout.setEncoding("utf8").on("data", (text: string) => void stdout.push(text));
  child.stderr.setEncoding("utf8").on("data", (text: string) => void stderr.push(text));
  child.stdin.end(input);
  const code = await new Promise<number | null>((resolve) => child.on("close", resolve));
  return { code, stdout: stdout.join(""), stderr: stderr.join("") };
}
