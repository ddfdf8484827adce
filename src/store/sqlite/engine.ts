import type { Engine } from "../engine";
import { type Bound, type Program, runNow, type Statement } from "../program";
import type { Awaitable } from "../store";
import type { Commits } from "./commits";
import type { SqliteDatabase, SqliteStatement } from "./driver";
import { isBusy, sqliteCode, translated } from "./failures";
import { Sql } from "./sql";
import type { Sealing } from "../../sealing";

const CHANGES_ROWS = /^(INSERT|UPDATE|DELETE) /;

/** SQLite, by one connection. Statements are compiled once per text; texts are constants, and values are always bound. */
export class SqliteEngine implements Engine {
  readonly db: SqliteDatabase;
  readonly #commits: Commits | undefined;
  /** Others use the connection too. */
  readonly #isShared: boolean;
  readonly #prepared = new Map<string, SqliteStatement>();
  readonly #raw = new Map<string, SqliteStatement>();
  #version: number | undefined;
  /** What SQLite counted when a program had last written, and what programs have changed since. */
  #counted: number | undefined;
  #changed = 0;

  /** @param commits undefined for a connection whose transactions are begun and ended elsewhere */
  constructor(db: SqliteDatabase, commits: Commits | undefined, isShared = true) {
    this.db = db;
    this.#commits = commits;
    this.#isShared = isShared;
  }

  get name(): string {
    return this.db.name;
  }

  get open(): boolean {
    return this.db.open;
  }

  write<T>(program: () => Program<T>, durability: "synced" | "unsynced" = "synced"): Awaitable<T> {
    const work = (): T => this.now(program());
    return durability === "synced" ? this.#inTransactions.run(work) : this.#inTransactions.runUnsynced(work);
  }

  read<T>(program: () => Program<T>): Awaitable<T> {
    return this.#inTransactions.read(() => this.now(program()));
  }

  /** Runs a program at once, in the transaction that is open, or none. */
  now<T>(program: Program<T>): T {
    return runNow(program, this.#execute);
  }

  /** Asked within a transaction, so that the answer stays true until its end. */
  *hasChanged(): Program<boolean> {
    const row = (yield { text: "PRAGMA data_version", values: [], returns: "one" }) as { data_version: number } | undefined;
    let isChanged = row?.data_version !== this.#version;
    this.#version = row?.data_version;
    if (this.#isShared) {
      const counted = yield* this.#totalChanges();
      isChanged ||= counted !== this.#counted;
      this.#counted = undefined;
      this.#changed = counted;
    }
    return isChanged;
  }

  /** What a transaction wrote is gone, or may go: its COMMIT failed, or it lay inside one of the user's. */
  rolledBack(): void {
    this.#version = undefined;
  }

  /** How many rows the transaction has changed, its statements have told. */
  hasWritten(): void {
    this.#counted = this.#changed;
  }

  meaningOf(error: unknown): unknown {
    return translated(error, this.db.name);
  }

  /** A page that the disk once did not give is read again, too. */
  isPassing(error: unknown): boolean {
    return isBusy(error) || sqliteCode(error).startsWith("SQLITE_CORRUPT");
  }

  /** How many rows this connection has changed, whoever uses it. */
  *#totalChanges(): Program<number> {
    const row = (yield { text: "SELECT total_changes() AS n", values: [], returns: "one" }) as { n: number } | undefined;
    return row?.n ?? 0;
  }

  get #inTransactions(): Commits {
    if (this.#commits === undefined) throw new Error("this connection begins no transactions of its own");
    return this.#commits;
  }

  readonly #execute = ({ text, values, returns }: Statement): unknown => {
    const bound = bindable(text, values);
    switch (returns) {
      case "one":
        return this.#counts(text, this.#statement(text).get(...bound), (row) => (row === undefined ? 0 : 1));
      case "all":
        return this.#counts(text, this.#statement(text).all(...bound), (rows) => rows.length);
      case "count":
        return this.#counts(text, Number(this.#statement(text).run(...bound).changes), (changes) => changes);
      case "arrays":
        return this.#arrays(text).all(...bound);
    }
  };

  /** One row may be the first of many that were changed: then there are more than we know of, and the next transaction forgets. */
  #counts<T>(text: string, result: T, rows: (result: T) => number): T {
    if (this.#isShared && CHANGES_ROWS.test(text)) this.#changed += rows(result);
    return result;
  }

  #statement(text: string): SqliteStatement {
    let statement = this.#prepared.get(text);
    if (statement === undefined) {
      statement = this.db.prepare(text);
      this.#prepared.set(text, statement);
    }
    return statement;
  }

  #arrays(text: string): SqliteStatement {
    let statement = this.#raw.get(text);
    if (statement === undefined) {
      statement = this.db.prepare(text).raw(true);
      this.#raw.set(text, statement);
    }
    return statement;
  }
}

/** What works on SQLite alone (salvage, a copy from a snapshot, the persister) runs its programs at once. */
export class SqliteSql extends Sql {
  readonly db: SqliteDatabase;
  readonly #engine: SqliteEngine;

  /** @param around what its transactions go through instead of the engine */
  constructor(engine: SqliteEngine, sealing?: Sealing, around: Engine = engine) {
    super(around, sealing);
    this.db = engine.db;
    this.#engine = engine;
  }

  /** Runs a program at once, in the transaction that is open, or none. */
  now<T>(program: Program<T>): T {
    return this.#engine.now(program);
  }
}

/** Of a connection whose transactions are begun and ended by the caller. */
export function sqlOn(db: SqliteDatabase, sealing?: Sealing): SqliteSql {
  return new SqliteSql(new SqliteEngine(db, undefined), sealing);
}

/** What a program finds in one state of the file. Where a page is damaged a COMMIT fails, even if nothing was written. */
export function lookedAt<T>(sql: SqliteSql, program: () => Program<T>): T {
  sql.db.exec("BEGIN");
  try {
    return sql.now(program());
  } finally {
    if (sql.db.inTransaction) sql.db.exec("ROLLBACK");
  }
}

/** The driver takes numbered parameters (`?1`) for named ones, and those by name. */
function bindable(text: string, values: readonly Bound[]): readonly unknown[] {
  return text.includes("?1") ? [Object.fromEntries(values.map((value, index) => [String(index + 1), value]))] : values;
}
