import type { NodeSqliteStatement, SqliteStatement } from "./driver";
import { sqliteFailure } from "../ops/graphs";

type Row = Record<string, unknown>;

/** A statement of `node:sqlite` that takes and gives what one of better-sqlite3 does. */
export class NodeStatement implements SqliteStatement {
  readonly #statement: NodeSqliteStatement;
  /** Whether running it twice is running it once. */
  readonly #onlyReads: boolean;
  #arrays = false;

  constructor(statement: NodeSqliteStatement, sql: string) {
    this.#statement = statement;
    this.#onlyReads = !/\breturning\b/i.test(sql);
    // The handle may be a user's who chose other defaults for its statements.
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
   * Integers beyond 2^53 make `node:sqlite` throw; better-sqlite3 gives the nearest number. This package writes none, but it must be
   * able to look at rows that somebody else changed, to say what is wrong with them.
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

  /** A row as better-sqlite3 gives it: of Object.prototype, blobs as Buffers. */
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

/** Not every version of Node binds undefined. */
function bound(parameters: readonly unknown[]): readonly unknown[] {
  return parameters.includes(undefined) ? parameters.map((value) => value ?? null) : parameters;
}
