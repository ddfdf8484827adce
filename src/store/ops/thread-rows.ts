import { TurnsError } from "../../errors";
import { plainSealing } from "../../sealing";
import type { Program } from "../program";
import { corrupted, leaseLost, runOver, threadMoved } from "../refusals";
import { THREAD_ROWS, TOMBSTONE_ROWS, RUN_ROWS } from "../rows";
import type { Session, WrittenThread } from "../session";
import { THREADS_MAX } from "../spans";
import type { Lease, SawDeletion, SawEpoch, RunRow } from "../store";
import {
  type RawOf,
  type THREADS,
  REWINDS,
  rowsOfThread,
  type Table,
  THREAD_TABLES,
  type TOMBSTONES,
  type RUNS,
} from "../tables";
import { ThreadFacts, type ThreadCounts, type ThreadFields, ThreadState, type Deletion, headKey } from "../thread-state";
import { refuseEncrypted } from "./keys";

export type RawThread = RawOf<typeof THREADS>;
export type RawRun = RawOf<typeof RUNS>;

export const NO_ROWS: ThreadCounts = { snapshots: 0, writes: 0, turns: 0, effects: 0, others: 0 };
const NEW = {
  seq: 0,
  epoch: 0,
  generation: 0,
  prunedSeq: 0,
  unswept: 0,
  ...NO_ROWS,
  arrived: undefined,
  movedTo: undefined,
  gone: false,
};
/** Matches id or tag, so that a thread with a damaged id or index doesn't look missing. */
export const OF_ID = THREAD_ROWS.select("WHERE thread_id = ? OR tag = ?");
const CHECKSUM_OF = "SELECT checksum FROM langgraph_threads WHERE thread = ?";
const ID_OF = "SELECT thread_id FROM langgraph_threads WHERE thread = ?";
/** Matches id or tag, so that a deletion with a damaged id doesn't look as if it never happened. */
export const TOMBSTONE_OF = TOMBSTONE_ROWS.select("WHERE thread_id = ?1 OR tag = ?2");
const REMOVE_TOMBSTONE = "DELETE FROM langgraph_tombstones WHERE thread_id = ?1 OR tag = ?2";
const HAS_CHECKPOINT =
  "SELECT 1 FROM langgraph_snapshots WHERE thread = ? AND checkpoint_ns = ? AND checkpoint_id = ? AND superseded_by IS NULL";
/** A row that is under another thread because of damage must not block this one. */
const HOLDS = "SELECT 1 FROM langgraph_runs WHERE run_id = ? AND thread_id = ?";
const RUNS_OF = RUN_ROWS.select("WHERE thread_id = ?");

/**
 * Whether the rows of threads are those that were written. A checksum covers the thread's sequence, which each commit advances.
 */
export function* areWritten(session: Session, rows: readonly WrittenThread[]): Program<boolean> {
  for (const { thread, checksum } of rows) {
    const row = yield* session.get<{ checksum: string }>(CHECKSUM_OF, thread);
    if (row?.checksum !== checksum) return false;
  }
  return rows.length > 0;
}

/** @throws {TurnsError} CHECKPOINT_CORRUPTED if the thread's own row does not verify; THREAD_MOVED if only a signpost is left */
export function* threadKey(session: Session, threadId: string): Program<ThreadState | undefined> {
  const key = yield* threadOrSignpost(session, threadId);
  if (key?.row.gone === true) throw threadMoved(key.row);
  return key;
}

/** @throws {TurnsError} THREAD_MOVED if the thread is somewhere else, or on its way there */
export function refuseMoved({ row }: ThreadState): void {
  if (row.movedTo !== undefined) throw threadMoved(row);
}

/** {@link threadKey} that also finds what is left of a thread that moved to another database. */
export function* threadOrSignpost(session: Session, threadId: string): Program<ThreadState | undefined> {
  const known = yield* session.known(threadId);
  if (known !== undefined) return known;
  const rows = yield* session.all<RawThread>(session.locking(OF_ID), threadId, tagOf(session, threadId));
  const [row] = rows;
  if (row === undefined) return undefined;
  if (rows.length > 1) throw damaged(threadId, "two rows of it");
  const key = new ThreadState(session.changed, yield* verifiedThread(session, threadId, row), session.engine.provisional);
  session.rememberRead(key);
  return key;
}

