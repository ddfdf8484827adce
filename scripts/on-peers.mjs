/**
 * Runs a command with the oldest LangGraph that package.json admits, in a copy of this tree in .tmp/oldest-peers:
 *
 *   node scripts/on-peers.mjs -- jest conformance
 *   node scripts/on-peers.mjs -- tsc --noEmit
 *
 * A copy needs no resolver of its own: the tests, the processes they start, the official savers and TypeScript all find the same versions.
 */
import { spawnSync } from "node:child_process";
import { createHash } from "node:crypto";
import { readFileSync, writeFileSync } from "node:fs";
import path from "node:path";
import { pathToFileURL } from "node:url";
import { copyTree, installInto, root } from "./tree-copy.mjs";

const INSTALL_LIMIT_MS = 300_000;

/** The oldest version of each of LangChain's packages among the peer dependencies, as `name@version`. */
export function oldestPeers({ peerDependencies }) {
  const ours = Object.entries(peerDependencies).filter(([name]) => name.startsWith("@langchain/"));
  return ours.map(([name, range]) => {
    const version = /^>=(\d+\.\d+\.\d+) <\d+$/.exec(range)?.[1];
    if (version === undefined) throw new Error(`${name}: "${range}" isn't a range of the form ">=1.2.3 <2"`);
    return `${name}@${version}`;
  });
}

/** Installs them once for each state of package.json and of the lock file. */
function prepare(copy) {
  copyTree(copy);
  const read = (file) => readFileSync(path.join(root, file), "utf8");
  const packages = oldestPeers(JSON.parse(read("package.json")));
  const wanted = createHash("sha256")
    .update(`${packages} ${process.version} ${read("package-lock.json")}`)
    .digest("hex");
  const stamp = path.join(copy, "node_modules", ".oldest-peers");
  if (isStamped(stamp, wanted)) return;
  installInto(copy, packages, INSTALL_LIMIT_MS);
  writeFileSync(stamp, wanted);
}

function isStamped(stamp, wanted) {
  try {
    return readFileSync(stamp, "utf8") === wanted;
  } catch {
    return false;
  }
}

function main() {
  const [dashes, command, ...args] = process.argv.slice(2);
  if (dashes !== "--" || command === undefined) {
    console.error("usage: node scripts/on-peers.mjs -- <command…>");
    process.exit(2);
  }
  const copy = path.join(root, ".tmp", "oldest-peers");
  try {
    prepare(copy);
  } catch (error) {
    console.error(error.message);
    process.exit(3);
  }
  const places = [path.join(copy, "node_modules", ".bin"), process.env.PATH ?? ""];
  const { status, signal, error } = spawnSync(command, args, {
    cwd: copy,
    stdio: "inherit",
    env: { ...process.env, PATH: places.join(path.delimiter) },
  });
  if (error !== undefined) console.error(`${command}: ${error.message}`);
  process.exitCode = status ?? (signal === null ? 1 : 128);
}

if (process.argv[1] && import.meta.url === pathToFileURL(process.argv[1]).href) main();
