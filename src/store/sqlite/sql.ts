import type { Sealing } from "../../sealing";
import { corrupted } from "../checksum";
import { type Bound, type Program, runNow, type Statement } from "../program";
import type { SqliteDatabase, SqliteStatement } from "./driver";

export type { Program } from "../program";

const READ_SEQUENCE = "SELECT value, mirror FROM langgraph_sequence WHERE id = 1";
const WRITE_SEQUENCE = "UPDATE langgraph_sequence SET value = ?1, mirror = -?1 WHERE id = 1";
/** So many tags of threads are remembered. */
const TAGS_MAX = 1_000;

/** Prepared statements of one connection, compiled once per text. Statement texts are constants: values are always bound. */
export class Sql {
  readonly db: SqliteDatabase;
  /** Numbers of threads of which it is known that no row was lost before this connection came. */
  readonly counted = new Set<number>();
  /** Threads that this connection has created: their rows are where it has put them. */
  readonly created = new Set<number>();
  /** Those whose effects have all been verified. */
  readonly journals = new Set<number>();
  /** And those all of whose checkpoints have been. */
  readonly searched = new Set<number>();
  readonly #prepared = new Map<string, SqliteStatement>();
  readonly #raw = new Map<string, SqliteStatement>();
  readonly #tags = new Map<string, string>();
  #sealing: Sealing | undefined;
  /** The last number taken in the transaction that runs. */
  #seq: number | undefined;

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

  /** Takes `count` numbers from the file's one sequence and returns the last of them. Only within {@link numbered}. */
  *nextSeq(count = 1): Program<number> {
    this.#seq = (this.#seq ?? (yield* this.currentSeq())) + count;
    return this.#seq;
  }

  /** The newest number of the file. */
  *currentSeq(): Program<number> {
    if (this.#seq !== undefined) return this.#seq;
    const row = yield* this.get<{ value: number; mirror: number }>(READ_SEQUENCE);
    if (row?.value === undefined || row.mirror !== -row.value) {
      const found = row === undefined ? "none" : `${row.value}, mirrored by ${row.mirror}`;
      throw corrupted("the sequence of this file", "its newest number, and the same below zero", found, {});
    }
    return row.value;
  }

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

  /** Runs the work of a write transaction and writes the sequence back once, whatever it took from it. */
  *numbered<T>(work: Program<T>): Program<T> {
    this.#seq = undefined;
    try {
      const result = yield* work;
      if (this.#seq !== undefined) yield* this.run(WRITE_SEQUENCE, this.#seq);
      return result;
    } finally {
      this.#seq = undefined;
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
