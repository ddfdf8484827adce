import { randomBytes } from "node:crypto";
import { uptime } from "../../system";
import type { Dialect } from "../dialect";
import { CommitInDoubt, type Engine, StaleFacts } from "../engine";
import type { Program, Statement } from "../program";
import type { Awaitable } from "../store";
import { postgresDialect } from "./dialect";
import type { Answer, Query } from "./batch";
import { Connection, type PgPool } from "./driver";
import {
  closedError,
  ConnectionLost,
  inDoubtError,
  isDoubtful,
  isLostBehind,
  isPassing,
  isSilence,
  sqlState,
  translated,
} from "./failures";
import { ALL_TABLES } from "../tables";
import { nameOf, Translator } from "./translate";
import { later } from "../../timers";

interface PostgresEngineOptions {
  /** For messages. */
  name: string;
  /** Unquoted. */
  schema: string;
  /** How long a transaction is tried again while others hold its locks or the server can't be reached, in milliseconds. */
  busyTimeoutMs: number;
  /** Called when a transaction that wrote was committed. */
  onCommitted?: () => void;
  /** Every transaction is READ ONLY, so the server refuses what would change anything. */
  readOnly?: boolean;
}

/**
 * How much longer than for a lock the server may be silent before its connection counts as lost. Then the commit that it owes an
 * answer for is read back.
 */
