import { checkedHandle, Completions, type Row, type TransactionsOptions, type Value } from "./completions";
import type { Transactions } from "../effects/transactional";

/** What is needed of a database of better-sqlite3, or of `node:sqlite`. */
interface SqliteDatabase {
  exec(sql: string): unknown;
  prepare(sql: string): { readonly reader?: boolean; all(...values: Value[]): unknown[]; run(...values: Value[]): unknown };
}

/**
 * Transactions on SQLite by better-sqlite3 or `node:sqlite`. `run` gets the database itself. It must be synchronous: between two
 * statements of a transaction nobody else may use the handle.
 *
 * @throws {TurnsError} INVALID_OPTION
 */
export function sqliteTransactions<Db extends SqliteDatabase>(
  db: Db,
  options?: Omit<TransactionsOptions, "schema">,
): Transactions<Db, true> {
  checkedHandle("sqliteTransactions", db, ["exec", "prepare"], "a Database of better-sqlite3 or node:sqlite");
  const query = (_: unknown, sql: string, values: readonly Value[]): readonly Row[] => {
    const statement = db.prepare(sql);
    if (statement.reader !== false) return statement.all(...values) as readonly Row[];
    statement.run(...values);
    return [];
  };
  const transaction = <T>(work: (db: Db) => T): T => {
    db.exec("BEGIN IMMEDIATE");
    try {
      const result = work(db);
      db.exec("COMMIT");
      return result;
    } catch (error) {
      try {
        db.exec("ROLLBACK");
      } catch {
        // SQLite has rolled it back itself: a full disk, say.
      }
      throw error;
    }
  };
  return new Completions<Db, true>({ dialect: "sqlite", isSync: true, transaction, query }, options);
}
