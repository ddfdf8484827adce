/**
 * What this package needs of a SQLite driver, as structural types: better-sqlite3 satisfies them, and users need no driver types
 * to compile against ours.
 */
export interface SqliteStatement {
  run(...parameters: unknown[]): { changes: number | bigint };
  get(...parameters: unknown[]): unknown;
  all(...parameters: unknown[]): unknown[];
  /** Rows as arrays from here on. */
  raw(toggle: boolean): SqliteStatement;
}

export interface SqliteTransaction {
  (): unknown;
  immediate(): unknown;
}

/** An open better-sqlite3 database. */
export interface SqliteDatabase {
  prepare(sql: string): SqliteStatement;
  exec(sql: string): unknown;
  pragma(source: string, options?: { simple?: boolean }): unknown;
  transaction(fn: () => unknown): SqliteTransaction;
  close(): unknown;
  readonly open: boolean;
  readonly name: string;
  readonly readonly: boolean;
  readonly memory: boolean;
  readonly inTransaction: boolean;
}
