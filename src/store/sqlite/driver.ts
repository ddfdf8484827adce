/**
 * What this package needs of a SQLite driver, as structural types. better-sqlite3 satisfies them, and `NodeDatabase` adapts
 * `node:sqlite` to them. Users need no driver types to compile against ours.
 */
export interface SqliteStatement {
  run(...parameters: unknown[]): { changes: number | bigint };
  get(...parameters: unknown[]): unknown;
  all(...parameters: unknown[]): unknown[];
  /** From here on, rows are arrays. */
  raw(toggle: boolean): SqliteStatement;
}

export interface SqliteTransaction<A extends unknown[] = []> {
  (...args: A): unknown;
  immediate(...args: A): unknown;
}

export interface BackupPages {
  totalPages: number;
  remainingPages: number;
}

/** An open better-sqlite3 database. */
export interface SqliteDatabase {
  prepare(sql: string): SqliteStatement;
  exec(sql: string): unknown;
  pragma(source: string, options?: { simple?: boolean }): unknown;
  transaction<A extends unknown[]>(fn: (...args: A) => unknown): SqliteTransaction<A>;
  /**
   * SQLite's online backup, with `progress` pages per step: 0 pauses it until the next turn of the event loop. For `saver.backup`
   * only.
   */
  backup?(path: string, options: { progress: (done: BackupPages) => number }): Promise<unknown>;
  close(): unknown;
  readonly open: boolean;
  readonly name: string;
  readonly readonly: boolean;
  readonly memory: boolean;
  readonly inTransaction: boolean;
}

/** The used part of a `node:sqlite` statement. */
export interface NodeSqliteStatement {
  run(...parameters: unknown[]): { changes: number | bigint };
  get(...parameters: unknown[]): unknown;
  all(...parameters: unknown[]): unknown[];
  setReturnArrays(enabled: boolean): void;
  setReadBigInts(enabled: boolean): void;
  setAllowBareNamedParameters(enabled: boolean): void;
}

/** An open `DatabaseSync` of `node:sqlite`. */
export interface NodeSqliteDatabase {
  prepare(sql: string): NodeSqliteStatement;
  exec(sql: string): void;
  close(): void;
  location(): string | null;
  readonly isOpen: boolean;
  readonly isTransaction: boolean;
}

/** A database handle of either driver that users may pass in. */
export type DatabaseHandle = SqliteDatabase | NodeSqliteDatabase;
