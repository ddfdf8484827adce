import { copyFileSync, existsSync, readFileSync } from "node:fs";
import Database from "better-sqlite3";
import type { Logger } from "../../src/index";
import { ON_POSTGRES } from "./open-saver";

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
  // On PostgreSQL that table has the last transaction's mark.
  return (names.pluck().all() as string[]).filter((name) => name !== "langgraph_commits");
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

/** What a store consists of, as text that a secret can be looked for in. */
export function everythingIn(path: string): string {
  if (ON_POSTGRES) return JSON.stringify(dump(path));
  return [path, `${path}-wal`].map((file) => (existsSync(file) ? readFileSync(file, "latin1") : "")).join("");
}

/** The number under which most tables have a thread's rows. */
export function numberOf(path: string, threadId: string): number | undefined {
  const db = new Database(path, { readonly: true });
  try {
    return db.prepare("SELECT thread FROM langgraph_threads WHERE thread_id = ?").pluck().get(threadId) as number | undefined;
  } finally {
    db.close();
  }
}

/** How many seqs a thread has; the number of a row's thread is its seq divided by this. */
export const SPAN = 67_108_864;

/** Every row of a thread, in every table that knows threads by number or by id, found in the schema itself; and the items of its lists. */
export function rowsOfThread(path: string, threadId: string, number = numberOf(path, threadId)): Record<string, unknown[]> {
  const known = [
    ["thread", number],
    ["thread_id", threadId],
  ] as const;
  const db = new Database(path, { readonly: true });
  const tables = tablesOf(db).filter((table) =>
    [...known.map(([column]) => column), "list"].some((column) => columnsOf(db, table).includes(column)),
  );
  db.close();
  const rows = dump(path);
  const isOurs = (row: Record<string, unknown>): boolean =>
    known.some(([column, value]) => value !== undefined && row[column] === value) ||
    (typeof row["list"] === "number" && Math.floor(row["list"] / SPAN) === number);
  return Object.fromEntries(tables.map((table) => [table, (rows[table] as Record<string, unknown>[]).filter(isOurs)]));
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

/** Copies a store that nobody writes to. */
export function copyStore(from: string, to: string): void {
  if (!ON_POSTGRES) {
    for (const end of ["", "-wal"]) if (existsSync(from + end)) copyFileSync(from + end, to + end);
    return;
  }
  const db = new Database(from);
  db.prepare("VACUUM INTO ?").run(to);
  db.close();
}

/** Ends this process as a power cut would: no handler runs, nothing is flushed. */
export function dieNow(): never {
  process.kill(process.pid, "SIGKILL");
  for (;;) Atomics.wait(new Int32Array(new SharedArrayBuffer(4)), 0, 0, 1000);
}
