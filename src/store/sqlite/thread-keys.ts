import { corrupted } from "../checksum";
import { refuseEncrypted } from "./keys";
import type { Program, Sql } from "./sql";

/** A thread as the rows of other tables know it. */
export interface ThreadKey {
  threadId: string;
  thread: number;
  /** Another one as soon as rows of the thread have been deleted or brought back. */
  generation: string;
}

/** What a row of `langgraph_threads` says of its thread, but for how many rows there are. */
export interface ThreadFields {
  thread: number;
  thread_id: string;
  created_at: string;
  epoch: number;
  generation: number;
  pruned_seq: number;
  unswept: number;
}
/** A row of `langgraph_threads` as SQLite returns it. */
export interface RawThread extends ThreadFields {
  tag: string;
  checksum: string;
}
export type ThreadChange = Partial<Pick<ThreadFields, "epoch" | "generation" | "pruned_seq" | "unswept">>;

const COLUMNS = "thread, thread_id, tag, created_at, epoch, generation, pruned_seq, unswept, checksum";
/** Either way, so that a damaged id, or a damaged index, does not make a thread look like one that is not there. */
const OF_ID = `SELECT ${COLUMNS} FROM langgraph_threads WHERE thread_id = ?1 OR tag = ?2`;
const OF_NUMBER = `SELECT ${COLUMNS} FROM langgraph_threads WHERE thread = ?`;
const INSERT = `INSERT INTO langgraph_threads (${COLUMNS}) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?)`;
const CHANGE =
  "UPDATE langgraph_threads SET epoch = ?, generation = ?, pruned_seq = ?, unswept = ?, checksum = ? WHERE thread = ?";
const ID_OF = "SELECT thread_id FROM langgraph_threads WHERE thread = ?";

/** @throws {TurnsError} CHECKPOINT_CORRUPTED if the thread's own row does not verify */
export function* threadKey(sql: Sql, threadId: string): Program<ThreadKey | undefined> {
  const rows = yield* sql.all<RawThread>(OF_ID, threadId, tagOf(sql, threadId));
  const [row] = rows;
  if (row === undefined) return undefined;
  if (rows.length > 1) throw damaged(threadId, "two rows of it");
  return keyOf(yield* verifiedThread(sql, threadId, row));
}

/** The thread as it is on record, damaged or not: for what removes it, or looks what is wrong. */
export function* threadNumbers(sql: Sql, threadId: string): Program<number[]> {
  return (yield* sql.all<RawThread>(OF_ID, threadId, tagOf(sql, threadId))).map(({ thread }) => thread);
}

export function* createThread(sql: Sql, threadId: string, createdAt: string): Program<ThreadKey> {
  if (!sql.sealing.encrypted) yield* refuseEncrypted(sql, `thread ${JSON.stringify(threadId)}`);
  const thread = yield* sql.nextSeq();
  sql.created.add(thread);
  return yield* insertThread(sql, {
    thread,
    thread_id: threadId,
    created_at: createdAt,
    epoch: 0,
    generation: 0,
    pruned_seq: 0,
    unswept: 0,
  });
}

export function* insertThread(sql: Sql, row: ThreadFields): Program<ThreadKey> {
  const { thread, thread_id: threadId, created_at: createdAt, epoch, generation, pruned_seq: pruned, unswept } = row;
  const [tag, checksum] = [tagOf(sql, threadId), threadChecksum(sql, row)];
  yield* sql.run(INSERT, thread, threadId, tag, createdAt, epoch, generation, pruned, unswept, checksum);
  return keyOf(row);
}

/** Rows of the thread are deleted or brought back: what anybody remembers of it no longer counts. */
export function* outdate(sql: Sql, key: ThreadKey): Program<void> {
  yield* changeThread(sql, key, ({ generation }) => ({ generation: generation + 1 }));
}

/** A rewind, or its taking back. */
export function* growEpoch(sql: Sql, key: ThreadKey): Program<void> {
  yield* changeThread(sql, key, ({ epoch }) => ({ epoch: epoch + 1 }));
}

export function* changeThread(
  sql: Sql,
  { thread, threadId }: ThreadKey,
  change: (row: ThreadFields) => ThreadChange,
): Program<void> {
  const row = yield* sql.get<RawThread>(OF_NUMBER, thread);
  if (row === undefined) return;
  const now = { ...(yield* verifiedThread(sql, threadId, row)), ...change(row) };
  yield* sql.run(CHANGE, now.epoch, now.generation, now.pruned_seq, now.unswept, threadChecksum(sql, now), thread);
}

/** What a copy of the thread takes over: its epoch, up to which its effects are, and how far it was pruned. */
export function* inheritedOf(
  sql: Sql,
  { thread, threadId }: ThreadKey,
): Program<{ epoch: number; prunedSeq: number; unswept: number }> {
  const row = yield* sql.get<RawThread>(OF_NUMBER, thread);
  if (row === undefined) return { epoch: 0, prunedSeq: 0, unswept: 0 };
  const { epoch, pruned_seq: prunedSeq, unswept } = yield* verifiedThread(sql, threadId, row);
  return { epoch, prunedSeq, unswept };
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
  const { thread, thread_id: threadId, created_at: createdAt, epoch, generation, pruned_seq: prunedSeq, unswept } = row;
  return sql.sealing.checksum(threadId, "thread", thread, createdAt, epoch, generation, prunedSeq, unswept);
}

function keyOf({ thread, thread_id: threadId, generation }: ThreadFields): ThreadKey {
  return { threadId, thread, generation: `${thread}.${generation}` };
}

function damaged(threadId: string, found: string): Error {
  return corrupted(`thread ${JSON.stringify(threadId)}`, "its row as it was saved", found, { threadId });
}
