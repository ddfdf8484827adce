import { existsSync } from "node:fs";
import { dirname, resolve } from "node:path";
import type {
  BackupPages,
  NodeSqliteDatabase,
  NodeSqliteStatement,
  SqliteDatabase,
  SqliteStatement,
  SqliteTransaction,
} from "./driver";
import { sqliteFailure } from "./node-failures";

const MEMORY = ":memory:";
const PAGES_A_STEP = 256;
const SAVEPOINT = "langgraph_turns";

export interface OpenOptions {
  readonly?: boolean;
  /** How long SQLite itself waits for a lock, in milliseconds. It blocks the event loop. */
  timeout?: number;
}

type NodeBackup = (
  from: NodeSqliteDatabase,
  path: string,
  options: { rate: number; progress: (done: BackupPages) => void },
) => Promise<number>;
export type DatabaseSync = new (path: string, options: { readOnly?: boolean; timeout?: number }) => NodeSqliteDatabase;

/** Adapts a `DatabaseSync` of `node:sqlite` to the interface of better-sqlite3, which the rest of the store uses. */
export class NodeDatabase implements SqliteDatabase {
  readonly name: string;
  readonly readonly: boolean;
  readonly memory: boolean;
  readonly #db: NodeSqliteDatabase;
  readonly #controls = new Map<string, NodeStatement>();

  /** @param known what only the opener of a file knows; for a user's handle, SQLite is asked */
  constructor(db: NodeSqliteDatabase, known?: { name: string; readonly: boolean }) {
    this.#db = db;
    const location = db.isOpen ? (db.location() ?? "") : "";
    this.memory = location === "";
    this.name = known?.name ?? (this.memory ? MEMORY : location);
    this.readonly = known?.readonly ?? (db.isOpen && isReadonly(db));
  }

  /**
   * Opens a file the way better-sqlite3 does.
   * @throws TypeError if its folder does not exist; SQLite's errors, with their codes
   */
  static open(DatabaseSync: DatabaseSync, path: string, { readonly = false, timeout = 0 }: OpenOptions): NodeDatabase {
    const name = path.trim();
    if (name !== MEMORY && !existsSync(dirname(name))) {
      throw new TypeError("Cannot open database because the directory does not exist");
    }
    // `node:sqlite` takes a path that begins with "file:" for a URI, but never an absolute path.
    const file = name === MEMORY ? name : resolve(name);
    try {
      return new NodeDatabase(new DatabaseSync(file, { readOnly: readonly, timeout }), { name, readonly });
    } catch (error) {
      throw sqliteFailure(error);
    }
  }

  /**
   * Another connection to a file, of the same class.
   * @throws SQLite's errors, with their codes
   */
  beside(path: string, readonly: boolean): NodeDatabase {
    return NodeDatabase.open(this.#db.constructor as DatabaseSync, path, { readonly });
  }

  /**
   * Copies 256 pages per step on another thread, no matter what `progress` returns.
   * @throws what `progress` or SQLite throws
   */
  async backup(path: string, { progress }: { progress: (done: BackupPages) => number }): Promise<void> {
    const sqlite = process.getBuiltinModule("node:sqlite") as unknown as { backup: NodeBackup };
    let failure: { error: unknown } | undefined;
    try {
      await sqlite.backup(this.#db, path, {
        rate: PAGES_A_STEP,
        progress: (done) => {
          try {
            progress(done);
          } catch (error) {
            failure = { error };
            throw error;
          }
        },
      });
    } catch (error) {
      throw failure === undefined ? sqliteFailure(error) : failure.error;
    }
  }

  get open(): boolean {
    return this.#db.isOpen;
  }

  get inTransaction(): boolean {
    return this.#db.isOpen && this.#db.isTransaction;
  }

  prepare(sql: string): NodeStatement {
    try {
      return new NodeStatement(this.#db.prepare(sql), sql);
    } catch (error) {
      throw sqliteFailure(error);
    }
  }

  exec(sql: string): this {
    try {
      this.#db.exec(sql);
    } catch (error) {
      throw sqliteFailure(error);
    }
    return this;
  }

  pragma(source: string, options: { simple?: boolean } = {}): unknown {
    const statement = this.prepare(`PRAGMA ${source}`);
    if (options.simple !== true) return statement.all();
    const row = statement.raw(true).get() as unknown[] | undefined;
    return row?.[0];
  }

  transaction<A extends unknown[]>(fn: (...args: A) => unknown): SqliteTransaction<A> {
    return Object.assign((...args: A) => this.#transact("BEGIN", () => fn(...args)), {
      immediate: (...args: A) => this.#transact("BEGIN IMMEDIATE", () => fn(...args)),
    });
  }

