import { corrupted } from "../refusals";
import type { Program } from "../program";
import { THREAD_ROWS } from "../rows";
import type { Session, WrittenThread } from "../session";
import { THREADS_MAX } from "../spans";
import { refuseEncrypted } from "./keys";
import { type RawOf, type THREADS, REWINDS, rowsOfThread, type Table, THREAD_TABLES } from "../tables";
import { ThreadFacts, type ThreadCounts, type ThreadFields, ThreadState } from "../thread-state";

export type RawThread = RawOf<typeof THREADS>;

export const NO_ROWS: ThreadCounts = { snapshots: 0, writes: 0, turns: 0, effects: 0, others: 0 };
const NEW = { seq: 0, epoch: 0, generation: 0, prunedSeq: 0, unswept: 0, ...NO_ROWS };
/** Either way, so that a damaged id, or a damaged index, does not make a thread look like one that is not there. */
const OF_ID = THREAD_ROWS.select("WHERE thread_id = ? OR tag = ?");
const CHECKSUM_OF = "SELECT checksum FROM langgraph_threads WHERE thread = ?";
const ID_OF = "SELECT thread_id FROM langgraph_threads WHERE thread = ?";
/** A number that no thread has or had. That of a leftover is still in use. */
const TAKE_NUMBER = `UPDATE langgraph_settings SET value = 1 + max(value, coalesce((SELECT max(thread) FROM langgraph_threads), 0),
  coalesce((SELECT max(thread) FROM langgraph_leftovers), 0))
  WHERE name = 'threads' AND typeof(value) = 'integer' AND value BETWEEN 0 AND ${THREADS_MAX - 1} RETURNING value`;

/** Whether the rows of threads are those that were written. A checksum is over the thread's sequence, which each commit moves on. */
export function* areWritten(session: Session, rows: readonly WrittenThread[]): Program<boolean> {
  for (const { thread, checksum } of rows) {
    const row = yield* session.get<{ checksum: string }>(CHECKSUM_OF, thread);
    if (row?.checksum !== checksum) return false;
  }
  return rows.length > 0;
}

/** @throws {TurnsError} CHECKPOINT_CORRUPTED if the thread's own row does not verify */
export function* threadKey(session: Session, threadId: string): Program<ThreadState | undefined> {
  const known = session.threads.get(threadId);
  if (known !== undefined) return known;
  const rows = yield* session.all<RawThread>(OF_ID, threadId, tagOf(session, threadId));
  const [row] = rows;
  if (row === undefined) return undefined;
  if (rows.length > 1) throw damaged(threadId, "two rows of it");
  const key = new ThreadState(session.changed, yield* verifiedThread(session, threadId, row));
  session.threads.set(threadId, key);
  return key;
}

/** The thread as it is on record, damaged or not: for what removes it, or looks what is wrong. */
export function* threadNumbers(session: Session, threadId: string): Program<number[]> {
  return (yield* session.all<RawThread>(OF_ID, threadId, tagOf(session, threadId))).map(({ thread }) => thread);
}

export function* createThread(session: Session, threadId: string, createdAt: string): Program<ThreadState> {
  if (!session.sealing.encrypted) yield* refuseEncrypted(session, `thread ${JSON.stringify(threadId)}`);
  return yield* insertThread(session, newThread(session, yield* takeNumber(session), threadId, createdAt));
}

/** A number for a thread that is about to be. @throws {TurnsError} CHECKPOINT_CORRUPTED if the file doesn't say how many it has had */
export function* takeNumber(session: Session): Program<number> {
  const taken = yield* session.get<{ value: number }>(TAKE_NUMBER);
  if (taken !== undefined) return taken.value;
  throw corrupted("the file's settings", `how many threads it has had, up to ${THREADS_MAX - 1}`, "none, or another value", {});
}

export function newThread(session: Session, thread: number, threadId: string, createdAt: string): ThreadFields {
  return { thread, threadId, tag: tagOf(session, threadId), createdAt, ...NEW };
}

export function* insertThread(session: Session, row: ThreadFields): Program<ThreadState> {
  yield* session.run(THREAD_ROWS.insert, ...THREAD_ROWS.values(session.sealing, row, row));
  const key = new ThreadState(session.changed, row);
  session.threads.set(row.threadId, key);
  return key;
}

