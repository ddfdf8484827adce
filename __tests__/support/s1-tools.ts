import { type ChildProcess, spawn, spawnSync } from "node:child_process";
import { once } from "node:events";
import { join } from "node:path";
import Database from "better-sqlite3";
import type { Logger } from "langgraph-checkpoint-turns";

export const quiet: Logger = { debug() {}, info() {}, warn() {}, error() {} };

/** A logger that keeps what it is told. */
export function listener(): Logger & { lines: { level: string; fields: Record<string, unknown>; text: string }[] } {
  const lines: { level: string; fields: Record<string, unknown>; text: string }[] = [];
  const at = (level: string) => (fields: object, text?: string) =>
    void lines.push({ level, fields: fields as Record<string, unknown>, text: text ?? "" });
  return { lines, debug: at("debug"), info: at("info"), warn: at("warn"), error: at("error") };
}

export function tablesOf(db: Database.Database): string[] {
  const names = db.prepare("SELECT name FROM sqlite_schema WHERE type = 'table' AND name NOT LIKE 'sqlite_%' ORDER BY name");
  return names.pluck().all() as string[];
}

export function columnsOf(db: Database.Database, table: string): string[] {
  return db.prepare("SELECT name FROM pragma_table_info(?) ORDER BY cid").pluck().all(table) as string[];
}

/** Every row of every table, in the order of all its columns. */
export function dump(path: string): Record<string, unknown[]> {
  const db = new Database(path, { readonly: true });
  try {
    return Object.fromEntries(
      tablesOf(db).map((table) => {
        const columns = columnsOf(db, table).map((column) => `"${column}"`);
        return [table, db.prepare(`SELECT * FROM "${table}" ORDER BY ${columns.join(", ")}`).all()];
      }),
    );
  } finally {
    db.close();
  }
}

/** Runs some statements on a connection of their own. */
export function sqlOn(path: string, ...statements: string[]): void {
  const db = new Database(path);
  try {
    for (const statement of statements) db.exec(statement);
  } finally {
    db.close();
  }
}

const root = join(__dirname, "..", "..");
const nodeArgs = (program: string, args: readonly string[]): string[] => ["--import", "tsx", join(__dirname, program), ...args];

export interface Ended {
  code: number | null;
  signal: string | null;
  /** The lines the program wrote, parsed. */
  out: any[];
  errors: string;
}

/** Runs a program of this folder to its end, however it ends. */
export function runProgram(program: string, ...args: string[]): Ended {
  const done = spawnSync(process.execPath, nodeArgs(program, args), { cwd: root, encoding: "utf8" });
  return { code: done.status, signal: done.signal, out: linesOf(done.stdout), errors: done.stderr };
}

/** Runs a program beside this one; `said` resolves when it has written its first line. */
export function startProgram(program: string, ...args: string[]): { said: Promise<any>; kill(): Promise<void>; ended: Promise<Ended> } {
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

/** Ends this process as a power cut would: no handler runs, nothing is flushed. */
export function dieNow(): never {
  process.kill(process.pid, "SIGKILL");
  for (;;) Atomics.wait(new Int32Array(new SharedArrayBuffer(4)), 0, 0, 1000);
}