/** The numbers of the thread's rows, damaged or not: for removing the thread, or for finding out what is wrong. */
export function* threadNumbers(session: Session, threadId: string): Program<number[]> {
  return (yield* session.all<RawThread>(OF_ID, threadId, tagOf(session, threadId))).map(({ thread }) => thread);
}

/** {@link threadKey} for a program that may create it: nobody else does so until the end of the transaction. */
function* threadToCreate(session: Session, threadId: string): Program<ThreadState | undefined> {
  const key = yield* threadKey(session, threadId);
  if (key !== undefined || session.engine.dialect.lockText === undefined) return key;
  yield* session.lock(threadId);
  return yield* threadKey(session, threadId);
}

function* createThread(session: Session, threadId: string, createdAt: string): Program<ThreadState> {
  if (!session.sealing.encrypted) yield* refuseEncrypted(session, `Thread ${JSON.stringify(threadId)}`);
  return yield* insertEmpty(session, yield* takeNumber(session), threadId, createdAt);
}

/** A thread without rows of its own is known completely. */
function* insertEmpty(session: Session, thread: number, threadId: string, createdAt: string): Program<ThreadState> {
  const key = yield* insertThread(session, newThread(session, thread, threadId, createdAt));
  key.facts.tasks = { current: undefined, lastRun: undefined };
  key.facts.greatestIds.set("", null);
  key.facts.areGraphsKnown = true;
  return key;
}

/**
 * A number for a new thread.
 * @throws {TurnsError} CHECKPOINT_CORRUPTED if the file doesn't say how many it has had
 */
export function* takeNumber(session: Session): Program<number> {
  const taken = yield* session.get<{ value: number }>(session.engine.dialect.takeNumber);
  if (taken !== undefined) return taken.value;
  throw corrupted("the file's settings", `how many threads it has had, up to ${THREADS_MAX - 1}`, "none, or another value", {});
}

export function newThread(session: Session, thread: number, threadId: string, createdAt: string): ThreadFields {
  return { thread, threadId, tag: tagOf(session, threadId), createdAt, ...NEW };
}

export function* insertThread(session: Session, row: ThreadFields): Program<ThreadState> {
  const values = THREAD_ROWS.values(session.sealing, row, row);
  yield* session.run(THREAD_ROWS.insert, ...values);
  const key = new ThreadState(session.changed, row, session.engine.provisional);
  session.made(key, { thread: row.thread, checksum: values.at(-1) as string });
  return key;
}

/** Notes that rows of the thread are deleted or restored: all remembered facts become invalid. */
export function outdate(key: ThreadState): void {
  key.facts = new ThreadFacts();
  key.change({ generation: key.row.generation + 1 });
}

/** For a rewind, and for taking it back. */
export function growEpoch(key: ThreadState): void {
  key.change({ epoch: key.row.epoch + 1 });
}

export function* threadIdOf(session: Session, thread: number): Program<string> {
  for (const known of session.threads.values()) if (known.thread === thread) return known.threadId;
  return (yield* session.get<{ thread_id: string }>(ID_OF, thread))?.thread_id ?? "";
}

/** @throws {TurnsError} CHECKPOINT_CORRUPTED; ENCRYPTED for a row that was sealed under keys which aren't available */
export function* verifiedThread(session: Session, threadId: string, row: RawThread): Program<ThreadFields> {
  if (isIntact(session, threadId, row)) return THREAD_ROWS.unverified(threadId, row);
  if (!session.sealing.encrypted) yield* refuseEncrypted(session, `Thread ${JSON.stringify(threadId)}`);
  throw damaged(threadId, "one with another checksum");
}

export function isIntact(session: Session, threadId: string, row: RawThread): boolean {
  const isOwn = row.thread_id === threadId && row.tag === tagOf(session, threadId);
  return isOwn && row.checksum === THREAD_ROWS.checksum(session.sealing, threadId, row);
}

/** A checksum of the id alone. It's remembered, because threads are looked up so often. */
export function tagOf(session: Session, threadId: string): string {
  return session.remembered(threadId, () => session.sealing.checksum(threadId, "thread"));
}

function damaged(threadId: string, found: string): Error {
  return corrupted(`thread ${JSON.stringify(threadId)}`, "its row as it was saved", found, { threadId });
}

