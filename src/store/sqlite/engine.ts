import type { Engine } from "../engine";
import { answered, type Execute, type Program, runNow } from "../program";
import type { Awaitable } from "../store";
import type { Commits } from "./commits";
import type { SqliteDatabase, SqliteStatement } from "./driver";
import { isBusy, sqliteCode, translated } from "./failures";
import { Session } from "../session";
import type { Sealing } from "../../sealing";

const CHANGES_ROWS = /^(INSERT|UPDATE|DELETE) /;

/** SQLite, by one connection. Statements are compiled once per text; texts are constants, and values are always bound. */
export class SqliteEngine implements Engine {
  readonly db: SqliteDatabase;
  readonly #commits: Commits | undefined;
  /** Others use the connection too. */
  readonly #isShared: boolean;
  readonly #prepared = new Map<string, Compiled>();
  readonly #raw = new Map<string, Compiled>();
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
    return runNow(program, this.execute);
  }

  /** Asked within a transaction, so that the answer stays true until its end. */
  hasChanged(): Program<boolean> {
    const version = this.#number("PRAGMA data_version");
    let isChanged = version !== this.#version;
    this.#version = version;
    if (this.#isShared) {
      const counted = this.#number("SELECT total_changes()");
      isChanged ||= counted !== this.#counted;
      this.#counted = undefined;
      this.#changed = counted;
    }
    return answered(isChanged);
  }

  /** What a transaction wrote is gone, or may go: its COMMIT failed, or it lay inside one of the user's. */
  rolledBack(): void {
    this.#version = undefined;
  }

  /** How many rows the transaction has changed, its statements have told. */
  hasWritten(): void {
    this.#counted = this.#changed;
  }

  *columnsOf(table: string): Program<string[]> {
    const text = "SELECT name FROM pragma_table_info(?) ORDER BY cid";
    return ((yield { text, values: [table], returns: "arrays" }) as [string][]).map(([name]) => name);
  }

  meaningOf(error: unknown): unknown {
    return translated(error, this.db.name);
  }

  codeOf(error: unknown): string {
    return sqliteCode(error);
  }

  /** A page that the disk once did not give is read again, too. */
  isPassing(error: unknown): boolean {
    return isBusy(error) || sqliteCode(error).startsWith("SQLITE_CORRUPT");
  }

  get #inTransactions(): Commits {
    if (this.#commits === undefined) throw new Error("this connection begins no transactions of its own");
    return this.#commits;
  }

  readonly execute: Execute = (text, values, returns) => {
    const { statement, order, changesRows } = this.#compiled(text, returns === "arrays");
    const bound = order === undefined ? values : order.map((index) => values[index]);
    const isCounted = this.#isShared && changesRows;
    switch (returns) {
      case "one": {
        const row = statement.get(...bound);
        // It may be the first of many that were changed: then there are more than we know of, and the next transaction forgets.
        if (isCounted && row !== undefined) this.#changed += 1;
        return row;
      }
      case "count": {
        const changes = Number(statement.run(...bound).changes);
        if (isCounted) this.#changed += changes;
        return changes;
      }
      default: {
        const rows = statement.all(...bound);
        if (isCounted) this.#changed += rows.length;
        return rows;
      }
    }
  };

  /** What a statement of one row and one column gives. */
  #number(text: string): number {
    return (this.#compiled(text, true).statement.get() as [number])[0];
  }

  #compiled(text: string, isRaw: boolean): Compiled {
    const known = isRaw ? this.#raw : this.#prepared;
    let compiled = known.get(text);
    if (compiled === undefined) {
      compiled = compile(this.db, text);
      if (isRaw) compiled.statement.raw(true);
      known.set(text, compiled);
    }
    return compiled;
  }
}

interface Compiled {
  statement: SqliteStatement;
  /** The index of the value that each parameter takes; undefined where the text numbers none. */
  order: readonly number[] | undefined;
  changesRows: boolean;
}

/** The drivers take numbered parameters (`?1`) for named ones, which cost an object a call: they are bound by position instead. */
function compile(db: SqliteDatabase, text: string): Compiled {
  const order: number[] = [];
  const plain = text.replace(/\?(\d+)/g, (_, number: string) => {
    order.push(Number(number) - 1);
    return "?";
  });
  return { statement: db.prepare(plain), order: order.length === 0 ? undefined : order, changesRows: CHANGES_ROWS.test(text) };
}

/** What works on SQLite alone (salvage, a copy from a snapshot, the persister) runs its programs at once. */
export class SqliteSession extends Session {
  readonly db: SqliteDatabase;
  readonly #engine: SqliteEngine;

  /**
   * @param around what its transactions go through instead of the engine
   * @param isStepped its programs stop at each statement
   */
  constructor(engine: SqliteEngine, sealing?: Sealing, around: Engine = engine, isStepped = false) {
    super(around, sealing, isStepped);
    this.db = engine.db;
    this.#engine = engine;
  }

  /** Runs a program at once, in the transaction that is open, or none. */
  now<T>(program: Program<T>): T {
    return this.#engine.now(program);
  }
}

/** Of a connection whose transactions are begun and ended by the caller. @param isStepped programs stop at each statement */
export function sessionOn(db: SqliteDatabase, sealing?: Sealing, isStepped = false): SqliteSession {
  const engine = new SqliteEngine(db, undefined);
  return new SqliteSession(engine, sealing, engine, isStepped);
}

/** What a program finds in one state of the file. Where a page is damaged a COMMIT fails, even if nothing was written. */
export function lookedAt<T>(session: SqliteSession, program: () => Program<T>): T {
  session.db.exec("BEGIN");
  try {
    return session.now(program());
  } finally {
    if (session.db.inTransaction) session.db.exec("ROLLBACK");
  }
}
