import { spawn } from "node:child_process";
import { join } from "node:path";
import { childProgram } from "../support/child-program";

export interface Told {
  signal: NodeJS.Signals | null;
  result?: { log: string[] };
  code?: string;
  message?: string;
}

/** Runs `run-child.ts` to its end. */
export function inAnotherProcess(...given: string[]): Promise<Told> {
  return scriptTold("run-child.ts", given);
}

/** Runs a script of this folder that prints one line of JSON. */
export function scriptTold(script: string, given: string[]): Promise<Told> {
  return new Promise((resolve, reject) => {
    const child = spawn(process.execPath, [...childProgram(join(__dirname, script)), ...given], {
      env: { ...process.env, NODE_OPTIONS: process.env.TURNS_TEST_NODE_OPTIONS ?? "" },
      stdio: ["ignore", "pipe", "pipe"],
    });
    let out = "";
    let err = "";
    child.stdout.setEncoding("utf8").on("data", (text: string) => (out += text));
    child.stderr.setEncoding("utf8").on("data", (text: string) => (err += text));
    child.on("error", reject);
    child.on("close", (code, signal) => {
      if (code !== 0 && signal === null) reject(new Error(`child ended with ${code}: ${err}`));
      else resolve({ signal, ...(JSON.parse(out === "" ? "{}" : out) as object) });
    });
  });
}