/** How a save says where it belongs. */
export interface Entry {
  /** It may be the first of a new thread. */
  begins: boolean;
  /** Whether the existing thread has the checkpoint that the save continues from. */
  belongs: (thread: ThreadState) => Program<boolean>;
  /** The checkpoint that the save continues or belongs to. */
  refersTo: string | undefined;
  sawDeletion: SawDeletion;
  sawEpoch?: SawEpoch;
  lease: Lease | undefined;
}

/**
 * The thread that a save goes to, created if there is none yet.
 *
 * @throws {TurnsError} THREAD_DELETED for a save that continues something deleted: it would restore a part of the thread
 *   (langgraph#7206). A new start under the id makes a new thread, unless the deletion was final. LEASE_LOST for a run that lost
 *   its thread to another one. CHECKPOINT_NOT_FOUND for a run whose thread was rewound meanwhile: it would restore what was
 *   removed.
 */
export function* enterThread(session: Session, threadId: string, createdAt: string, entry: Entry): Program<ThreadState> {
  const thread = session.awaited.get(threadId);
  if (thread !== undefined && isHeld(session, entry.lease))
    return yield* enterAwaited(session, { threadId, thread, createdAt }, entry.lease);
  const key = yield* threadToCreate(session, threadId);
  const grave = key === undefined ? yield* tombstoneOf(session, threadId) : yield* deletionKnown(session, key);
  if (grave !== undefined && (grave.final || (yield* isLate(key, entry, grave.deletedAt)))) {
    throw threadDeleted(threadId, grave.deletedAt, grave.final);
  }
  yield* checkLease(session, entry.lease);
  // The epoch only grows. A smaller one belongs to a thread that was deleted and started again, and the check above has handled
  // such a save.
  if (entry.sawEpoch !== undefined && entry.sawEpoch < (key?.row.epoch ?? 0)) throw rewound(threadId, entry.refersTo);
  if (key !== undefined) return key;
  const created = yield* createThread(session, threadId, createdAt);
  created.facts.deletion = grave ?? null;
  rememberLease(session, entry.lease);
  return created;
}

/**
 * {@link enterThread} on a thread that was missing when the run started. Nothing is read: the transaction fails if the thread was
 * created or deleted since, or the run has lost its lease.
 *
 * @throws {StaleFacts} now or later
 */
function* enterAwaited(
  session: Session,
  { threadId, thread, createdAt }: { threadId: string; thread: number; createdAt: string },
  lease: Lease | undefined,
): Program<ThreadState> {
  const { guardsOfNew: guards } = session.engine.dialect;
  session.awaited.delete(threadId);
  yield* session.lock(threadId);
  if (guards !== undefined) {
    yield* session.run(guards.thread, threadId, tagOf(session, threadId));
    if (!session.sealing.encrypted) yield* session.run(guards.unencrypted);
    if (lease !== undefined) yield* session.run(guards.lease, lease.runId, lease.threadId);
  }
  const key = yield* insertEmpty(session, thread, threadId, createdAt);
  key.facts.deletion = null;
  rememberLease(session, lease);
  return key;
}

/** Checked by the current transaction, which has begun the thread since. */
function rememberLease(session: Session, lease: Lease | undefined): void {
  if (lease !== undefined) session.leases.set(lease.runId, lease.threadId);
}

function isHeld(session: Session, lease: Lease | undefined): boolean {
  return lease === undefined || session.leases.get(lease.runId) === lease.threadId;
}

/** The tombstone of the thread's id, if there is one; looked up once. */
function* deletionKnown(session: Session, { threadId, facts }: ThreadState): Program<Deletion | undefined> {
  if (facts.deletion === undefined) facts.deletion = (yield* tombstoneOf(session, threadId)) ?? null;
  return facts.deletion === null ? undefined : facts.deletion;
}

/**
 * A save is late if its run began before the deletion. The checkpoint that it continues proves nothing then: a late run of a
 * graph with `checkpointer: true` reads the new thread's memory and continues from it.
 *
 * If no run is known, as for a save by hand, the checkpoint that it continues must exist. The checkpoint's id contains a time and
 * proves nothing: clocks get changed.
 */
