/**
 * Builds examples/nextjs in .tmp/nextjs, as a project of its own with this package as a tarball:
 *
 *   node scripts/nextjs.mjs             installs and builds
 *   node scripts/nextjs.mjs --install   installs alone; ends with 3 if the packages can't be had
 *   node scripts/nextjs.mjs --package langgraph-checkpoint-turns-0.1.0.tgz   with a tarball that is there already
 */
import { execFileSync, spawnSync } from "node:child_process";
import { createHash } from "node:crypto";
import { cpSync, mkdirSync, readFileSync, readdirSync, realpathSync, rmSync, symlinkSync, writeFileSync } from "node:fs";
import path from "node:path";
import { pathToFileURL } from "node:url";
import { copyTree, root } from "./tree-copy.mjs";

const INSTALL_LIMIT_MS = 300_000;
const BUILD_LIMIT_MS = 600_000;
const OURS = "langgraph-checkpoint-turns";
export const project = path.join(root, ".tmp", "nextjs");
const modules = path.join(project, "node_modules");
// The script may itself have been started by npm, whose settings would be handed on.
const env = { ...process.env, npm_config_prefix: undefined, npm_config_local_prefix: undefined, NEXT_TELEMETRY_DISABLED: "1" };

/** The example and its packages, once for each state of its package.json and ours; without this package, which isn't in the registry. */
export function install() {
  mkdirSync(project, { recursive: true });
  for (const name of readdirSync(project)) if (name !== "node_modules") rmSync(path.join(project, name), { recursive: true });
  cpSync(path.join(root, "examples", "nextjs"), project, { recursive: true });
  const example = JSON.parse(readFileSync(path.join(project, "package.json"), "utf8"));
  const { dependencies } = JSON.parse(readFileSync(path.join(root, "package.json"), "utf8"));
  delete example.dependencies[OURS];
  const manifest = JSON.stringify({ ...example, dependencies: { ...example.dependencies, ...dependencies } }, undefined, 2);
  writeFileSync(path.join(project, "package.json"), manifest);
  const wanted = createHash("sha256").update(`${manifest} ${process.version}`).digest("hex");
  const stamp = path.join(modules, ".stamp");
  if (readOr(stamp) === wanted) return;
  rmSync(modules, { recursive: true, force: true });
  const flags = ["--ignore-scripts", "--legacy-peer-deps", "--no-audit", "--no-fund", "--no-package-lock"];
  const npm = spawnSync("npm", ["install", ...flags], { cwd: project, stdio: ["ignore", 2, 2], timeout: INSTALL_LIMIT_MS, env });
  if (npm.status !== 0) throw new Error("the packages of examples/nextjs could not be installed");
  writeFileSync(stamp, wanted);
}

const run = (cwd, command, ...args) =>
  execFileSync(command, args, { cwd, stdio: ["ignore", "pipe", 2], env, timeout: BUILD_LIMIT_MS });

/** @returns a tarball of this package */
function packed() {
  const stage = path.join(root, ".tmp", "nextjs-package");
  copyTree(stage);
  rmSync(path.join(stage, "node_modules"), { force: true });
  symlinkSync(realpathSync(path.join(root, "node_modules")), path.join(stage, "node_modules"), "dir");
  run(stage, "npm", "run", "build");
  const [{ filename }] = JSON.parse(run(stage, "npm", "pack", "--json", "--ignore-scripts"));
  return path.join(stage, filename);
}

/** Puts this package into the project, and builds that. */
export function build(tarball = packed()) {
  const ours = path.join(modules, OURS);
  rmSync(ours, { recursive: true, force: true });
  mkdirSync(ours);
  run(ours, "tar", "-xzf", path.resolve(tarball), "--strip-components=1");
  // With the binary that is installed here.
  for (const name of ["better-sqlite3", "bindings", "file-uri-to-path"]) {
    cpSync(realpathSync(path.join(root, "node_modules", name)), path.join(modules, name), { recursive: true });
  }
  const next = spawnSync(process.execPath, [path.join(modules, "next", "dist", "bin", "next"), "build"], {
    cwd: project,
    stdio: ["ignore", 2, 2],
    env,
    timeout: BUILD_LIMIT_MS,
  });
  if (next.status !== 0) throw new Error("next build failed");
}

function readOr(file) {
  try {
    return readFileSync(file, "utf8");
  } catch {
    return undefined;
  }
}

if (process.argv[1] && import.meta.url === pathToFileURL(process.argv[1]).href) {
  try {
    install();
  } catch (error) {
    console.error(error.message);
    process.exit(3);
  }
  const [option, tarball] = process.argv.slice(2);
  if (option !== "--install") build(option === "--package" ? tarball : undefined);
}
