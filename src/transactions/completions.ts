import { isJournalOwner, type JournalRow, type Transactions } from "../effects/transactional";
import type { EffectTry } from "../effects/types";
import { describe, TurnsError } from "../errors";
import { checkedOptions } from "../options";
import { z } from "zod";
import { isUnreached, told } from "./failures";

export type Dialect = "postgres" | "sqlite";

/** Options of all adapters. */
export interface TransactionsOptions {
  /** The name of the completion table. Default `turns_completions`. Keep it: under another name, nothing is found. */
  table?: string;
  /** The schema of the completion table, on PostgreSQL. It must exist. Default `public`. */
  schema?: string;
  /** `false`: the table is yours to create, with `createTableSql`. Default `true`: the first effect creates it. */
  createTable?: boolean;
  /**
   * The saver that runs your graphs, if its tables are in the same database: the same SQLite file, or the same PostgreSQL database,
   * and this connection may write them. Then an effect, its completion row and its row in the saver's journal commit together: one
   * commit less. Default: the saver records the outcome in a commit of its own.
   */
  journal?: object;
}

/** {@link TransactionsOptions} where the adapter can't see which database it talks to. */
export interface DialectOptions extends TransactionsOptions {
  /** Default `"postgres"`. */
  dialect?: Dialect;
}

export type Row = Readonly<Record<string, unknown>>;
export type Value = string | number | Uint8Array;
type Maybe<T> = T | Promise<T>;

/** What an adapter gives. A synchronous one returns no promises. */
interface Driver<Db, Sync extends boolean> {
  dialect: Dialect;
  isSync: Sync;
  /** Runs `work` in a new transaction. Commits what it returned; rolls back if it throws, and throws its error or the ROLLBACK's. */
  transaction: <T>(work: (db: Db) => Maybe<T>) => Maybe<T>;
  /** Runs a statement with `?` for its values, in a transaction or by itself. */
  query: (db: Db | undefined, sql: string, values: readonly Value[]) => Maybe<readonly Row[]>;
}

/** One step of a transaction: a statement, or the user's function. */
type Step = { sql: string; values: readonly Value[] } | { call: () => unknown };
type Program<T> = Generator<Step, T, never>;

/** Carries an error out of a transaction that isn't the database's. */
class Thrown extends Error {
  constructor(readonly error: unknown) {
    super("thrown in a transaction", { cause: error });
  }
}

const NAME = /^[A-Za-z_][A-Za-z0-9_]*$/;
const BATCH = 1_000;
/** Thrown to roll a transaction back that only looked. */
const NOT_COMPLETE = new Error("not complete");

const name = () => z.string().regex(NAME, "must be a name of letters, digits and underscores").max(63);
const schema = () =>
  z.strictObject({
    table: name().default("turns_completions"),
    schema: name().default("public"),
    createTable: z.boolean().default(true),
    journal: z.custom<object>(isJournalOwner, "must be the TurnSaver or PostgresTurnSaver that runs your graphs").optional(),
    dialect: z.enum(["postgres", "sqlite"]).default("postgres"),
  });
const pruneSchema = () => z.strictObject({ olderThanMs: z.number().int().min(0), threadId: z.string().optional() });

/**
 * Completion rows of effects, in the database that the effects write to. A row is `begun` only within its transaction, then `done`
 * with the result. `void` cancels the tries up to its own; `undone` is for good.
 */
export class Completions<Db, Sync extends boolean = false> implements Transactions<Db, Sync> {
  readonly isSync: Sync;
  readonly createTableSql: string;
  readonly #driver: Driver<Db, Sync>;
  readonly #table: string;
  readonly #createTable: boolean;
  readonly #journal: object | undefined;
  #isJournalFound = false;
  #ready: Promise<void> | undefined;

  /** @throws {TurnsError} INVALID_OPTION */
  constructor(driver: Driver<Db, Sync>, options: DialectOptions = {}) {
    const checked = checkedOptions(schema, options);
    const isPostgres = driver.dialect === "postgres";
    this.#driver = driver;
    this.isSync = driver.isSync;
    this.#createTable = checked.createTable;
    this.#journal = checked.journal;
    this.#table = isPostgres ? `"${checked.schema}"."${checked.table}"` : `"${checked.table}"`;
    this.createTableSql = `CREATE TABLE IF NOT EXISTS ${this.#table} (
  key text NOT NULL PRIMARY KEY,
  thread text NOT NULL,
  effect text NOT NULL,
  tries integer NOT NULL,
  state text NOT NULL,
  result text,
  at ${isPostgres ? "timestamptz NOT NULL DEFAULT pg_catalog.now()" : "integer NOT NULL DEFAULT (unixepoch())"}
)`;
  }