function* isLate(key: ThreadState | undefined, entry: Entry, deletedAt: number): Program<boolean> {
  if (entry.sawDeletion !== undefined) return entry.sawDeletion !== deletedAt;
  if (key !== undefined && (yield* entry.belongs(key))) return false;
  if (entry.begins) return false;
  return entry.refersTo !== undefined || key === undefined;
}

export function* isThere(session: Session, { thread, facts }: ThreadState, ns: string, checkpointId: string): Program<boolean> {
  if (facts.heads.get(headKey(ns, checkpointId)) !== undefined) return true;
  return (yield* session.get(HAS_CHECKPOINT, thread, ns, checkpointId)) !== undefined;
}

/** The time of the thread's last deletion, 0 for none. */
export function* deletionOf(session: Session, threadId: string): Program<number> {
  return (yield* tombstoneOf(session, threadId))?.deletedAt ?? 0;
}

export function* foundBy(session: Session, threadId: string): Program<{ deletion: number; epoch: number }> {
  return { deletion: yield* deletionOf(session, threadId), epoch: (yield* threadKey(session, threadId))?.row.epoch ?? 0 };
}

/** No two deletions of a thread have the same time, so that runs can tell them apart. */
export function* bury(session: Session, threadId: string, deletedAt: number, final: boolean): Program<void> {
  yield* saveTombstone(session, threadId, Math.max(deletedAt, (yield* deletionOf(session, threadId)) + 1), final);
}

/** The id may be used again, but not by runs that were running when it was deleted. */
export function* allowAgain(session: Session, threadId: string): Program<void> {
  const grave = yield* tombstoneOf(session, threadId);
  if (grave !== undefined) yield* saveTombstone(session, threadId, grave.deletedAt, false);
}

/** Forgets too that the thread moved to another database. @returns whether there was a tombstone, or such a move */
export function* removeTombstone(session: Session, threadId: string): Program<boolean> {
  yield* session.lock(threadId);
  const key = yield* threadOrSignpost(session, threadId);
  const hasMoved = key?.row.movedTo !== undefined;
  if (hasMoved && !key.row.gone) yield* sayWhere(session, key, undefined);
  yield* showInThread(session, threadId);
  if (hasMoved && key.row.gone) yield* session.run("DELETE FROM langgraph_threads WHERE thread = ?", key.thread);
  session.threads.delete(threadId);
  return (yield* session.changes(REMOVE_TOMBSTONE, threadId, tagOf(session, threadId))) > 0 || hasMoved;
}

/** Writes where a thread moves to; undefined if it stays. */
export function* sayWhere(session: Session, key: ThreadState, movedTo: string | undefined): Program {
  yield* session.run("UPDATE langgraph_threads SET moved_to = ? WHERE thread = ?", movedTo ?? null, key.thread);
  key.moves(movedTo);
}

/**
 * For a thread that comes from another database: runs that its deletion there would have refused are refused here.
 * @throws {TurnsError} THREAD_DELETED if the id was deleted here for good
 */
export function* carryDeletion(session: Session, threadId: string, deletedAt: number): Program {
  const grave = yield* tombstoneOf(session, threadId);
  if (grave?.final === true) throw threadDeleted(threadId, grave.deletedAt, true);
  if (deletedAt > (grave?.deletedAt ?? 0)) yield* saveTombstone(session, threadId, deletedAt, false);
}

/** @throws {TurnsError} CHECKPOINT_CORRUPTED */
export function* tombstoneOf(session: Session, threadId: string): Program<Deletion | undefined> {
  const row = yield* session.get<RawOf<typeof TOMBSTONES>>(TOMBSTONE_OF, threadId, tagOf(session, threadId));
  return row && TOMBSTONE_ROWS.parse(session.sealing, threadId, row);
}

function* saveTombstone(session: Session, threadId: string, deletedAt: number, final: boolean): Program<void> {
  session.threads.delete(threadId);
  yield* session.run(REMOVE_TOMBSTONE, threadId, tagOf(session, threadId));
  const row = { threadId, tag: tagOf(session, threadId), deletedAt, final };
  yield* session.run(TOMBSTONE_ROWS.insert, ...TOMBSTONE_ROWS.values(session.sealing, { thread: null, threadId }, row));
}

