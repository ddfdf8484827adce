import { TurnsError } from "../../errors";
import { corrupted } from "../checksum";
import { firstSeq, SPAN, THREADS_MAX } from "../spans";
import { refuseEncrypted } from "./keys";
import type { TurnRow } from "../store";
import type { Program, Sql } from "./sql";
import { ThreadFacts } from "./thread-facts";
import { writeTurn } from "./turn-rows";

/** What a row of `langgraph_threads` says of its thread, and its checksum is over. `seq` is the last number that was taken. */
export interface ThreadFields {
  thread: number;
  thread_id: string;
  created_at: string;
  seq: number;
  epoch: number;
  generation: number;
  pruned_seq: number;
  unswept: number;
}
/** How many rows there are of the thread. */
export interface ThreadCounts {
  snapshots: number;
  writes: number;
  turns: number;
  effects: number;
  /** Tasks, names and rewinds. */
  others: number;
}
/** A row of `langgraph_threads` as the engine returns it. */
export interface RawThread extends ThreadFields, ThreadCounts {
  tag: string;
  checksum: string;
}
export type ThreadChange = Partial<Pick<ThreadFields, "epoch" | "generation" | "pruned_seq" | "unswept">>;

export const NO_ROWS: ThreadCounts = { snapshots: 0, writes: 0, turns: 0, effects: 0, others: 0 };
const FIELDS = "thread, thread_id, tag, created_at, seq, epoch, generation, pruned_seq, unswept";
const COUNTS = "snapshots, writes, turns, effects, others";
const COLUMNS = `${FIELDS}, ${COUNTS}, checksum`;
/** Either way, so that a damaged id, or a damaged index, does not make a thread look like one that is not there. */
const OF_ID = `SELECT ${COLUMNS} FROM langgraph_threads WHERE thread_id = ? OR tag = ?`;
const INSERT = `INSERT INTO langgraph_threads (${COLUMNS}) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)`;
const CHANGE = `UPDATE langgraph_threads SET seq = ?, epoch = ?, generation = ?, pruned_seq = ?, unswept = ?, snapshots = ?, writes = ?,
  turns = ?, effects = ?, others = ?, checksum = ? WHERE thread = ?`;
const CHECKSUM_OF = "SELECT checksum FROM langgraph_threads WHERE thread = ?";
const ID_OF = "SELECT thread_id FROM langgraph_threads WHERE thread = ?";
/** A number that no thread has or had. That of a leftover is still in use. */
const TAKE_NUMBER = `UPDATE langgraph_settings SET value = 1 + max(value, coalesce((SELECT max(thread) FROM langgraph_threads), 0),
  coalesce((SELECT max(thread) FROM langgraph_leftovers), 0))
  WHERE name = 'threads' AND typeof(value) = 'integer' AND value BETWEEN 0 AND ${THREADS_MAX - 1} RETURNING value`;

/** What one program left for the end of the transaction could not be written, whichever program runs just now. */
export class LeftUnwritten extends Error {
  constructor(override readonly cause: unknown) {
    super("a turn could not be written", { cause });
  }
}

/**
 * A thread as the rows of other tables know it, with its own row. Every commit on a thread takes numbers of it and says how many rows it
 * adds or removes; at the end of the transaction the row is written once.
 */
export class ThreadKey {
  readonly threadId: string;
  readonly thread: number;
  facts = new ThreadFacts();
  readonly #sql: Sql;
  readonly #row: ThreadFields & ThreadCounts;
  /** Turns that are written at the end of the transaction: one that ends in it as well is written once. */
  #turns: TurnRow[] = [];
  #isChanged = false;

  constructor(sql: Sql, row: ThreadFields & ThreadCounts) {
    this.#sql = sql;
    this.#row = row;
    this.threadId = row.thread_id;
    this.thread = row.thread;
  }

  get row(): Readonly<ThreadFields & ThreadCounts> {
    return this.#row;
  }

  /** Another one as soon as rows of the thread have been deleted or brought back. */
  get generation(): string {
    return `${this.thread}.${this.#row.generation}`;
  }