  async setup(): Promise<void> {
    await this.#asked(this.createTableSql);
  }

  async prune(request: { olderThanMs: number; threadId?: string }): Promise<number> {
    const { olderThanMs, threadId } = checkedOptions(pruneSchema, request);
    const seconds = Math.ceil(olderThanMs / 1_000);
    const isOld =
      this.#driver.dialect === "postgres"
        ? `at <= pg_catalog.now() - interval '${seconds} seconds'`
        : `at <= unixepoch() - ${seconds}`;
    const ofThread = threadId === undefined ? "" : "AND thread = ?";
    const sql = `DELETE FROM ${this.#table} WHERE key IN (
      SELECT key FROM ${this.#table} WHERE ${isOld} ${ofThread} LIMIT ${BATCH}) RETURNING key`;
    let deleted = 0;
    for (;;) {
      const rows = await this.#asked(sql, threadId === undefined ? [] : [threadId]);
      deleted += rows.length;
      if (rows.length < BATCH) return deleted;
    }
  }

  async complete(effect: EffectTry, work: (db: Db) => Maybe<string>, journal?: JournalRow): Promise<string> {
    await this.#isReady();
    const own = journal?.isOf(this.#journal) === true ? journal : undefined;
    if (own !== undefined) await this.#findJournal(own);
    let isFinished = false;
    let isRecorded = false;
    try {
      const text = await this.#inTransaction((db) =>
        this.#completing(
          effect,
          () => work(db),
          own,
          (wasRecorded) => {
            isFinished = true;
            isRecorded = wasRecorded;
          },
        ),
      );
      if (isRecorded) own?.recorded();
      return text;
    } catch (error) {
      // Before its end, a transaction can't have been committed.
      if (!isFinished) throw error;
      return this.#committed(effect, error);
    }
  }

  async find(effect: EffectTry): Promise<string | undefined> {
    await this.#isReady();
    const [row] = await this.#asked(this.#read, [effect.key]);
    return row?.["state"] === "void" ? undefined : this.#textOf(effect, row);
  }

  async cancel(effect: EffectTry): Promise<string | undefined> {
    await this.#isReady();
    // Waits for a transaction that has the row.
    await this.#asked(this.#claim("void"), claimed(effect));
    return this.find(effect);
  }

  async undo(effect: EffectTry, work: (db: Db) => unknown): Promise<void> {
    await this.#isReady();
    const sql = `INSERT INTO ${this.#table} AS c (key, thread, effect, tries, state) VALUES (?, ?, ?, ?, 'undone')
      ON CONFLICT (key) DO UPDATE SET state = 'undone', result = NULL WHERE c.state <> 'undone' RETURNING key`;
    await this.#inTransaction(function* (db): Program<void> {
      const rows: readonly Row[] = yield { sql, values: claimed(effect) };
      if (rows.length > 0) yield* calling(() => work(db));
    });
  }

  *#completing(
    effect: EffectTry,
    work: () => Maybe<string>,
    journal: JournalRow | undefined,
    onFinished: (isRecorded: boolean) => void,
  ): Program<string> {
    const found = yield* this.#claiming(effect);
    if (found !== undefined) return found;
    const text = yield* calling(work);
    const sql = `UPDATE ${this.#table} SET state = 'done', result = ? WHERE key = ? AND state = 'begun' RETURNING key`;
    const rows: readonly Row[] = yield { sql, values: [text, effect.key] };
    if (rows.length === 0) throw endedByItself(effect);
    onFinished(yield* this.#recording(journal));
    return text;
  }

  /** @returns whether the effect's row in the journal is part of this transaction. If it isn't, the journal records it afterwards */
  *#recording(journal: JournalRow | undefined): Program<boolean> {
    const statement = journal?.statement();
    if (statement === undefined) return false;
    const rows: readonly Row[] = yield statement;
    return rows.length > 0;
  }

  /** @returns the text of an effect that is complete; undefined if the row is ours now */
  *#claiming(effect: EffectTry): Program<string | undefined> {
    const rows: readonly Row[] = yield { sql: this.#claim("begun"), values: claimed(effect) };
    if (rows.length > 0) return undefined;
    const [row]: readonly Row[] = yield { sql: this.#read, values: [effect.key] };
    return this.#textOf(effect, row);
  }

  /** After a COMMIT that failed or was never answered: a claim waits until that transaction is over. */
  async #committed(effect: EffectTry, failure: unknown): Promise<string> {
    const { key, name } = effect;
    try {
      return await this.#inTransaction(() => this.#looking(effect));
    } catch (cause) {
      if (cause === NOT_COMPLETE) throw failure;
      throw new TurnsError("COMMIT_IN_DOUBT", {
        problem: `Nobody answered whether the transaction of effect ${JSON.stringify(name)} was committed.`,
        remedy: `Resume when its database can be reached: the effect's key (${key}) is looked up there.`,
        data: { name, key },
        cause: new AggregateError([failure, cause], "the commit failed, and so did the look-up"),
      });
    }
  }

  *#looking(effect: EffectTry): Program<string> {
    const text = yield* this.#claiming(effect);
    if (text === undefined) throw new Thrown(NOT_COMPLETE);
    return text;
  }

  #textOf(effect: EffectTry, row: Row | undefined): string | undefined {
    if (row === undefined) return undefined;
    const { state, result } = row;
    if (state === "done" && typeof result === "string") return result;
    throw state === "begun" ? endedByItself(effect) : fenced(effect, state === "undone" ? "undone" : "canceled");
  }

  get #read(): string {
    return `SELECT state, result FROM ${this.#table} WHERE key = ?`;
  }

  #claim(state: "begun" | "void"): string {
    return `INSERT INTO ${this.#table} AS c (key, thread, effect, tries, state) VALUES (?, ?, ?, ?, '${state}')
      ON CONFLICT (key) DO UPDATE SET state = excluded.state, tries = excluded.tries
      WHERE c.state = 'void' AND c.tries < excluded.tries RETURNING key`;
  }

  /** The table's absence is noticed before a transaction has begun. @throws {TurnsError} COMPLETIONS_UNAVAILABLE, or as {@link told} */
  async #isReady(): Promise<void> {
    this.#ready ??= this.#prepared();
    try {
      await this.#ready;
    } catch (cause) {
      this.#ready = undefined;
      this.#blameTables(cause);
      throw new TurnsError("COMPLETIONS_UNAVAILABLE", {
        problem: `The completion table ${this.#table} can't be read; the reason is the cause.`,
        remedy: `If it isn't there, call setup() of your adapter, or run its createTableSql in a migration. Nothing was done.`,
        data: { table: this.#table },
        cause,
      });
    }
  }

  /** A database that is away or locked, or a statement that was cancelled, says nothing about the tables. @throws what it says instead */
  #blameTables(cause: unknown): void {
    const meaning = this.#told(cause);
    if (meaning.code !== "STORE_FAILED" || meaning.data["sqlstate"] === "57014") throw meaning;
  }

  /** @throws {TurnsError} INVALID_OPTION */
  async #findJournal({ probe }: JournalRow): Promise<void> {
    if (this.#isJournalFound) return;
    try {
      await this.#query(undefined, probe);
      this.#isJournalFound = true;
    } catch (cause) {
      this.#blameTables(cause);
      throw new TurnsError("INVALID_OPTION", {
        problem:
          "The option `journal` of the adapter names a saver whose tables this connection can't write; the reason is the cause.",
        remedy:
          "If the saver has its tables in another database, leave the option out. If they are in this one, give the role the saver's rights on its schema. Nothing was done.",
        data: { option: "journal" },
        cause,
      });
    }
  }

  async #prepared(): Promise<void> {
    const looks = `SELECT key FROM ${this.#table} WHERE 1 = 0`;
    try {
      await this.#query(undefined, looks);
    } catch (error) {
      if (!this.#createTable) throw error;
      // Of several processes that create it at once, one may fail although the table is there.
      const failure = await this.#query(undefined, this.createTableSql).then(
        () => undefined,
        (cause: unknown) => ({ cause }),
      );
      await Promise.resolve(this.#query(undefined, looks)).catch((again: unknown) => {
        throw failure === undefined ? again : failure.cause;
      });
    }
  }

  async #query(db: Db | undefined, sql: string, values: readonly Value[] = []): Promise<readonly Row[]> {
    return this.#driver.query(db, sql, values);
  }

  /** A statement by itself. @throws {TurnsError} as {@link told} */
  async #asked(sql: string, values: readonly Value[] = []): Promise<readonly Row[]> {
    return this.#query(undefined, sql, values).catch((error: unknown) => {
      throw this.#told(error);
    });
  }

  /** @throws what the user's function threw, as it is. Every other error is the database's: a TurnsError, as {@link told} */
  async #inTransaction<T>(program: (db: Db) => Program<T>): Promise<T> {
    const { query, transaction } = this.#driver;
    let first: { error: unknown } | undefined;
    const noting = function* (db: Db): Program<T> {
      try {
        return yield* program(db);
      } catch (error) {
        first = { error };
        throw error;
      }
    };
    try {
      return await transaction((db) =>
        driven(noting(db), (step) => ("call" in step ? step.call() : query(db, step.sql, step.values))),
      );
    } catch (error) {
      // The first error counts. If the ROLLBACK fails too, most libraries throw that.
      const { error: cause } = first ?? { error };
      throw cause instanceof Thrown ? cause.error : this.#told(cause);
    }
  }

  #told(error: unknown): TurnsError {
    const codeName = this.#driver.dialect === "sqlite" ? "sqlite" : "sqlstate";
    return told(error, `The database with the completion table ${this.#table}`, codeName);
  }
}

