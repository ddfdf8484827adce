import { type ChildProcess, spawn, spawnSync } from "node:child_process";
import { once } from "node:events";
import { join } from "node:path";
import { childProgram } from "./child-program";

const root = join(__dirname, "..", "..");
const nodeArgs = (program: string, args: readonly string[]): string[] => [
  ...childProgram(join(root, "__tests__", program)),
  ...args,
];

export interface Ended {
  code: number | null;
  signal: string | null;
  /** The lines the program wrote, parsed. */
  out: any[];
  errors: string;
}

/** Runs a program, named by its path in `__tests__/`, to its end, however it ends. */
export function runProgram(program: string, ...args: string[]): Ended {
  const done = spawnSync(process.execPath, nodeArgs(program, args), { cwd: root, encoding: "utf8" });
  return { code: done.status, signal: done.signal, out: linesOf(done.stdout), errors: done.stderr };
}

/** Runs such a program beside this one; `said` resolves when it has written its first line. */
export function startProgram(
  program: string,
  ...args: string[]
): { said: Promise<any>; kill(): Promise<void>; ended: Promise<Ended> } {
  const child: ChildProcess = spawn(process.execPath, nodeArgs(program, args), { cwd: root, stdio: ["ignore", "pipe", "pipe"] });
  let stdout = "";
  let errors = "";
  let heard: (line: unknown) => void;
  let failed: (error: Error) => void;
  const said = new Promise<unknown>((resolve, reject) => ((heard = resolve), (failed = reject)));
  said.catch(() => undefined);
  child.stderr!.on("data", (data) => (errors += String(data)));
  child.stdout!.on("data", (data) => {
    stdout += String(data);
    if (stdout.includes("\n")) heard(linesOf(stdout)[0]);
  });
  const ended = once(child, "close").then(([code, signal]) => {
    failed(new Error(`${program} ended without a word: ${errors}`));
    return { code: code as number | null, signal: signal as string | null, out: linesOf(stdout), errors };
  });
  const kill = async (): Promise<void> => {
    child.kill("SIGKILL");
    await ended;
  };
  return { said, kill, ended };
}

function linesOf(text: string): any[] {
  const complete = text.slice(0, text.lastIndexOf("\n") + 1);
  return complete
    .split("\n")
    .filter((line) => line !== "")
    .map((line) => JSON.parse(line) as unknown);
}