/** Rows of the thread are deleted or brought back: what anybody remembers of it no longer counts. */
export function outdate(key: ThreadState): void {
  key.facts = new ThreadFacts();
  key.change({ generation: key.row.generation + 1 });
}

/** A rewind, or its taking back. */
export function growEpoch(key: ThreadState): void {
  key.change({ epoch: key.row.epoch + 1 });
}

export function* threadIdOf(session: Session, thread: number): Program<string> {
  return (yield* session.get<{ thread_id: string }>(ID_OF, thread))?.thread_id ?? "";
}

/** @throws {TurnsError} CHECKPOINT_CORRUPTED; ENCRYPTED for a row that was sealed under keys which are not at hand */
export function* verifiedThread(session: Session, threadId: string, row: RawThread): Program<ThreadFields> {
  const isOwn = row.thread_id === threadId && row.tag === tagOf(session, threadId);
  if (isOwn && row.checksum === THREAD_ROWS.checksum(session.sealing, threadId, row))
    return THREAD_ROWS.unverified(threadId, row);
  if (!session.sealing.encrypted) yield* refuseEncrypted(session, `thread ${JSON.stringify(threadId)}`);
  throw damaged(threadId, "one with another checksum");
}

/** A checksum of the id alone; a thread's row is looked up so often that it is remembered. */
export function tagOf(session: Session, threadId: string): string {
  return session.remembered(threadId, () => session.sealing.checksum(threadId, "thread"));
}

function damaged(threadId: string, found: string): Error {
  return corrupted(`thread ${JSON.stringify(threadId)}`, "its row as it was saved", found, { threadId });
}

const COUNTED_TABLES: readonly Table[] = [...THREAD_TABLES, REWINDS];
const KINDS = Object.keys(NO_ROWS) as (keyof ThreadCounts)[];
const ON_RECORD = `SELECT ${KINDS.join(", ")} FROM langgraph_threads WHERE thread = ?`;
const SUMS = KINDS.map(
  (kind) =>
    `${COUNTED_TABLES.filter(({ counted }) => counted === kind)
      .map(counting)
      .join(" + ")} AS ${kind}`,
);
const COUNTED = `SELECT ${SUMS.join(", ")}`;

/** A turn without a number would be read by nobody. */
function counting(table: Table): string {
  const rows = table.columns["seq"]?.nullable === true ? "count(seq)" : "count(*)";
  return `(SELECT ${rows} FROM ${table.name} WHERE ${rowsOfThread(table)})`;
}

type Numbered = Pick<ThreadState, "thread" | "threadId">;

/** How many rows there are of a thread, by what is on record. */
export function* countsOf(session: Session, { thread }: Pick<Numbered, "thread">): Program<ThreadCounts | undefined> {
  return yield* session.get<ThreadCounts>(ON_RECORD, thread);
}

/** How many rows there are under a thread's number, counted. */
export function* countedRows(session: Session, { thread, threadId }: Numbered): Program<ThreadCounts | undefined> {
  return yield* session.get<ThreadCounts>(COUNTED, thread, threadId);
}

/** The first kind of rows of which there are more, or fewer, than on record. */
export function* miscounted(
  session: Session,
  at: Numbered,
): Program<{ kind: string; expected: number; found: number } | undefined> {
  const recorded = yield* countsOf(session, at);
  const there = yield* countedRows(session, at);
  if (recorded === undefined || there === undefined) return undefined;
  const kind = KINDS.find((one) => recorded[one] !== there[one]);
  return kind && { kind, expected: recorded[kind], found: there[kind] };
}

/**
 * The thread, for whoever goes on from it after a crash: a row that was lost leaves nothing behind that would not verify, so the rows are
 * counted. That an index agrees with its table is `verify()`'s to find.
 *
 * @throws {TurnsError} CHECKPOINT_CORRUPTED
 */
export function* countedThread(session: Session, threadId: string): Program<ThreadState | undefined> {
  const key = yield* threadKey(session, threadId);
  const wrong = key && (yield* miscounted(session, key));
  if (wrong === undefined) return key;
  throw corrupted(`thread ${JSON.stringify(threadId)}`, `${wrong.expected} rows of ${wrong.kind}`, `${wrong.found}`, {
    threadId,
  });
}

/** After rows were removed or brought back by their range, what is there is what there is to be. */
export function* recount(session: Session, key: ThreadState): Program {
  const there = yield* countedRows(session, key);
  if (there !== undefined) key.change(there);
}
