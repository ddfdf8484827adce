import { spawnSync } from "node:child_process";
import { readFileSync, realpathSync } from "node:fs";
import { join } from "node:path";
import { fileURLToPath } from "node:url";

const CHILD_FAILED = 4_000;
/** `-y` shows a descriptor's path. A call that another thread interrupts has a second line, "… resumed", which has none. */
const SYNC = /^(?:\d+ +)?(?:fsync|fdatasync)\(\d+<([^>]*)>/;

/** How many disk syncs of files in a folder are in what `strace -f -y` wrote. */
export function syncsIn(log: string, folder: string): number {
  return log.split("\n").filter((line) => SYNC.exec(line)?.[1]?.startsWith(`${folder}/`)).length;
}

/** Runs a script of the bench in a process of its own and counts its disk syncs. @throws Error if it fails */
export function tracedSyncs(script: URL, given: readonly string[], folder: string): number {
  const log = join(folder, "strace.log");
  const how = ["-f", "--seccomp-bpf", "-y", "-o", log, "-e", "trace=fsync,fdatasync"];
  const command = [process.execPath, ...process.execArgv, fileURLToPath(script), ...given];
  const { status, signal, stderr } = spawnSync("strace", [...how, ...command], { encoding: "utf8" });
  if (status !== 0)
    throw new Error(`${command.slice(2).join(" ")} exited with ${status ?? signal}: ${stderr.slice(-CHILD_FAILED)}`);
  return syncsIn(readFileSync(log, "utf8"), realpathSync(folder));
}
