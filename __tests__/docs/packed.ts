import { execFileSync } from "node:child_process";
import { cpSync, mkdirSync, readdirSync, readFileSync, symlinkSync } from "node:fs";
import path from "node:path";
import { builtOnce } from "../support/built-once";

const ROOT = path.resolve(__dirname, "..", "..");
const { name, version } = JSON.parse(readFileSync(path.join(ROOT, "package.json"), "utf8")) as { name: string; version: string };

/** How long a suite waits for it, which another suite may be making. */
export const PACK_LIMIT_MS = 400_000;

/** The package, built and packed from a copy of the repository; once in a run of jest. */
export function packed(): { repository: string; tarball: string } {
  const folder = builtOnce("package", pack);
  if (folder === undefined) throw new Error("only jest makes a folder for it: __tests__/setup/builds.ts");
  return { repository: path.join(folder, "repository"), tarball: path.join(folder, `${name}-${version}.tgz`) };
}

function pack(folder: string): void {
  const copy = path.join(folder, "repository");
  mkdirSync(copy);
  for (const entry of readdirSync(ROOT)) {
    if (["node_modules", ".git", "dist", "coverage", ".tmp"].includes(entry)) continue;
    cpSync(path.join(ROOT, entry), path.join(copy, entry), { recursive: true });
  }
  symlinkSync(path.join(ROOT, "node_modules"), path.join(copy, "node_modules"), "dir");
  const env = { ...process.env, NODE_OPTIONS: "", NODE_PATH: "" };
  const npm = (...args: string[]): unknown => execFileSync("npm", args, { cwd: copy, env, stdio: "pipe", maxBuffer: 64 << 20 });
  npm("run", "build");
  npm("pack", "--ignore-scripts", "--offline", "--pack-destination", folder);
}