  /** The newest seq of the thread. */
  get newestSeq(): number {
    return firstSeq(this.thread) + this.#row.seq;
  }

  /** Takes the next seq of the thread. @throws {TurnsError} THREAD_FULL */
  nextSeq(): number {
    if (this.#row.seq + 1 >= SPAN) throw full(this.threadId);
    this.#row.seq += 1;
    this.#isChanged = true;
    this.#sql.changes(this);
    return this.newestSeq;
  }

  /** Equal ones mean that nothing was committed on the thread in between. */
  get stamp(): string {
    return `${this.thread} ${this.#row.seq} ${this.#row.generation}`;
  }

  /** So many rows of a kind are added, or removed. */
  count(kind: keyof ThreadCounts, rows = 1): void {
    if (rows === 0) return;
    this.touch();
    this.#row[kind] += rows;
  }

  change(change: ThreadChange | ThreadCounts): void {
    this.touch();
    Object.assign(this.#row, change);
  }

  /** Something of the thread changes. Also a commit without a new row takes a number: it tells others that somebody was here. */
  touch(): void {
    if (!this.#isChanged) this.nextSeq();
  }

  addTurn(turn: TurnRow): void {
    this.#turns.push(turn);
  }

  /** Has a turn written as it is now. @returns whether it was still to be written */
  replaceTurn(turn: TurnRow): boolean {
    const index = this.#turns.findIndex(({ id }) => id === turn.id);
    if (index >= 0) this.#turns[index] = turn;
    return index >= 0;
  }

  /** A part of the transaction was rolled back. */
  restore(row: ThreadFields & ThreadCounts): void {
    Object.assign(this.#row, row);
    this.#turns = [];
    this.facts = new ThreadFacts();
  }

  /** Writes the turns that were left for the end of the transaction. */
  *flush(): Program {
    const turns = this.#turns;
    this.#turns = [];
    try {
      for (const turn of turns) yield* writeTurn(this.#sql, this.thread, turn);
    } catch (error) {
      throw new LeftUnwritten(error);
    }
  }

  /** Writes the thread's own row. */
  *write(): Program<WrittenThread> {
    const sql = this.#sql;
    this.#isChanged = false;
    const { seq, epoch, generation, pruned_seq: pruned, unswept, snapshots, writes, turns, effects, others } = this.#row;
    const checksum = threadChecksum(sql, this.#row);
    yield* sql.run(
      CHANGE,
      seq,
      epoch,
      generation,
      pruned,
      unswept,
      snapshots,
      writes,
      turns,
      effects,
      others,
      checksum,
      this.thread,
    );
    return { thread: this.thread, checksum };
  }
}

/** A thread's row, as a transaction has written it. */
export interface WrittenThread {
  thread: number;
  checksum: string;
}

/** Whether the rows of threads are those that were written. A checksum is over the thread's sequence, which each commit moves on. */
export function* areWritten(sql: Sql, rows: readonly WrittenThread[]): Program<boolean> {
  for (const { thread, checksum } of rows) {
    const row = yield* sql.get<{ checksum: string }>(CHECKSUM_OF, thread);
    if (row?.checksum !== checksum) return false;
  }
  return rows.length > 0;
}

/** @throws {TurnsError} CHECKPOINT_CORRUPTED if the thread's own row does not verify */
export function* threadKey(sql: Sql, threadId: string): Program<ThreadKey | undefined> {
  const known = sql.threads.get(threadId);
  if (known !== undefined) return known;
  const rows = yield* sql.all<RawThread>(OF_ID, threadId, tagOf(sql, threadId));
  const [row] = rows;
  if (row === undefined) return undefined;
  if (rows.length > 1) throw damaged(threadId, "two rows of it");
  const key = new ThreadKey(sql, yield* verifiedThread(sql, threadId, row));
  sql.threads.set(threadId, key);
  return key;
}

/** The thread as it is on record, damaged or not: for what removes it, or looks what is wrong. */
export function* threadNumbers(sql: Sql, threadId: string): Program<number[]> {
  return (yield* sql.all<RawThread>(OF_ID, threadId, tagOf(sql, threadId))).map(({ thread }) => thread);
}

export function* createThread(sql: Sql, threadId: string, createdAt: string): Program<ThreadKey> {
  if (!sql.sealing.encrypted) yield* refuseEncrypted(sql, `thread ${JSON.stringify(threadId)}`);
  return yield* insertThread(sql, {
    thread: yield* takeNumber(sql),
    thread_id: threadId,
    created_at: createdAt,
    seq: 0,
    epoch: 0,
    generation: 0,
    pruned_seq: 0,
    unswept: 0,
  });
}

/** A number for a thread that is about to be. @throws {TurnsError} CHECKPOINT_CORRUPTED if the file doesn't say how many it has had */
export function* takeNumber(sql: Sql): Program<number> {
  const taken = yield* sql.get<{ value: number }>(TAKE_NUMBER);
  if (taken !== undefined) return taken.value;
  throw corrupted("the file's settings", `how many threads it has had, up to ${THREADS_MAX - 1}`, "none, or another value", {});
}

export function* insertThread(sql: Sql, fields: ThreadFields, counts: ThreadCounts = NO_ROWS): Program<ThreadKey> {
  const row = { ...fields, ...counts };
  const { thread, thread_id: threadId, created_at: createdAt, seq, epoch, generation, pruned_seq: pruned, unswept } = row;
  const { snapshots, writes, turns, effects, others } = row;
  const [tag, checksum] = [tagOf(sql, threadId), threadChecksum(sql, row)];
  const values = [seq, epoch, generation, pruned, unswept, snapshots, writes, turns, effects, others];
  yield* sql.run(INSERT, thread, threadId, tag, createdAt, ...values, checksum);
  const key = new ThreadKey(sql, row);
  sql.threads.set(threadId, key);
  return key;
}

/** Rows of the thread are deleted or brought back: what anybody remembers of it no longer counts. */
export function outdate(key: ThreadKey): void {
  key.facts = new ThreadFacts();
  key.change({ generation: key.row.generation + 1 });
}

/** A rewind, or its taking back. */
export function growEpoch(key: ThreadKey): void {
  key.change({ epoch: key.row.epoch + 1 });
}

export function* threadIdOf(sql: Sql, thread: number): Program<string> {
  return (yield* sql.get<{ thread_id: string }>(ID_OF, thread))?.thread_id ?? "";
}

/** @throws {TurnsError} CHECKPOINT_CORRUPTED; ENCRYPTED for a row that was sealed under keys which are not at hand */
export function* verifiedThread(sql: Sql, threadId: string, row: RawThread): Program<RawThread> {
  const isWhole = row.thread_id === threadId && row.tag === tagOf(sql, threadId) && row.checksum === threadChecksum(sql, row);
  if (isWhole) return row;
  if (!sql.sealing.encrypted) yield* refuseEncrypted(sql, `thread ${JSON.stringify(threadId)}`);
  throw damaged(threadId, "one with another checksum");
}

/** A checksum of the id alone; a thread's row is looked up so often that it is remembered. */
export function tagOf(sql: Sql, threadId: string): string {
  return sql.remembered(threadId, () => sql.sealing.checksum(threadId, "thread"));
}

function threadChecksum(sql: Sql, row: ThreadFields): string {
  const { thread, thread_id: threadId, created_at: createdAt, seq, epoch, generation, pruned_seq: prunedSeq, unswept } = row;
  return sql.sealing.checksum(threadId, "thread", thread, createdAt, seq, epoch, generation, prunedSeq, unswept);
}

function full(threadId: string): TurnsError {
  return new TurnsError("THREAD_FULL", {
    problem: `Thread ${JSON.stringify(threadId)} has used all ${SPAN} numbers that a thread has, so nothing more can be saved on it.`,
    remedy:
      "Start a new thread with its state: graph.updateState({ configurable: { thread_id: newId } }, state.values, lastNode), where state " +
      "is what graph.getState gives of this thread. Everything on this one can still be read. A copy would be full too.",
    data: { threadId },
  });
}

function damaged(threadId: string, found: string): Error {
  return corrupted(`thread ${JSON.stringify(threadId)}`, "its row as it was saved", found, { threadId });
}
