import { type ChildProcess, fork } from "node:child_process";
import { closeSync, ftruncateSync, mkdtempSync, openSync, readFileSync, rmSync, writeSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { Random } from "./random";
import { type Found, type Tried, tried } from "./run";
import { TARGETS } from "./targets";

/** What one process tries. */
export interface Course {
  target: string;
  seed: number;
  milliseconds?: number;
  inputs?: number;
  /** Where the current input is stored, in case the process dies. */
  current?: string;
}

/** Far above what any input of this length takes on a slow machine, far below what a quadratic one would. */
const SLOW_MS = 5_000;
const MEMORY_MB = 250;
const HEAP_MB = 1_500;
/** A process that prints nothing for this long hangs. It prints after every input, at most once a second. */
const SILENT_MS = 120_000;
const TELL_MS = 1_000;

type Message = { inputs: number } | { tried: Omit<Tried, "found">; found: { what: string; input: string }[] };

/** Tries a target in a process with little memory. One that dies or hangs is a finding, with the input that it had. */
export async function supervised(course: Course): Promise<Tried> {
  const folder = mkdtempSync(join(tmpdir(), "turns-fuzz-"));
  const current = join(folder, "current");
  const child = fork(process.argv[1] as string, ["fuzz", "--child", JSON.stringify({ ...course, current })], {
    execArgv: [...process.execArgv, `--max-old-space-size=${HEAP_MB}`],
    stdio: ["ignore", "ignore", "pipe", "ipc"],
  });
  try {
    const { inputs, end } = await ended(child);
    if (typeof end !== "string") {
      const found = end.found.map(({ what, input }): Found => ({ what, input: Buffer.from(input, "base64") }));
      return { ...end.tried, found };
    }
    const slowest = { ms: 0, length: 0 };
    return { inputs, answers: 0, found: [{ what: end, input: readFileSync(current) }], slowest, peakMb: 0 };
  } finally {
    rmSync(folder, { recursive: true, force: true });
  }
}

type End = string | Exclude<Message, { inputs: number }>;

function ended(child: ChildProcess): Promise<{ inputs: number; end: End }> {
  return new Promise((resolve) => {
    let inputs = 0;
    let end: End | undefined;
    let stderr = "";
    const hung = (): void => {
      end ??= `no answer for ${SILENT_MS / 1_000} s`;
      child.kill("SIGKILL");
    };
    let timer = setTimeout(hung, SILENT_MS);
    child.stderr?.setEncoding("utf8").on("data", (text: string) => (stderr = (stderr + text).slice(-4_000)));
    child.on("message", (message: Message) => {
      clearTimeout(timer);
      timer = setTimeout(hung, SILENT_MS);
      if ("inputs" in message) inputs = message.inputs;
      else end = message;
    });
    child.on("close", (code, signal) => {
      clearTimeout(timer);
      const line = /^.*(FATAL|Error).*$/m.exec(stderr)?.[0] ?? "";
      resolve({ inputs, end: end ?? `the process exited with ${code ?? signal}: ${line}` });
    });
  });
}

/** The program of such a process. */
export async function inChild({ target, seed, milliseconds, inputs, current }: Course): Promise<boolean> {
  const tell = (message: Message): Promise<void> => new Promise((told) => void process.send?.(message, () => told()));
  const file = openSync(current as string, "w");
  const random = new Random(seed);
  const session = await TARGETS[target]!.open(random);
  let told = performance.now();
  let count = 0;
  const begin = (input: Buffer): void => {
    writeSync(file, input, 0, input.length, 0);
    ftruncateSync(file, input.length);
    count += 1;
    if (performance.now() - told < TELL_MS) return;
    told = performance.now();
    void tell({ inputs: count });
  };
  try {
    const limits = { milliseconds, inputs, slowMs: SLOW_MS, memoryMb: MEMORY_MB, begin };
    const { found, ...all } = await tried(session, random, limits);
    await tell({ tried: all, found: found.map(({ what, input }) => ({ what, input: input.toString("base64") })) });
    return true;
  } finally {
    session.close();
    closeSync(file);
    process.disconnect?.();
  }
}
