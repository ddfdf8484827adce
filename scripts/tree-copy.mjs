/** Copies of this tree in .tmp/, with a node_modules of their own that starts as this one's. */
import { execFileSync, spawnSync } from "node:child_process";
import { cpSync, existsSync, mkdirSync, realpathSync, rmSync } from "node:fs";
import path from "node:path";
import { fileURLToPath } from "node:url";

export const root = path.resolve(path.dirname(fileURLToPath(import.meta.url)), "..");

/** Brings a copy up to date with the files that git knows, or would take. What else is in it stays, node_modules for one. */
export function copyTree(copy) {
  mkdirSync(copy, { recursive: true });
  const list = ["ls-files", "-z", "--cached", "--others", "--exclude-standard"];
  const files = execFileSync("git", list, { cwd: root, encoding: "utf8", maxBuffer: 2 ** 26 }).split("\0");
  const known = files.filter((file) => file !== "" && existsSync(path.join(root, file)));
  const folders = new Set(known.filter((file) => file.includes("/")).map((file) => file.slice(0, file.indexOf("/"))));
  for (const folder of folders) rmSync(path.join(copy, folder), { recursive: true, force: true });
  for (const file of known) cpSync(path.join(root, file), path.join(copy, file));
}

/**
 * Gives a copy a node_modules of hard links to this one's, with some packages exchanged or added: npm removes the files of a package that
 * it replaces, and leaves those here as they are.
 *
 * @throws if the packages can't be had within the limit
 */
export function installInto(copy, packages, limitMs) {
  const modules = path.join(copy, "node_modules");
  rmSync(modules, { recursive: true, force: true });
  // Where this one is a link, a copy of the link would let npm change the packages behind it.
  execFileSync("cp", ["-al", realpathSync(path.join(root, "node_modules")), modules]);
  // npm writes this one in place, and would change it here too.
  const listing = path.join(modules, ".package-lock.json");
  rmSync(listing, { force: true });
  cpSync(path.join(root, "node_modules", ".package-lock.json"), listing);
  const flags = ["--no-save", "--ignore-scripts", "--legacy-peer-deps", "--no-audit", "--no-fund"];
  const npm = spawnSync("npm", ["install", ...flags, ...packages], {
    cwd: copy,
    stdio: ["ignore", 2, 2],
    timeout: limitMs,
    // The script may itself have been started by npm, whose settings would be handed on.
    env: { ...process.env, npm_config_prefix: undefined, npm_config_local_prefix: undefined },
  });
  if (npm.status === 0) return;
  rmSync(modules, { recursive: true, force: true });
  const why = npm.error?.message ?? (npm.signal === null ? `npm ended with ${npm.status}` : "it took too long");
  throw new Error(`${packages.join(", ")} could not be installed: ${why}`);
}
