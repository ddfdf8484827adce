import type { Sealing } from "../../sealing";
import { type Bound, type Program, runNow, type Statement } from "../program";
import type { SqliteDatabase, SqliteStatement } from "./driver";
import type { ThreadKey } from "./thread-keys";

export type { Program } from "../program";

/** So many tags of threads are remembered. */
const TAGS_MAX = 1_000;

/** Prepared statements of one connection, compiled once per text. Statement texts are constants: values are always bound. */
export class Sql {
  readonly db: SqliteDatabase;
  /** The threads that the transaction which runs has met, by their ids. */
  readonly threads = new Map<string, ThreadKey>();
  readonly #prepared = new Map<string, SqliteStatement>();
  readonly #raw = new Map<string, SqliteStatement>();
  readonly #tags = new Map<string, string>();
  #sealing: Sealing | undefined;

  constructor(db: SqliteDatabase, sealing?: Sealing) {
    this.db = db;
    this.#sealing = sealing;
  }

  /** What stands between texts and stored bytes. */
  get sealing(): Sealing {
    if (this.#sealing === undefined) throw new Error("the keys of this database are not there yet");
    return this.#sealing;
  }

  unlock(sealing: Sealing): void {
    this.#sealing = sealing;
  }

  /** @returns how many rows were changed */
  *run(text: string, ...values: Bound[]): Program<number> {
    return (yield { text, values, returns: "count" }) as number;
  }

  *get<T>(text: string, ...values: Bound[]): Program<T | undefined> {
    return (yield { text, values, returns: "one" }) as T | undefined;
  }

  /** Reads whole results: an open cursor would block writes on this connection and hold back WAL checkpoints. */
  *all<T>(text: string, ...values: Bound[]): Program<T[]> {
    return (yield { text, values, returns: "all" }) as T[];
  }

  /** {@link all}, each row as an array: for results of thousands of rows. */
  *rows<T extends unknown[]>(text: string, ...values: Bound[]): Program<T[]> {
    return (yield { text, values, returns: "arrays" }) as T[];
  }

  /** Runs a program at once, in the transaction that is open, or none. */
  now<T>(program: Program<T>): T {
    return runNow(program, this.#execute);
  }

  readonly #execute = ({ text, values, returns }: Statement): unknown => {
    const bound = bindable(text, values);
    switch (returns) {
      case "one":
        return this.#statement(text).get(...bound);
      case "all":
        return this.#statement(text).all(...bound);
      case "count":
        return Number(this.#statement(text).run(...bound).changes);
      case "arrays": {
        let statement = this.#raw.get(text);
        if (statement === undefined) {
          statement = this.db.prepare(text).raw(true);
          this.#raw.set(text, statement);
        }
        return statement.all(...bound);
      }
    }
  };

  /** A thread's tag, computed once. */
  remembered(threadId: string, compute: () => string): string {
    let tag = this.#tags.get(threadId);
    if (tag === undefined) {
      tag = compute();
      if (this.#tags.size >= TAGS_MAX) this.#tags.clear();
      this.#tags.set(threadId, tag);
    }
    return tag;
  }

  /** Runs the work of a transaction, and then writes the rows of the threads that it has changed. */
  *transaction<T>(work: Program<T>): Program<T> {
    this.threads.clear();
    try {
      const result = yield* work;
      for (const key of this.threads.values()) yield* key.write(this);
      return result;
    } finally {
      this.threads.clear();
    }
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
