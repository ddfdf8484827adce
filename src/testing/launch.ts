import { type ChildProcess, spawn } from "node:child_process";
import { existsSync, mkdtempSync, readFileSync, rmSync, statSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { dirname, extname, join, resolve } from "node:path";
import { fileURLToPath, pathToFileURL } from "node:url";
import { decode } from "../codec";
import { describe, TurnsError } from "../errors";
import { childProgram } from "./child-program";
import { ANSWER_FILE, type ChildAnswer, type ChildRequest, POINTS_FILE, type ReachedPoint, REQUEST_FILE } from "./child-protocol";

/** How much of a child's output is kept: the end tells why it crashed. */
const OUTPUT_LENGTH = 64 * 1024;

interface Launch {
  timeoutMs: number;
  execArgv: readonly string[];
  env: Readonly<Record<string, string | undefined>>;
}

export interface Ending {
  /** Undefined if it was killed. */
  answer: Extract<ChildAnswer, { kind: "ended" }> | undefined;
  points: ReachedPoint[];
  stdout: string;
  stderr: string;
}

/**
 * Runs the child program until it exits or is killed.
 *
 * @throws {TurnsError} GRAPH_MODULE_INVALID; CHILD_TIMED_OUT, and then it was killed; CHILD_FAILED if it exited by itself without
 *   an answer
 */
export async function launched(file: GraphFile, request: Omit<ChildRequest, "module">, launch: Launch): Promise<Ending> {
  const folder = mkdtempSync(join(tmpdir(), "turns-run-"));
  try {
    writeFileSync(join(folder, REQUEST_FILE), JSON.stringify({ ...request, module: file.url }));
    const args = [...launch.execArgv, childProgram(file.type), folder];
    const child = spawn(process.execPath, args, {
      env: { ...process.env, ...launch.env },
      stdio: ["ignore", "pipe", "pipe"],
      windowsHide: true,
    });
    const ended = await endOf(child, launch.timeoutMs);
    return evaluated(folder, request, ended, launch);
  } finally {
    rmSync(folder, { recursive: true, force: true, maxRetries: 3 });
  }
}

interface Ended {
  code: number | null;
  signal: NodeJS.Signals | null;
  timedOut: boolean;
  stdout: string;
  stderr: string;
}

function endOf(child: ChildProcess, timeoutMs: number): Promise<Ended> {
  return new Promise((resolve, reject) => {
    let timedOut = false;
    const timer = setTimeout(() => {
      timedOut = true;
      child.kill("SIGKILL");
      // Doesn't wait for a process that the child started and that holds its output open.
      child.stdout?.destroy();
      child.stderr?.destroy();
    }, timeoutMs);
    const output = { stdout: "", stderr: "" };
    for (const name of ["stdout", "stderr"] as const) {
      child[name]?.setEncoding("utf8").on("data", (text: string) => {
        output[name] = (output[name] + text).slice(-OUTPUT_LENGTH);
      });
    }
    child.on("error", (error) => {
      clearTimeout(timer);
      reject(error);
    });
    child.on("close", (code, signal) => {
      clearTimeout(timer);
      resolve({ code, signal, timedOut, ...output });
    });
  });
}

function evaluated(folder: string, request: Omit<ChildRequest, "module">, ended: Ended, { timeoutMs }: Launch): Ending {
  const { stdout, stderr } = ended;
  const points = reached(join(folder, POINTS_FILE));
  const last = points.at(-1)?.point;
  if (ended.timedOut) throw timedOut(timeoutMs, last, ended);
  const answerFile = join(folder, ANSWER_FILE);
  if (existsSync(answerFile)) {
    const answer = decode(readFileSync(answerFile, "utf8")) as ChildAnswer;
    if (answer.kind === "ended") return { answer, points, stdout, stderr };
    throw invalidModule("The module of the graph", answer.expected, answer.found, answer.error);
  }
  // On Windows, a process that kills itself exits with code 1.
  const wasKilled = ended.signal === "SIGKILL" || (process.platform === "win32" && ended.code === 1);
  if (wasKilled && request.kill !== undefined && last === request.kill.point) {
    return { answer: undefined, points, stdout, stderr };
  }
  throw childFailed(ended, last);
}

/** A line that was cut off by the kill doesn't count. */
function reached(file: string): ReachedPoint[] {
  if (!existsSync(file)) return [];
  const lines = readFileSync(file, "utf8").split("\n");
  return lines.slice(0, -1).map((line) => JSON.parse(line) as ReachedPoint);
}

const timedOut = (timeoutMs: number, last: string | undefined, { stderr }: Ended): TurnsError =>
  new TurnsError("CHILD_TIMED_OUT", {
    problem: `The process that runs the graph didn't finish within ${timeoutMs} ms. It was killed, and had ${last === undefined ? "reached no failpoint" : `last reached ${last}`}.`,
    remedy: "A node may wait for something that never comes. Otherwise raise timeoutMs; data.stderr has what it said.",
    data: { timeoutMs, lastPoint: last, stderr },
  });

function childFailed({ code, signal, stderr }: Ended, last: string | undefined): TurnsError {
  const end = stderr.trim().split("\n").at(-1) ?? "";
  return new TurnsError("CHILD_FAILED", {
    problem: `The process that runs the graph neither finished it nor was killed at the failpoint asked for: ${signal === null ? `exit code ${code}` : `killed by ${signal}`}${last === undefined ? "" : ` behind ${last}`}${end === "" ? "" : `, and its last line is ${JSON.stringify(end)}`}.`,
    remedy: "The module must neither exit nor leave a rejection unhandled; data.stderr has what it said.",
    data: { code, signal, lastPoint: last, stderr },
  });
}

/** The file of a graph's module, and the kind of module Node takes it for. */
interface GraphFile {
  url: string;
  type: "module" | "commonjs";
}

/** @param given a path, from the working folder, or a file URL @throws {TurnsError} GRAPH_MODULE_INVALID unless it is a file */
export function graphFile(given: string | URL): GraphFile {
  const path = pathOf(given);
  if (path === undefined || !existsSync(path) || !statSync(path).isFile()) {
    const found = path === undefined ? describe(given) : `none at ${JSON.stringify(path)}`;
    throw invalidModule("The module of a graph", "the path or file URL of a file", found);
  }
  return { url: pathToFileURL(path).href, type: typeOf(path) };
}

const invalidModule = (what: string, expected: string, found: string, cause?: unknown): TurnsError =>
  new TurnsError("GRAPH_MODULE_INVALID", {
    problem: `${what} must be ${expected}; it is ${found}.`,
    remedy:
      'docs/testing.md says what such a module exports. A TypeScript one needs a loader, execArgv: ["--import", "tsx"] for one, or a Node ' +
      "that runs it by itself. Nothing was run.",
    cause,
  });

function pathOf(given: unknown): string | undefined {
  try {
    if (given instanceof URL) return fileURLToPath(given);
    if (typeof given !== "string" || given === "") return undefined;
    return given.startsWith("file:") ? fileURLToPath(given) : resolve(given);
  } catch {
    return undefined;
  }
}

/** Node's own rule: the extension decides, or else the nearest package.json. */
function typeOf(path: string): GraphFile["type"] {
  const extension = extname(path);
  if (extension === ".mjs" || extension === ".mts") return "module";
  if (extension === ".cjs" || extension === ".cts") return "commonjs";
  for (let folder = dirname(path); ; folder = dirname(folder)) {
    const manifest = join(folder, "package.json");
    if (existsSync(manifest)) return moduleType(manifest);
    if (dirname(folder) === folder) return "commonjs";
  }
}

function moduleType(manifest: string): GraphFile["type"] {
  try {
    return (JSON.parse(readFileSync(manifest, "utf8")) as { type?: unknown } | null)?.type === "module" ? "module" : "commonjs";
  } catch {
    return "commonjs";
  }
}

/** Node flags that concern only this process, with a value after them or without. */
const WITH_VALUE = new Set(["-e", "--eval", "-p", "--print", "-pe", "--input-type"]);
const OWN =
  /^--(inspect|watch|test|prof|cpu-prof|heap-prof)(\b|-|=|$)|^--(eval|print|input-type)=|^-(i|c)$|^--(interactive|check)$/;

/**
 * Flags that the children inherit from this process. Above all loaders, so that TypeScript under tsx stays TypeScript under tsx.
 */
export function inheritedFlags(flags: readonly string[] = process.execArgv): string[] {
  return flags.filter((flag, index) => !OWN.test(flag) && !WITH_VALUE.has(flag) && !WITH_VALUE.has(flags[index - 1] ?? ""));
}
