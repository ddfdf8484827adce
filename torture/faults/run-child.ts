import { spawn, spawnSync } from "node:child_process";
import { existsSync, readFileSync } from "node:fs";
import { join } from "node:path";
import type { Line } from "./scribe";

/** A system call that fails: the `first`-th call on the file, and all up to `last` if that is given. */
export interface Fault {
  calls: "pwrite64" | "pread64" | "ftruncate" | "fsync,fdatasync";
  error: "EIO" | "ENOSPC";
  first: number;
  /** `+`: from then on. */
  last: "+" | number | undefined;
}

export interface Order {
  workload: string;
  file: string;
  deeds: string;
  tries: number;
  rounds: number;
  /** A file that fills the disk, which the child removes when it is refused. */
  filler?: string;
}

export interface Told {
  lines: Line[];
  /** How many calls failed. */
  injected: number;
  /** How the process died, if it didn't exit by itself. */
  died: string | undefined;
}

/** Nothing here takes a tenth of it, so a process that takes longer hangs. */
const PATIENCE_MS = 120_000;
const ROOT = process.cwd();

/** Bundles the child, because hundreds of them are started. @returns its path */
export function bundled(folder: string): string {
  const tsup = join(ROOT, "node_modules", "tsup", "dist", "cli-default.js");
  const options = [
    "--format",
    "cjs",
    "--target",
    "node20",
    "--out-dir",
    folder,
    "--no-config",
    "--silent",
    "--external",
    "better-sqlite3",
  ];
  const source = join(ROOT, "torture", "faults", "child.ts");
  const { status, stderr } = spawnSync(process.execPath, [tsup, source, ...options], { cwd: ROOT });
  if (status !== 0) throw new Error(String(stderr));
  return join(folder, "child.cjs");
}

/**
 * @param log where strace writes what it did
 * @param paths whose calls fail; by default those of the database
 */
export async function withFault(
  child: string,
  order: Order,
  fault: Fault,
  log: string,
  paths: readonly string[] = ["", "-wal", "-journal", "-shm"].map((end) => `${order.file}${end}`),
): Promise<Told> {
  const { calls, error, first, last } = fault;
  const when = last === undefined ? `${first}` : last === "+" ? `${first}+` : `${first}..${last}`;
  const only = paths.flatMap((path) => ["-P", path]);
  const inject = calls.split(",").flatMap((call) => ["-e", `inject=${call}:error=${error}:when=${when}`]);
  const command = ["strace", "-f", "--seccomp-bpf", "-o", log, ...only, "-e", `trace=${calls}`, ...inject, process.execPath];
  const told = await run([...command, ...argumentsOf(child, order)]);
  const traced = existsSync(log) ? readFileSync(log, "utf8") : "";
  if (!/^\d+ /m.test(traced) && told.lines.length === 0) throw new Error(`strace did not trace: ${told.died ?? "no word of it"}`);
  return { ...told, injected: traced.split("(INJECTED)").length - 1 };
}

export function withoutFault(child: string, order: Order): Promise<Told> {
  return run([process.execPath, ...argumentsOf(child, order)]);
}

/** The process's files may not grow beyond this many blocks of 1,024 bytes. */
export function withLimit(child: string, order: Order, kilobytes: number): Promise<Told> {
  return run(["bash", "-c", `ulimit -S -f ${kilobytes}; exec "$@"`, "bash", process.execPath, ...argumentsOf(child, order)]);
}

function argumentsOf(child: string, { workload, file, deeds, tries, rounds, filler }: Order): string[] {
  return [child, workload, file, deeds, String(tries), String(rounds), ...(filler === undefined ? [] : [filler])];
}

function run([program = "", ...given]: string[]): Promise<Told> {
  return new Promise((resolve, reject) => {
    const env = {
      ...process.env,
      NODE_OPTIONS: process.env.TURNS_TEST_NODE_OPTIONS ?? "",
      NODE_PATH: join(ROOT, "node_modules"),
    };
    const child = spawn(program, given, { env, stdio: ["ignore", "pipe", "pipe"], detached: true });
    let out = "";
    let err = "";
    const timer = setTimeout(() => process.kill(-(child.pid as number), "SIGKILL"), PATIENCE_MS);
    child.stdout.setEncoding("utf8").on("data", (text: string) => (out += text));
    child.stderr.setEncoding("utf8").on("data", (text: string) => (err += text));
    child.on("error", reject);
    child.on("close", (code, signal) => {
      clearTimeout(timer);
      const lines = out
        .split("\n")
        .filter(Boolean)
        .map((line) => JSON.parse(line) as Line);
      const died = code === 0 ? undefined : `${signal ?? `code ${code}`}: ${err.slice(0, 2_000)}`;
      resolve({ lines, injected: 0, died });
    });
  });
}
