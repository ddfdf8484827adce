/**
 * Installs Prisma in .tmp/prisma, with the client of `__tests__/transactions/prisma/`, for the test of its adapter. Ends with 3 if the packages
 * can't be had.
 */
import { spawnSync } from "node:child_process";
import { cpSync, existsSync, mkdirSync, readFileSync, writeFileSync } from "node:fs";
import path from "node:path";
import { root } from "./tree-copy.mjs";

const LIMIT_MS = 300_000;
const source = path.join(root, "__tests__", "transactions", "prisma");
const project = path.join(root, ".tmp", "prisma");
const stamp = path.join(project, "node_modules", ".stamp");
const wanted = ["package.json", "schema.prisma"].map((name) => readFileSync(path.join(source, name), "utf8")).join("\n");

if (!existsSync(stamp) || readFileSync(stamp, "utf8") !== wanted) {
  mkdirSync(project, { recursive: true });
  cpSync(source, project, { recursive: true });
  // The client runs as WebAssembly. Generating it runs no engine either, but Prisma would download one: any program will do.
  const env = { ...process.env, npm_config_prefix: undefined, npm_config_local_prefix: undefined, CHECKPOINT_DISABLE: "1" };
  const settings = { cwd: project, stdio: ["ignore", 2, 2], timeout: LIMIT_MS };
  const flags = ["--ignore-scripts", "--no-audit", "--no-fund", "--no-package-lock"];
  const npm = spawnSync("npm", ["install", ...flags], { ...settings, env });
  const cli = path.join(project, "node_modules", "prisma", "build", "index.js");
  const withEngine = { ...env, PRISMA_SCHEMA_ENGINE_BINARY: process.execPath };
  const made = npm.status === 0 && spawnSync(process.execPath, [cli, "generate"], { ...settings, env: withEngine }).status === 0;
  if (!made) {
    console.error("Prisma could not be installed");
    process.exit(3);
  }
  writeFileSync(stamp, wanted);
}
