import { randomBytes } from "node:crypto";
import { uptime } from "../../system";
import type { Dialect } from "../dialect";
import { CommitInDoubt, type Engine, StaleFacts } from "../engine";
import type { Program, Statement } from "../program";
import type { Awaitable } from "../store";
import { postgresDialect } from "./dialect";
import { type Answer, Connection, type PgPool, type Query } from "./driver";
import { closedError, ConnectionLost, isDoubtful, isPassing, sqlState, translated } from "./failures";
import { Translator } from "./translate";

export interface PostgresEngineOptions {
  /** For messages. */
  name: string;
  /** Unquoted. */
  schema: string;
  /** How long a transaction is tried again while others hold its locks or the server can't be reached, in milliseconds. */
  busyTimeoutMs: number;
  /** Every transaction is READ ONLY, so the server refuses what would change anything. */
  readOnly?: boolean;
}

/**
 * How much longer than for a lock the server may be silent before its connection counts as lost. Then the commit that it owes an
 * answer for is read back.
 */
const SILENCE_MS = 30_000;
/** Average pause before the first retry. Each next one is twice as long, up to the longest. */
const PAUSE_MS = 10;
const LONGEST_PAUSE_MS = 1_000;
/** Taken at load, so that a user's fake timers can't stop a run. */
const later = setTimeout;

const COLUMNS = `SELECT attname FROM pg_catalog.pg_attribute
  WHERE attrelid = to_regclass(?) AND attnum > 0 AND NOT attisdropped ORDER BY attnum`;

/**
 * PostgreSQL over a pool of connections. Each transaction takes a connection of its own, so reads don't hold up writes.
 *
 * A transaction sends what it can together: statements that return nothing wait for the next one that does, or for COMMIT. So a
 * program that asks nothing costs one round trip.
 */
export class PostgresEngine implements Engine {
  readonly name: string;
  readonly dialect: Dialect;
  readonly buffers = true;
  readonly #pool: () => Awaitable<PgPool>;
  readonly #schema: string;
  readonly #translator: Translator;
  readonly #busyTimeoutMs: number;
  readonly #isReadOnly: boolean;
  /** Numbers of this engine's transactions, unlike those of all others. */
  #number = randomBytes(8).readBigInt64BE() >> 8n;
  readonly #underWay = new Set<Promise<unknown>>();
  #isOpen = true;
  #prepare: (() => Promise<void>) | undefined;
  #prepared: Promise<void> | undefined;

