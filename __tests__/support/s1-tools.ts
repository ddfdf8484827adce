import Database from "better-sqlite3";
import type { Logger } from "../../src/index";

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

/** Ends this process as a power cut would: no handler runs, nothing is flushed. */
export function dieNow(): never {
  process.kill(process.pid, "SIGKILL");
  for (;;) Atomics.wait(new Int32Array(new SharedArrayBuffer(4)), 0, 0, 1000);
}