const SILENCE_MS = 30_000;
/** How long a connection of the pool is waited for at least, however short the caller's own limit is. */
const SHORTEST_WAIT_MS = 3_000;
/** Average pause before the first retry. Each next one is twice as long, up to the longest. */
const PAUSE_MS = 10;
const LONGEST_PAUSE_MS = 1_000;
/** How long a transaction that got no lock waits for it once more, in milliseconds. */
const LAST_LOCK_MS = 1_000;
/** How often a transaction starts again with all its time: after its own connection fell silent, and after that of the lock's holder. */
const SILENCES_MAX = 2;
/** A number that the server gives a row says nothing about its contents. */
const COLUMNS = `SELECT attname FROM pg_catalog.pg_attribute
  WHERE attrelid = pg_catalog.to_regclass(?)::oid AND attnum > 0 AND NOT attisdropped AND attidentity = '' AND attgenerated = ''
  ORDER BY attnum`;

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
  readonly sendsTogether = true;
  readonly #pool: () => Awaitable<PgPool>;
  readonly #schema: string;
  readonly #translator: Translator;
  readonly #busyTimeoutMs: number;
  readonly #texts: ReturnType<typeof textsOf>;
  readonly #onCommitted: (() => void) | undefined;
  readonly #isReadOnly: boolean;
  /** Numbers of this engine's transactions, unlike those of all others. */
  #number = randomBytes(8).readBigInt64BE() >> 8n;
  /** Those that were committed, and have a mark. */
  #committed: bigint[] = [];
  readonly #underWay = new Set<Promise<unknown>>();
  #isOpen = true;
  #prepare: (() => Promise<void>) | undefined;
  #prepared: Promise<void> | undefined;

  constructor(pool: () => Awaitable<PgPool>, options: PostgresEngineOptions) {
    const { name, schema, busyTimeoutMs, readOnly = false, onCommitted } = options;
    this.name = name;
    this.#pool = pool;
    this.#schema = quoted(schema);
    this.dialect = postgresDialect(this.#schema);
    this.#translator = new Translator(this.#schema);
    this.#texts = textsOf(this.#schema);
    this.#busyTimeoutMs = busyTimeoutMs;
    this.#onCommitted = onCommitted;
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

  /**
   * {@link write} that doesn't wait for the preparation, because it's a part of it. After a commit in doubt it runs again.
   *
   * @param isReading it's {@link read} instead
   */
  async first<T>(program: () => Program<T>, isReading = false): Promise<T> {
    try {
      return await this.#retried(this.#busyTimeoutMs, (lockMs) =>
        isReading ? this.#read(program, lockMs, ROLLBACK) : this.#written(program, lockMs),
      );
    } catch (error) {
      if (!(error instanceof CommitInDoubt)) throw error;
      await error.isCommitted();
      return this.first(program, isReading);
    }
  }

  /**
   * Does something on a connection of its own, outside of any transaction; again, if the server can't be reached.
   *
   * @param work also gets a statement that limits how long those sent behind it, in one piece, wait for a lock
   */
  async connected<T>(work: (connection: Connection, limit: Query) => Promise<T>): Promise<T> {
    return this.#retried(this.#busyTimeoutMs, async (lockMs) => {
      const connection = await this.#connect(lockMs);
      try {
        return await work(connection, lockLimit(lockMs));
      } finally {
        connection.release();
      }
    });
  }

  /** Every transaction waits for the disk. A server may crash while its clients live on and rely on what it has answered. */
  async write<T>(program: () => Program<T>, _durability?: unknown, busyMs = Infinity): Promise<T> {
    const patience = Math.min(busyMs, this.#busyTimeoutMs);
    const value = await this.#underway(() => this.#retried(patience, (lockMs) => this.#written(program, lockMs)));
    this.#onCommitted?.();
    return value;
  }

  async read<T>(program: () => Program<T>): Promise<T> {
    return this.#underway(() => this.#retried(this.#busyTimeoutMs, (lockMs) => this.#read(program, lockMs)));
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

  isCancelled(error: unknown): boolean {
    return sqlState(error) === "57014";
  }

  /** Refuses what comes from now on. Resolves when everything handed in before has its outcome. */
  async close(): Promise<void> {
    this.#isOpen = false;
    while (this.#underWay.size > 0) await Promise.allSettled(this.#underWay);
  }

  /** @param freeMs how long the caller would wait for a lock */
  readonly #connect = async (freeMs: number): Promise<Connection> =>
    Connection.from(await this.#pool(), Math.max(freeMs, SHORTEST_WAIT_MS), this.#busyTimeoutMs + SILENCE_MS);

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

  async #written<T>(program: () => Program<T>, lockMs: number): Promise<T> {
    if (this.#isReadOnly) return this.#read(program, lockMs);
    const number = (this.#number += 1n);
    const idleMs = Math.min(Math.max(this.#busyTimeoutMs / 2, SHORTEST_IDLE_MS), LONGEST_IDLE_MS);
    const limits = [String(lockMs), String(idleMs)];
    // What is sent behind the limits waits for no lock without them: the mark may be the first that does.
    const opening: Query[] = [BEGIN_WRITE, { ...SETTINGS, values: limits }, { ...this.#texts.mark, values: [String(number)] }];
    const old = this.#committed.length < MARKS ? [] : this.#committed.splice(0);
    if (old.length > 0) opening.push({ text: this.#texts.remove, values: [`{${old.join(",")}}`], isMute: true });
    if (number % SWEEP_EVERY === 0n) opening.push({ text: this.#texts.sweep, isMute: true });
    try {
      const result = await this.#transaction(lockMs, opening, ROLLBACK, () => this.#isCommitted(number, limits)).run(program());
      this.#committed.push(number);
      return result;
    } catch (error) {
      this.#committed.push(...old);
      throw error;
    }
  }

  /**
   * What became of a transaction whose COMMIT was sent. Its mark is inserted once more, as a refusal: that waits until the transaction
   * is over, and fails it if the server gets it only later.
   *
   * @throws {TurnsError} STORE_UNAVAILABLE if that can't be found out
   */
  async #isCommitted(number: bigint, limits: readonly string[]): Promise<boolean> {
    const { refuse, isDone } = this.#texts;
    const values = [String(number)];
    const queries = [
      BEGIN_WRITE,
      { text: `SELECT ${LIMITS}`, values: limits },
      { text: refuse, values },
      { text: isDone, values },
      COMMIT,
    ];
    try {
      const found = await this.connected(async (connection) => {
        const answers = await connection.send(queries);
        const failed = answers.find((answer) => "error" in answer);
        if (failed !== undefined) {
          await connection.send([ROLLBACK]);
          throw failed.error as Error;
        }
        return answers[3] as Extract<Answer, { rows: unknown }>;
      });
      const isCommitted = found.rows[0]?.[0] === 1;
      if (isCommitted) this.#committed.push(number);
      return isCommitted;
    } catch (error) {
      throw inDoubtError(error, this.name);
    }
  }

  /**
   * All of a read is one state of the database. The tables are locked before that state is taken: a statement that writes a whole table again, as some
   * forms of ALTER TABLE do, leaves it empty for states that are older. Damaged tables are read, too.
   */
  async #read<T>(program: () => Program<T>, lockMs: number, end = COMMIT): Promise<T> {
    const limits = { text: `SELECT ${LIMITS}`, values: [String(lockMs), String(LONGEST_IDLE_MS)], isMute: true };
    const locked = [{ text: `SET LOCAL lock_timeout TO ${lockMs}`, isMute: true }, this.#texts.lock];
    try {
      return await this.#transaction(lockMs, [BEGIN_READ, ...locked, limits], end).run(program());
    } catch (error) {
      if (!CANNOT_LOCK.includes(sqlState(error))) throw error;
      return this.#transaction(lockMs, [BEGIN_READ, limits], end).run(program());
    }
  }

  /**
   * @param unchanged ends it if nothing was changed
   * @param isCommitted finds out whether its commit was carried out; undefined if it only reads
   */
  #transaction(lockMs: number, opening: readonly Query[], unchanged: Query, isCommitted?: () => Promise<boolean>): Transaction {
    return new Transaction(() => this.#connect(lockMs), this.#translator, { opening, unchanged, isCommitted });
  }

  /**
   * @param busyMs how long it's tried again
   * @param attempt gets how long it may wait for a lock, or for a connection of the pool, in milliseconds
   */
  async #retried<T>(busyMs: number, attempt: (lockMs: number) => Promise<T>): Promise<T> {
    let since = uptime();
    let isLast = false;
    let silences = 0;
    for (let pause = PAUSE_MS; ; pause = Math.min(pause * 2, LONGEST_PAUSE_MS)) {
      try {
        const leftMs = isLast ? Math.min(busyMs, LAST_LOCK_MS) : busyMs - (uptime() - since);
        return await attempt(Math.max(1, Math.ceil(leftMs)));
      } catch (error) {
        if (error instanceof CommitInDoubt || error instanceof StaleFacts) throw error;
        if (!isPassing(error)) throw this.meaningOf(error);
        if (uptime() - since >= busyMs) {
          // A connection that fell silent has used up all the time: this one, or that of the lock's holder. Or this process was stopped.
          const isLocked = sqlState(error) === LOCK_TIMEOUT;
          const wasStopped = sqlState(error) === IDLE_IN_TRANSACTION;
          const wasSilence = isSilence(error) || wasStopped || (isLocked && (await this.#endSilent(busyMs)));
          if (wasSilence && silences < SILENCES_MAX) {
            silences += 1;
            since = uptime();
          } else if (isLocked && !isLast) {
            // Another process that waited for the same lock may have stopped its holder a moment ago.
            isLast = true;
          } else throw this.meaningOf(error);
        }
      }
      // Random, so that processes that wait for the same thing don't keep in step.
      await new Promise((resolve) => later(resolve, pause * (0.5 + Math.random())));
    }
  }

  /**
   * Ends transactions of this package whose clients fell silent in the middle of a batch. The server waits for the rest and keeps their
   * locks. Until all of a batch is there, `idle_in_transaction_session_timeout` doesn't count. Their clients have given them up by now.
   *
   * @returns whether there were any
   */
  async #endSilent(freeMs: number): Promise<boolean> {
    try {
      const connection = await this.#connect(freeMs);
      const values = [String(this.#busyTimeoutMs + SILENCE_MS), `${this.#schema}.langgraph_commits`];
      const [answer] = await connection.send([{ text: this.#texts.endSilent, values }]);
      connection.release();
      return answer !== undefined && !("error" in answer) && answer.rows.length > 0;
    } catch {
      // Then the lock's holder stays, and the caller is told of the lock.
      return false;
    }
  }
}

export function quoted(name: string): string {
  return `"${name.replaceAll('"', '""')}"`;
}

function named(text: string): Query {
  return { text, name: nameOf(text), isMute: true };
}

/**
 * Functions, operators and types are found along search_path, and one that anybody has put into `public` may match better than the server's.
 * So each transaction has a path of its own before it parses anything that could be meant. Until then, and where there is no transaction,
 * statements name `pg_catalog`, and give operators and functions exactly the types that they are declared with. See decision 0047.
 */
export const OWN_PATH = "SET LOCAL search_path TO pg_catalog";

/** Guards lock the rows that a commit relies on, so it needs no snapshot that is older than they are. */
const BEGIN_WRITE = named("BEGIN ISOLATION LEVEL READ COMMITTED");
export const BEGIN_READ = { text: "BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY" };
/** SQLSTATE: a table or the schema isn't there, or is a foreign one, or the role has no rights to one of them. */
export const CANNOT_LOCK = ["42P01", "3F000", "42809", "42501"];
/** For this transaction alone, as all of them. */
const LOCK_LIMIT = "pg_catalog.set_config('lock_timeout', $1, true)";
/** Users of the same pool may have changed both for the session. The driver writes and reads UTF-8. */
const PATH = "pg_catalog.set_config('search_path', 'pg_catalog', true), pg_catalog.set_config('client_encoding', 'UTF8', true)";
/** Who stops in the middle of a transaction (SIGSTOP, a lost network) doesn't hold its locks for ever. A read has some too: migrations wait. */
const LIMITS = `${LOCK_LIMIT}, pg_catalog.set_config('idle_in_transaction_session_timeout', $2, true), ${PATH}`;
/** The server keeps plans. One that reads a whole table because that is small would do so when it has grown. */
const PLANS = "pg_catalog.set_config('enable_seqscan', 'off', true), pg_catalog.set_config('jit', 'off', true)";
const SETTINGS_TEXT = `SELECT pg_catalog.pg_backend_pid(), ${LIMITS}, ${PLANS}`;
const SETTINGS = { text: SETTINGS_TEXT, name: nameOf(SETTINGS_TEXT), tellsServer: true };

/** Limits how long the statements behind it wait for a lock, until the end of the transaction, or of what is sent in one piece. */
function lockLimit(lockMs: number): Query {
  return { text: `SELECT ${LOCK_LIMIT}, ${PATH}`, values: [String(lockMs)], isMute: true };
}

/** So many marks of its own an engine leaves before it removes them. */
const MARKS = 32;
/** One in so many transactions removes the marks that processes have left. */
const SWEEP_EVERY = 4_096n;

/** The statements about the marks of transactions. Each transaction has one: see the migration. */
function textsOf(schema: string) {
  const table = `${schema}.langgraph_commits`;
  const mark = `INSERT INTO ${table} (number, done) VALUES ($1::bigint, 1)`;
  return {
    mark: { text: mark, name: nameOf(mark), isMute: true },
    lock: named(
      `LOCK TABLE ${["langgraph_migrations", ...ALL_TABLES.map(({ name }) => name)].map((name) => `${schema}.${name}`).join(", ")} IN ACCESS SHARE MODE`,
    ),
    remove: `DELETE FROM ${table} WHERE number = ANY($1::bigint[])`,
    refuse: `INSERT INTO ${table} (number, done) VALUES ($1::bigint, 0) ON CONFLICT DO NOTHING`,
    isDone: `UPDATE ${table} SET done = done WHERE number = $1::bigint RETURNING done`,
    sweep: `DELETE FROM ${table} WHERE number IN (
  SELECT number FROM ${table} WHERE made_at < pg_catalog.now() - interval '1 day' LIMIT 10000 FOR UPDATE SKIP LOCKED)`,
    endSilent: `SELECT pg_catalog.pg_terminate_backend(a.pid) FROM pg_catalog.pg_locks AS l JOIN pg_catalog.pg_stat_activity AS a ON a.pid = l.pid
  WHERE a.datname = pg_catalog.current_database() AND a.usename = current_user AND a.state = 'active' AND a.wait_event_type = 'Client'
    AND a.state_change < pg_catalog.clock_timestamp() - $1::double precision * interval '1 millisecond'
    AND l.database = a.datid AND l.relation = pg_catalog.to_regclass($2)::oid AND l.mode = 'RowExclusiveLock' AND l.granted`,
  };
}
const SHORTEST_IDLE_MS = 1_000;
const LONGEST_IDLE_MS = 60_000;
const COMMIT = named("COMMIT");
const ROLLBACK = { text: "ROLLBACK" };
/** SQLSTATE of a lock that others held for too long. */
const LOCK_TIMEOUT = "55P03";
/** The server aborted a transaction in whose middle this process stood still. */
const IDLE_IN_TRANSACTION = "25P03";
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
  readonly #unchanged: Query;
  readonly #isCommitted: (() => Promise<boolean>) | undefined;
  readonly #isReading: boolean;
  /** Statements that wait for one whose answer is needed. */
  #waiting: Statement[] = [];
  #connection: Connection | undefined;
  #hasChanged = false;
  /** The commit was sent and answered. */
  #isOver = false;
  /** The first error since the beginning, unless the program has rolled back the part it was in. */
  #failure: { error: unknown } | undefined;

  constructor(
    connect: () => Promise<Connection>,
    translator: Translator,
    kind: { opening: readonly Query[]; unchanged: Query; isCommitted: (() => Promise<boolean>) | undefined },
  ) {
    this.#connect = connect;
    this.#translator = translator;
    this.#opening = kind.opening;
    this.#unchanged = kind.unchanged;
    this.#isCommitted = kind.isCommitted;
    this.#isReading = kind.isCommitted === undefined;
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
      if (statement.returns === "none" && statement.others === undefined && !ENDS_A_PART.test(statement.text)) {
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

  /** Sends a statement behind those that wait. @throws the first error of them; what {@link run} throws if it's the last */
  async #ask(statement: Statement): Promise<unknown> {
    const { others, isLast = false } = statement;
    const asked = [statement, ...(others ?? [])];
    const sent = [...this.#taken(), ...asked];
    if (isLast) {
      const answers = await this.#sendLast(sent);
      return asked.map(({ returns }, at) => resultOf(returns, answers[sent.length - asked.length + at] as Answer));
    }
    const answers = await this.#send(sent);
    const [own, ...rest] = answers.slice(-asked.length) as [Answer, ...Answer[]];
    // What failed since the savepoint has been rolled back with everything else of that part.
    const isRolledBack = statement.text.startsWith("ROLLBACK TO ") && !("error" in own);
    const failed = isRolledBack ? undefined : answers.find((answer) => "error" in answer);
    this.#failure = isRolledBack ? undefined : (this.#failure ?? failed);
    if (failed !== undefined) throw meaningOfGuard(failed.error);
    if (others === undefined) return resultOf(statement.returns, own);
    return [own, ...rest].map((answer, at) => resultOf((asked[at] as Statement).returns, answer));
  }

  async #commit(): Promise<void> {
    const waiting = this.#taken();
    if (this.#isOver && waiting.length > 0) throw new Error("a statement came after the last one");
    if (this.#isOver) return;
    if (waiting.length === 0 && !this.#hasChanged) return this.#end(this.#unchanged);
    await this.#sendLast(waiting);
  }

  /** Sends statements and the commit. @throws what {@link run} throws */
  async #sendLast(statements: readonly Statement[]): Promise<Answer[]> {
    const answers = await this.#send(statements, [COMMIT]);
    this.#isOver = true;
    const failed = answers.find((answer) => "error" in answer);
    const isLost = failed?.error instanceof ConnectionLost;
    // What was refused still waits for its end.
    if (failed !== undefined && !isLost) this.#end(ROLLBACK);
    this.#connection?.release(isLost);
    this.#connection = undefined;
    if (failed !== undefined) {
      // A statement that the server refused has rolled everything back, even if the connection was lost then.
      const isAtCommit = failed === answers.at(-1);
      const isInDoubt = isLost || isLostBehind(failed.error) || (isAtCommit && isDoubtful(failed.error));
      // Nothing is lost of a transaction that has only read.
      if (isInDoubt && this.#hasChanged && this.#isCommitted !== undefined)
        throw new CommitInDoubt(failed.error, this.#isCommitted);
      throw meaningOfGuard(failed.error);
    }
    const end = answers.at(-1) as Extract<Answer, { command: string }>;
    if (end.command !== "COMMIT") {
      throw (this.#failure?.error as Error | undefined) ?? new ConnectionLost(new Error(`COMMIT became ${end.command}`));
    }
    return answers;
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
    const queries = statements.map(({ text, values, returns }): Query => {
      const isMute = returns === "none" || returns === "count";
      return { ...this.#translator.statement(text, values, !this.#isReading), isMute };
    });
    // In a transaction that only reads, a query may also begin with WITH.
    this.#hasChanged ||= !this.#isReading && statements.some(({ text }) => !CHANGES_NOTHING.test(text));
    const isPatient = statements.some((statement) => statement.isPatient === true);
    if (this.#isOver) throw new Error("a statement came after the last one");
    if (this.#connection !== undefined) return this.#connection.send([...queries, ...rest], isPatient);
    const opening = this.#opening;
    this.#connection = await this.#connect();
    const answers = await this.#connection.send([...opening, ...queries, ...rest], isPatient);
    const refused = answers.slice(0, opening.length).find((answer) => "error" in answer);
    return refused === undefined ? answers.slice(opening.length) : [refused, ...answers.slice(opening.length + 1)];
  }
}

/** The program can't do anything about it: the whole attempt has failed. */
function endsAttempt(error: unknown): boolean {
  return error instanceof StaleFacts || error instanceof CommitInDoubt || isPassing(error);
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