/** @param checkpointId the checkpoint that the save continues from, or belongs to */
export function rewound(threadId: string, checkpointId: string | undefined): TurnsError {
  return new TurnsError("CHECKPOINT_NOT_FOUND", {
    problem: `Thread ${JSON.stringify(threadId)} was rewound during a run, so what the run saves now is refused (on checkpoint ${checkpointId}).`,
    remedy:
      "Nothing was saved. Stop the run, and call invoke again without a checkpoint_id: it continues from the thread's newest checkpoint.",
    data: { threadId, checkpointId },
  });
}

function threadDeleted(threadId: string, deletedAt: number, final: boolean): TurnsError {
  return new TurnsError("THREAD_DELETED", {
    problem: `Thread ${JSON.stringify(threadId)} was deleted${final ? " for good" : ""} at ${new Date(deletedAt).toISOString()}.`,
    remedy:
      "Nothing was saved. Stop the run that is still working on it; saver.retention.reuseThread(threadId) allows the id again.",
    data: { threadId },
  });
}

/**
 * The fence: checked in the transaction of every commit of a run. What is remembered of the lease holds as long as the thread's
 * row is as it's remembered. A run's row is removed only when the run releases it, or when
 * somebody took the run for dead. An id is never used again.
 *
 * @throws {TurnsError} LEASE_LOST
 */
export function* checkLease(session: Session, lease: Lease | undefined): Program<void> {
  if (lease === undefined) return;
  const { runId, threadId } = lease;
  const isSure = session.engine.dialect.guards === undefined || (yield* session.known(threadId)) !== undefined;
  if (isSure && session.leases.get(runId) === threadId) return;
  if ((yield* session.get(session.sharing(HOLDS), runId, threadId)) !== undefined)
    return void session.leases.set(runId, threadId);
  if (session.ended.get(runId) === true) throw runOver(threadId);
  throw leaseLost(lease, (yield* listRuns(session, lease.threadId))[0]);
}

export function* listRuns(session: Session, threadId: string): Program<RunRow[]> {
  return yield* toRuns(session, yield* session.all<RawRun>(RUNS_OF, threadId));
}

export function* toRuns(session: Session, rows: readonly RawRun[]): Program<RunRow[]> {
  const { clock } = session.engine.dialect;
  const now = clock === undefined || rows.length === 0 ? undefined : (yield* session.get<{ now: number }>(clock))?.now;
  return rows.map((row) => {
    const run = RUN_ROWS.parse(plainSealing, row.thread_id, row);
    return now === undefined ? run : { ...run, quietMs: now - row.beat_at };
  });
}

/**
 * Something of a thread changes that isn't in its rows, but that others remember with them. Where its own row tells whether
 * anything has changed, that has to change too.
 */
export function* showInThread(session: Session, threadId: string): Program {
  if (session.engine.dialect.guards === undefined) return;
  const key = yield* threadOrSignpost(session, threadId);
  // Nothing is saved on a thread that moves, no matter what is remembered of it.
  if (key !== undefined && key.row.movedTo === undefined) key.touch();
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

/** A turn without a number would never be read. */
function counting(table: Table): string {
  const rows = table.columns["seq"]?.nullable === true ? "count(seq)" : "count(*)";
  return `(SELECT ${rows} FROM ${table.name} WHERE ${rowsOfThread(table)})`;
}

type Numbered = Pick<ThreadState, "thread" | "threadId">;

/** A thread's row counts, as recorded. */
export function* countsOf(session: Session, { thread }: Pick<Numbered, "thread">): Program<ThreadCounts | undefined> {
  return yield* session.get<ThreadCounts>(ON_RECORD, thread);
}

/** The rows under a thread's number, counted. */
export function* countedRows(session: Session, { thread, threadId }: Numbered): Program<ThreadCounts | undefined> {
  return yield* session.get<ThreadCounts>(COUNTED, thread, threadId);
}

/** The first kind of rows whose count differs from the recorded one. */
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
 * The thread, for resuming it after a crash. A lost row leaves nothing behind that would fail verification, so the rows are
 * counted. Whether an index agrees with its table is checked by `verify()`.
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

/** Counts again after a range of rows was removed or restored: the rows that are there are the expected ones. */
export function* recount(session: Session, key: ThreadState): Program {
  const there = yield* countedRows(session, key);
  if (there !== undefined) key.change(there);
}