/** Calls the user's function in its transaction. */
function* calling<T>(work: () => Maybe<T>): Program<T> {
  try {
    return yield { call: work };
  } catch (error) {
    // If the transaction's own connection is lost, this fails too, and the error isn't the function's.
    if (isUnreached(error)) yield { sql: "SELECT 1", values: [] };
    throw new Thrown(error);
  }
}

/** Runs a program to its end: at once as long as no step gives a promise. Errors of steps are thrown in it. */
function driven<T>(program: Program<T>, run: (step: Step) => unknown, next = program.next()): Maybe<T> {
  let at = next;
  while (at.done !== true) {
    let made: unknown;
    try {
      made = run(at.value);
    } catch (error) {
      at = program.throw(error);
      continue;
    }
    if (isThenable(made)) {
      return Promise.resolve(made).then(
        (value: unknown) => driven(program, run, program.next(value as never)),
        (error: unknown) => driven(program, run, program.throw(error)),
      );
    }
    at = program.next(made as never);
  }
  return at.value;
}

/** The queries of some libraries run when they are awaited, and are no promises. */
function isThenable(value: unknown): value is PromiseLike<unknown> {
  return typeof (value as { then?: unknown } | null | undefined)?.then === "function";
}

function claimed({ key, threadId, name, tries }: EffectTry): readonly Value[] {
  return [key, threadId, name, tries];
}

