import type { SqliteDatabase, SqliteStatement } from "./driver";

type Bound = string | number | null;

/** Prepared statements of one connection, compiled once per text. Statement texts are constants: values are always bound. */
export class Sql {
  readonly db: SqliteDatabase;
  readonly #prepared = new Map<string, SqliteStatement>();

  constructor(db: SqliteDatabase) {
    this.db = db;
  }

  run(text: string, ...values: Bound[]): number {
    return Number(this.#statement(text).run(...bindable(text, values)).changes);
  }

  get<T>(text: string, ...values: Bound[]): T | undefined {
    return this.#statement(text).get(...bindable(text, values)) as T | undefined;
  }

  /** Reads whole results: an open cursor would block writes on this connection and hold back WAL checkpoints. */
  all<T>(text: string, ...values: Bound[]): T[] {
    return this.#statement(text).all(...bindable(text, values)) as T[];
  }

  /** Takes `count` numbers from the file's one sequence and returns the last of them. */
  nextSeq(count = 1): number {
    const row = this.get<{ value: number }>(
      "UPDATE langgraph_sequence SET value = value + ? WHERE id = 1 RETURNING value",
      count,
    );
    return row?.value ?? 0;
  }

  #statement(text: string): SqliteStatement {
    let statement = this.#prepared.get(text);
    if (statement === undefined) {
      statement = this.db.prepare(text);
      this.#prepared.set(text, statement);
    }
    return statement;
  }
}

/** The driver takes numbered parameters (`?1`) for named ones, and those by name. */
function bindable(text: string, values: readonly Bound[]): readonly unknown[] {
  return text.includes("?1") ? [Object.fromEntries(values.map((value, index) => [String(index + 1), value]))] : values;
}
