import { spawn, spawnSync } from "node:child_process";
import { mkdirSync, mkdtempSync, realpathSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { type Image, type Operation, operationsOf } from "./disk";
import { readTrace, TRACED } from "./trace";

/** The name of the database in every folder and image. */
export const DATABASE = "agent.db";

/** Whether system calls can be recorded here; if not, why. */
export function whyNoStrace(): string | undefined {
  const { error, status, stderr } = spawnSync(
    "strace",
    ["-f", "-o", "/dev/null", "-e", "trace=write", process.execPath, "-e", "0"],
    {
      encoding: "utf8",
      env: { ...process.env, NODE_OPTIONS: process.env.TURNS_TEST_NODE_OPTIONS ?? "" },
    },
  );
  if (error !== undefined) return "strace is not installed (apt-get install strace)";
  return status === 0 ? undefined : `strace may not trace here (ptrace is refused): ${stderr.trim().split("\n")[0] ?? ""}`;
}

/** Puts an image into a fresh folder. @returns the path of its database */
export function laidOut(folder: string, image: Image): string {
  rmSync(folder, { recursive: true, force: true });
  mkdirSync(folder);
  for (const [name, bytes] of image) writeFileSync(join(folder, name), bytes);
  return join(folder, DATABASE);
}

/**
 * Runs a writer under strace until it kills itself.
 *
 * @param script a path, or what else Node is given to run it. It is called with the path of the database and `given`; prints `ACK …` lines on
 *   its standard output and stops by SIGKILL
 * @param before what is in its folder; otherwise nothing
 * @returns all that it did to its files
 * @throws Error if it stopped in any other way
 */
export async function record(
  script: string | readonly string[],
  given: readonly string[],
  before: Image = new Map(),
): Promise<Operation[]> {
  const home = realpathSync(mkdtempSync(join(tmpdir(), "turns-power-")));
  const folder = join(home, "disk");
  const log = join(home, "trace");
  const database = laidOut(folder, before);
  try {
    const program = typeof script === "string" ? ["--import", "tsx", script] : script;
    await traced(log, [process.execPath, ...program, database, ...given]);
    return operationsOf(await readTrace(log, folder), folder, before);
  } finally {
    rmSync(home, { recursive: true, force: true });
  }
}

function traced(log: string, command: readonly string[]): Promise<void> {
  const how = ["-f", "--seccomp-bpf", "-y", "-xx", "-s", "10000000", "-o", log, "-e", `trace=${TRACED.join(",")}`];
  return new Promise((resolve, reject) => {
    // Its output is read from the trace, in order with the other calls. A pipe could be full.
    const child = spawn("strace", [...how, ...command], {
      stdio: ["ignore", "ignore", "pipe"],
      env: { ...process.env, NODE_OPTIONS: process.env.TURNS_TEST_NODE_OPTIONS ?? "" },
    });
    let err = "";
    child.stderr.setEncoding("utf8").on("data", (text: string) => (err += text));
    child.on("error", reject);
    child.on("close", (code, signal) => {
      // strace exits with its child's signal.
      if (signal === "SIGKILL") resolve();
      else reject(new Error(`the writer exited with ${code ?? signal}: ${err.slice(-4_000)}`));
    });
  });
}