  constructor(pool: () => Awaitable<PgPool>, { name, schema, busyTimeoutMs, readOnly = false }: PostgresEngineOptions) {
    this.name = name;
    this.#pool = pool;
    this.#schema = quoted(schema);
    this.dialect = postgresDialect(this.#schema);
    this.#translator = new Translator(this.#schema);
    this.#busyTimeoutMs = busyTimeoutMs;
    this.#isReadOnly = readOnly;
  }

  get open(): boolean {
    return this.#isOpen;
  }

  /**
   * Lets nothing run before this has succeeded. It runs when the first transaction is handed in. If it fails, that transaction
   * fails with its error, and the next one tries again.
   */
  prepareWith(prepare: () => Promise<void>): void {
    this.#prepare = prepare;
  }

  /** {@link write} that doesn't wait for the preparation, because it's a part of it. */
  async first<T>(program: () => Program<T>): Promise<T> {
    return this.#retried(() => this.#written(program()));
  }

  /** Does something on a connection of its own, outside of any transaction; again, if the server can't be reached. */
  async connected<T>(work: (connection: Connection) => Promise<T>): Promise<T> {
    return this.#retried(async () => {
      const connection = await this.#connect();
      try {
        return await work(connection);
      } finally {
        connection.release();
      }
    });
  }

  /** Every transaction waits for the disk. A server may crash while its clients live on and rely on what it has answered. */
  async write<T>(program: () => Program<T>): Promise<T> {
    return this.#underway(() => this.#retried(() => this.#written(program())));
  }

  async read<T>(program: () => Program<T>): Promise<T> {
    return this.#underway(() => this.#retried(() => this.#attempt(program(), READING)));
  }

  /** Guards tell, at the first use of what is remembered. */
  // eslint-disable-next-line require-yield -- there is nothing to ask
  *hasChanged(): Program<boolean> {
    return false;
  }

  hasWritten(): void {
    // Guards need no help.
  }

  *columnsOf(table: string): Program<string[]> {
    const rows = (yield { text: COLUMNS, values: [`${this.#schema}.${table}`], returns: "arrays" }) as [string][];
    return rows.map(([name]) => name);
  }

  meaningOf(error: unknown): unknown {
    return translated(error, this.name);
  }

  codeOf(error: unknown): string {
    return sqlState(error);
  }

  isPassing(error: unknown): boolean {
    return isPassing(error);
  }

  /** Refuses what comes from now on. Resolves when everything handed in before has its outcome. */
  async close(): Promise<void> {
    this.#isOpen = false;
    while (this.#underWay.size > 0) await Promise.allSettled(this.#underWay);
  }

  readonly #connect = async (): Promise<Connection> => Connection.from(await this.#pool(), this.#busyTimeoutMs + SILENCE_MS);

  async #underway<T>(work: () => Promise<T>): Promise<T> {
    if (!this.#isOpen) throw closedError(this.name);
    const done = this.#whenPrepared(work);
    this.#underWay.add(done);
    try {
      return await done;
    } finally {
      this.#underWay.delete(done);
    }
  }

  async #whenPrepared<T>(work: () => Promise<T>): Promise<T> {
    if (this.#prepare === undefined) return work();
    const prepared = (this.#prepared ??= this.#prepare());
    try {
      await prepared;
    } catch (error) {
      if (this.#prepared === prepared) this.#prepared = undefined;
      throw this.meaningOf(error);
    }
    return work();
  }

  async #written<T>(program: Program<T>): Promise<T> {
    if (this.#isReadOnly) return this.#attempt(program, READING);
    const number = String((this.#number += 1n));
    const idleMs = Math.min(Math.max(this.#busyTimeoutMs / 2, SHORTEST_IDLE_MS), LONGEST_IDLE_MS);
    const limits = { text: LIMITS, values: [String(Math.max(1, this.#busyTimeoutMs)), String(idleMs), number] };
    try {
      return await this.#attempt(program, [{ text: BEGIN_WRITE }, limits]);
    } catch (error) {
      if (error instanceof CommitInDoubt) await this.#waitFor(limits);
      throw error;
    }
  }

  /**
   * Waits until a transaction whose commit is in doubt is over: its COMMIT may reach the server after its connection was lost.
   * If that can't be found out, neither can the outcome, and reading back fails as well.
   */
  async #waitFor(limits: Query): Promise<void> {
    const ended = async (connection: Connection): Promise<void> => {
      const answers = await connection.send([{ text: BEGIN_WRITE }, limits, COMMIT]);
      const failed = answers.find((answer) => "error" in answer);
      if (failed !== undefined) throw failed.error as Error;
    };
    await this.connected(ended).catch(() => undefined);
  }

  #attempt<T>(program: Program<T>, opening: readonly Query[]): Promise<T> {
    return new Transaction(this.#connect, this.#translator, opening).run(program);
  }

  async #retried<T>(attempt: () => Promise<T>): Promise<T> {
    const since = uptime();
    for (let pause = PAUSE_MS; ; pause = Math.min(pause * 2, LONGEST_PAUSE_MS)) {
      try {
        return await attempt();
      } catch (error) {
        if (error instanceof CommitInDoubt || error instanceof StaleFacts) throw error;
        if (!isPassing(error) || uptime() - since >= this.#busyTimeoutMs) throw this.meaningOf(error);
      }
      // Random, so that processes that wait for the same thing don't keep in step.
      await new Promise((resolve) => later(resolve, pause * (0.5 + Math.random())));
    }
  }
}

export function quoted(name: string): string {
  return `"${name.replaceAll('"', '""')}"`;
}

/** Guards lock the rows that a commit relies on, so it needs no snapshot that is older than they are. */
const BEGIN_WRITE = "BEGIN ISOLATION LEVEL READ COMMITTED READ WRITE";
const READING = [{ text: "BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY" }];
/**
 * For this transaction alone: who stops in the middle of one (SIGSTOP, a lost network) doesn't hold its locks for ever. The lock on
 * the transaction's own number tells when it is over.
 */
const LIMITS = `SELECT set_config('lock_timeout', $1, true), set_config('idle_in_transaction_session_timeout', $2, true),
  pg_advisory_xact_lock($3::bigint)`;
const SHORTEST_IDLE_MS = 1_000;
const LONGEST_IDLE_MS = 60_000;
const COMMIT = { text: "COMMIT" };
const ROLLBACK = { text: "ROLLBACK" };
/** SQLSTATE of a guard that failed. */
const DIVISION_BY_ZERO = "22012";
/** The program must know at once whether these succeeded. */
const ENDS_A_PART = /^(RELEASE|ROLLBACK) /;
const CHANGES_NOTHING = /^SELECT /;

/** One attempt to run a program. */
class Transaction {
  readonly #connect: () => Promise<Connection>;
  readonly #translator: Translator;
  readonly #opening: readonly Query[];
  /** Statements that wait for one whose answer is needed. */
  #waiting: Statement[] = [];
  #connection: Connection | undefined;
  #hasChanged = false;
  /** The first error since the beginning, unless the program has rolled back the part it was in. */
  #failure: { error: unknown } | undefined;

  constructor(connect: () => Promise<Connection>, translator: Translator, opening: readonly Query[]) {
    this.#connect = connect;
    this.#translator = translator;
    this.#opening = opening;
  }

  /** @throws {StaleFacts}, {@link CommitInDoubt}, {@link ConnectionLost}, the server's error, or the program's own one */
  async run<T>(program: Program<T>): Promise<T> {
    try {
      const result = await this.#carriedOut(program);
      await this.#commit();
      return result;
    } catch (error) {
      this.#end(ROLLBACK);
      throw error;
    }
  }

  async #carriedOut<T>(program: Program<T>): Promise<T> {
    let step = program.next();
    while (step.done !== true) {
      const statement = step.value;
      if (statement.returns === "none" && !ENDS_A_PART.test(statement.text)) {
        this.#waiting.push(statement);
        step = program.next();
        continue;
      }
      let answer: unknown;
      try {
        answer = await this.#ask(statement);
      } catch (error) {
        if (endsAttempt(error)) abandon(program, error);
        step = program.throw(error);
        continue;
      }
      step = program.next(answer);
    }
    return step.value;
  }

  /** Sends a statement behind those that wait. @throws the first error of them */
  async #ask(statement: Statement): Promise<unknown> {
    const answers = await this.#send([...this.#taken(), statement]);
    const own = answers.at(-1) as Answer;
    // What failed since the savepoint has been rolled back with everything else of that part.
    const isRolledBack = statement.text.startsWith("ROLLBACK TO ") && !("error" in own);
    const failed = isRolledBack ? undefined : answers.find((answer) => "error" in answer);
    this.#failure = isRolledBack ? undefined : (this.#failure ?? failed);
    if (failed !== undefined) throw meaningOfGuard(failed.error);
    return resultOf(statement.returns, own);
  }

  async #commit(): Promise<void> {
    const waiting = this.#taken();
    if (waiting.length === 0 && !this.#hasChanged) return this.#end(COMMIT);
    const answers = await this.#send(waiting, [COMMIT]);
    const connection = this.#connection;
    this.#connection = undefined;
    const failed = answers.find((answer) => "error" in answer);
    const isLost = failed?.error instanceof ConnectionLost;
    connection?.release(isLost);
    if (failed !== undefined) {
      // A statement that the server refused has rolled everything back, even if the connection was lost then.
      const isAtCommit = failed === answers.at(-1);
      if (isLost || (isAtCommit && isDoubtful(failed.error))) throw new CommitInDoubt(failed.error);
      throw meaningOfGuard(failed.error);
    }
    const end = answers.at(-1) as Extract<Answer, { command: string }>;
    if (end.command !== "COMMIT") {
      throw (this.#failure?.error as Error | undefined) ?? new ConnectionLost(new Error(`COMMIT became ${end.command}`));
    }
  }

  /** Ends the transaction without waiting. The connection goes back to the pool when it's done. */
  #end(query: Query): void {
    const connection = this.#connection;
    this.#connection = undefined;
    void connection?.send([query]).then(([answer]) => {
      connection.release(answer !== undefined && "error" in answer);
    });
  }

  /** The statements that wait. Guards come first, in ascending order of their threads, so that transactions don't deadlock. */
  #taken(): Statement[] {
    const waiting = this.#waiting;
    this.#waiting = [];
    if (!waiting.some(({ guards }) => guards !== undefined)) return waiting;
    const guards = waiting.filter((statement) => statement.guards !== undefined);
    const others = waiting.filter((statement) => statement.guards === undefined);
    return [...guards.toSorted((left, right) => (left.guards ?? 0) - (right.guards ?? 0)), ...others];
  }

  /** @returns the answers to the statements, and to what follows them */
  async #send(statements: readonly Statement[], rest: readonly Query[] = []): Promise<Answer[]> {
    const queries = statements.map(({ text, values }) => this.#translator.statement(text, values));
    this.#hasChanged ||= statements.some(({ text }) => !CHANGES_NOTHING.test(text));
    if (this.#connection !== undefined) return this.#connection.send([...queries, ...rest]);
    const opening = this.#opening;
    this.#connection = await this.#connect();
    const answers = await this.#connection.send([...opening, ...queries, ...rest]);
    const refused = answers.slice(0, opening.length).find((answer) => "error" in answer);
    return refused === undefined ? answers.slice(opening.length) : [refused, ...answers.slice(opening.length + 1)];
  }
}

/** The program can't do anything about it: the whole attempt has failed. */
function endsAttempt(error: unknown): boolean {
  return error instanceof StaleFacts || isPassing(error);
}

/** Lets a program clean up. @throws the error, also if the program swallows it */
function abandon(program: Program<unknown>, error: unknown): never {
  try {
    if (program.throw(error).done !== true) program.return(undefined);
  } catch {
    // It stopped, with that error or its own one.
  }
  throw error;
}

function meaningOfGuard(error: unknown): unknown {
  return sqlState(error) === DIVISION_BY_ZERO ? new StaleFacts() : error;
}

function resultOf(returns: Statement["returns"], answer: Answer): unknown {
  if ("error" in answer) throw answer.error;
  const { rows, names, count } = answer;
  switch (returns) {
    case "arrays":
      return rows;
    case "count":
      return count;
    case "one":
      return rows[0] === undefined ? undefined : rowObject(names, rows[0]);
    case "all":
      return rows.map((row) => rowObject(names, row));
    case "none":
      return undefined;
  }
}

function rowObject(names: readonly string[], row: readonly unknown[]): Record<string, unknown> {
  const object: Record<string, unknown> = {};
  for (let at = 0; at < names.length; at += 1) object[names[at] as string] = row[at];
  return object;
}
