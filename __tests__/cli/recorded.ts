import { cpSync, mkdirSync, mkdtempSync, rmSync } from "node:fs";
import { hostname } from "node:os";
import path from "node:path";
import { told } from "./built";

/*
 * A recording of the command line: what `turns` says of the threads of examples/lighthouse, from the crash to the resume.
 * docs/recordings/crash.txt is one, written by `npm run recording`. A test makes another one and compares them.
 */

/** Tests and scripts start here. */
const ROOT = process.cwd();
export const RECORDING = path.join(ROOT, "docs", "recordings", "crash.txt");

/** Each is run in a folder with the example, one after the other. */
const COMMANDS: readonly (readonly string[])[] = [
  ["lighthouse.db"],
  ["status", "lighthouse"],
  ["log", "lighthouse", "--task", "4-cross-check"],
  ["effects"],
  ["resume", "lighthouse", "--graph", "agent.ts"],
  ["resume", "lighthouse", "--graph", "agent.ts", "--yes"],
  ["rewind", "lighthouse", "--to", "3-extract", "--graph", "agent.ts"],
  ["inbox"],
  ["inbox", "answer", "invoice-2217", "--value", '"yes"', "--graph", "agent.ts#invoice", "--yes"],
  ["recover", "--graph", "agent.ts#support", "--yes"],
  ["log", "nightly-report", "--oneline", "--graph"],
  ["threads"],
];

/** @param program the built `turns` @returns the recording, as on a terminal of 100 columns without colours */
export async function recorded(program: string): Promise<string> {
  mkdirSync(path.join(ROOT, ".tmp"), { recursive: true });
  // Inside the repository, where the example finds its packages.
  const folder = mkdtempSync(path.join(ROOT, ".tmp", "recording-"));
  try {
    cpSync(path.join(ROOT, "examples", "lighthouse"), folder, { recursive: true });
    const env = { COLUMNS: "100", TZ: "UTC", LETTERS: undefined };
    const run = await told([process.execPath, "--import", "tsx", "run.ts"], { cwd: folder, env });
    if (run.code !== 0) throw new Error(run.stderr);
    const parts = [`$ npx tsx run.ts\n${run.stdout}`];
    for (const args of COMMANDS) {
      const { code, stdout, stderr } = await told([process.execPath, program, ...args, "--table"], { cwd: folder, env });
      const exit = code === 0 ? "" : `[exit code ${code}]\n`;
      parts.push(`$ turns ${args.map(quoted).join(" ")}\n${stdout}${stderr}${exit}`);
    }
    return parts.join("\n").replaceAll(hostname(), "laptop");
  } finally {
    rmSync(folder, { recursive: true, force: true });
  }
}

function quoted(arg: string): string {
  return /^[\w./#-]+$/.test(arg) ? arg : `'${arg}'`;
}

/** What two recordings have in common: without times, sizes, ids, numbers of rows, and the room that those take in a table. */
export function normalised(recording: string): string {
  return recording
    .replaceAll(/[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}/g, "ID")
    .replaceAll(/\b[0-9a-f]{8}[0-9a-f-]{2,}…/g, "ID")
    .replaceAll(/\b[0-9a-f]{12}([0-9a-f]{20})?\b/g, "ID")
    .replaceAll(/\d{4}-\d\d-\d\d[ T]\d\d:\d\d:\d\d(\.\d+Z)?/g, "TIME")
    .replaceAll(/\b\d+ (ms|s|min|h|d)( ago)?\b|\bjust now\b/g, "DURATION")
    .replaceAll(/\b\d+(\.\d+)? (B|KB|MB)\b/g, "SIZE")
    .replaceAll(/#\d+\b/g, "#N")
    .replaceAll(/\bProcess \d+\b/g, "Process N")
    .replaceAll(/^( *|lighthouse +)\d+ /gm, "$1N ")
    .replaceAll(/ +/g, " ")
    .replaceAll(/^ | $/gm, "");
}