const fenced = ({ name, key, threadId }: EffectTry, how: "undone" | "canceled"): TurnsError =>
  new TurnsError("EFFECT_FENCED", {
    problem: `Effect ${JSON.stringify(name)} of thread ${describe(threadId)} was ${how} by a rewind, and this run of it came late.`,
    remedy: "Its transaction was rolled back. The thread belongs to another process by now, so let this run end.",
    data: { name, key, threadId },
  });

const endedByItself = ({ name, key, threadId }: EffectTry): TurnsError =>
  new TurnsError("STATE_INVARIANT_VIOLATED", {
    problem: `The function of effect ${JSON.stringify(name)} of thread ${describe(threadId)} committed or rolled back its transaction itself.`,
    remedy: `Leave that to the adapter. Look whether the effect happened (its key is ${key}), and delete the row of that key if it didn't.`,
    data: { name, key, threadId },
  });

/** `$1`, `$2` … in place of the question marks. */
export function numbered(sql: string): string {
  let count = 0;
  return sql.replaceAll("?", () => `$${++count}`);
}

/** The statement with its values as literals, for libraries that take bound values only as objects of their own. */
export function withLiterals(sql: string, values: readonly Value[], dialect: Dialect): string {
  let next = 0;
  return sql.replaceAll("?", () => literal(values[next++] as Value, dialect));
}

/** On PostgreSQL as `E'…'`, which doesn't depend on `standard_conforming_strings`. */
function literal(value: Value, dialect: Dialect): string {
  if (typeof value === "number") return String(value);
  if (typeof value !== "string") return `x'${Buffer.from(value).toString("hex")}'`;
  const text = value.replaceAll("'", "''");
  return dialect === "sqlite" ? `'${text}'` : `E'${text.replaceAll("\\", "\\\\")}'`;
}

/** @throws {TurnsError} INVALID_OPTION if a method is missing */
export function checkedHandle(adapter: string, handle: unknown, methods: readonly string[], expected: string): void {
  const given = handle as Record<string, unknown> | null | undefined;
  const missing = methods.find((method) => typeof given?.[method] !== "function");
  if (missing === undefined) return;
  throw new TurnsError("INVALID_OPTION", {
    problem: `${adapter}() was called with ${describe(handle)}, which can't run transactions: it has no method ${describe(missing)}.`,
    remedy: `Pass ${expected}.`,
    data: { adapter, missing },
  });
}