  close(): this {
    this.#controls.clear();
    if (this.#db.isOpen) this.#db.close();
    return this;
  }

  /** A nested transaction is a savepoint: if it throws, only its own changes are undone. */
  #transact(begin: string, fn: () => unknown): unknown {
    const nested = this.inTransaction;
    this.#control(nested ? `SAVEPOINT ${SAVEPOINT}` : begin);
    try {
      const result = fn();
      if (typeof (result as { then?: unknown } | null | undefined)?.then === "function") {
        throw new TypeError("Transaction function cannot return a promise");
      }
      this.#control(nested ? `RELEASE ${SAVEPOINT}` : "COMMIT");
      return result;
    } catch (error) {
      // SQLite rolls back the whole transaction by itself after some errors, for example a full disk.
      if (this.inTransaction) {
        this.#control(nested ? `ROLLBACK TO ${SAVEPOINT}` : "ROLLBACK");
        if (nested) this.#control(`RELEASE ${SAVEPOINT}`);
      }
      throw error;
    }
  }

  #control(text: string): void {
    let statement = this.#controls.get(text);
    if (statement === undefined) {
      statement = this.prepare(text);
      this.#controls.set(text, statement);
    }
    statement.run();
  }
}

type Row = Record<string, unknown>;

/** A `node:sqlite` statement with the inputs and outputs of a better-sqlite3 statement. */
class NodeStatement implements SqliteStatement {
  readonly #statement: NodeSqliteStatement;
  /** Whether running it twice has the same effect as running it once. */
  readonly #onlyReads: boolean;
  #arrays = false;

  constructor(statement: NodeSqliteStatement, sql: string) {
    this.#statement = statement;
    this.#onlyReads = !/\breturning\b/i.test(sql);
    // The handle may belong to a user who chose other defaults for its statements.
    statement.setAllowBareNamedParameters(true);
    statement.setReturnArrays(false);
    statement.setReadBigInts(!this.#onlyReads);
  }

  run(...parameters: unknown[]): { changes: number } {
    try {
      return { changes: Number(this.#statement.run(...bound(parameters)).changes) };
    } catch (error) {
      throw sqliteFailure(error);
    }
  }

  get(...parameters: unknown[]): unknown {
    const row = this.#reading(() => this.#statement.get(...bound(parameters)));
    return row === undefined ? undefined : this.#known(row);
  }

  all(...parameters: unknown[]): unknown[] {
    const rows = this.#reading(() => this.#statement.all(...bound(parameters)));
    return rows.map((row) => this.#known(row));
  }

  raw(toggle: boolean): this {
    this.#arrays = toggle;
    this.#statement.setReturnArrays(toggle);
    return this;
  }

  /**
   * For integers beyond 2^53, `node:sqlite` throws and better-sqlite3 returns the nearest number. This package writes none. But
   * it must be able to read rows that somebody else changed, to report what is wrong with them.
   */
  #reading<T>(read: () => T): T {
    try {
      return read();
    } catch (error) {
      if ((error as { code?: unknown }).code !== "ERR_OUT_OF_RANGE" || !this.#onlyReads) throw sqliteFailure(error);
    }
    this.#statement.setReadBigInts(true);
    try {
      return read();
    } catch (error) {
      throw sqliteFailure(error);
    } finally {
      this.#statement.setReadBigInts(false);
    }
  }

  /** A row as better-sqlite3 returns it: with Object.prototype, and blobs as Buffers. */
  #known(row: unknown): unknown {
    if (this.#arrays) return (row as unknown[]).map(known);
    const plain: Row = {};
    for (const name in row as Row) plain[name] = known((row as Row)[name]);
    return plain;
  }
}

function known(value: unknown): unknown {
  if (typeof value === "bigint") return Number(value);
  return ArrayBuffer.isView(value) ? Buffer.from(value.buffer, value.byteOffset, value.byteLength) : value;
}

/** Some versions of Node don't bind undefined. */
function bound(parameters: readonly unknown[]): readonly unknown[] {
  return parameters.includes(undefined) ? parameters.map((value) => value ?? null) : parameters;
}

/** Checks what it can do: a user's handle may come from another realm, or be wrapped in their own class. */
export function isNodeDatabase(value: unknown): value is NodeSqliteDatabase {
  if (typeof value !== "object" || value === null || !("isTransaction" in value)) return false;
  const { prepare, exec, location, close, isOpen } = value as Partial<NodeSqliteDatabase>;
  return [prepare, exec, location, close].every((method) => typeof method === "function") && typeof isOpen === "boolean";
}

/**
 * `node:sqlite` doesn't tell, and trying to write would need the lock. But SQLite compiles BEGIN IMMEDIATE into a program that
 * starts a write transaction on the main database (0) only if it may write.
 */
function isReadonly(db: NodeSqliteDatabase): boolean {
  const explain = "EXPLAIN BEGIN IMMEDIATE";
  const program = new NodeStatement(db.prepare(explain), explain).all() as { opcode: unknown; p1: unknown; p2: unknown }[];
  return program.some(({ opcode, p1, p2 }) => opcode === "Transaction" && p1 === 0 && p2 === 0);
}
