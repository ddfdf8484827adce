import { corrupted } from "../checksum";
import { THREADS_MAX } from "../spans";
import { refuseEncrypted } from "./keys";
import type { Program, Sql } from "./sql";
import { ThreadFacts } from "./thread-facts";
import { type ThreadCounts, type ThreadFields, ThreadKey, type ThreadWriter, type WrittenThread } from "./thread-key";
import { writeTurn } from "./turn-rows";

/** A row of `langgraph_threads` as the engine returns it. */
export interface RawThread extends ThreadFields, ThreadCounts {
  tag: string;
  checksum: string;
}

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

/** What writes the rows of keys at the end of a transaction. */
export function writerOn(sql: Sql): ThreadWriter {
  return {
    changes: (key) => {
      sql.changes(key);
    },
    turn: (thread, turn) => writeTurn(sql, thread, turn),
    row: (row) => writeRow(sql, row),
  };
}

function* writeRow(sql: Sql, row: Readonly<ThreadFields & ThreadCounts>): Program<WrittenThread> {
  const { thread, seq, epoch, generation, pruned_seq: pruned, unswept, snapshots, writes, turns, effects, others } = row;
  const checksum = threadChecksum(sql, row);
  const numbers = [seq, epoch, generation, pruned, unswept, snapshots, writes, turns, effects, others];
  yield* sql.run(CHANGE, ...numbers, checksum, thread);
  return { thread, checksum };
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
  const key = new ThreadKey(writerOn(sql), yield* verifiedThread(sql, threadId, row));
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
  const key = new ThreadKey(writerOn(sql), row);
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

function damaged(threadId: string, found: string): Error {
  return corrupted(`thread ${JSON.stringify(threadId)}`, "its row as it was saved", found, { threadId });
}
