import { TurnsError } from "../../errors";
import { plainSealing } from "../../sealing";
import { type Bound, type Program, question, type Statement } from "../program";
import { corrupted, leaseLost, runOver, threadMoved } from "../refusals";
import { changedTurn, type RawTurn, RUN_ROWS, TASK_ROWS, THREAD_ROWS, TOMBSTONE_ROWS, toTurn, TURN_ROWS } from "../rows";
import type { Session } from "../session";
import { THREADS_MAX } from "../spans";
import type { Lease, RunRow, SawDeletion, SawEpoch, TaskClaim, TaskRow } from "../store";
import type { RawOf, RUNS, TASKS, THREADS, TOMBSTONES } from "../tables";
import { type Deletion, headKey, type ThreadCounts, ThreadFacts, type ThreadFields, ThreadState } from "../thread-state";
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
const ID_OF = "SELECT thread_id FROM langgraph_threads WHERE thread = ?";
/** Matches id or tag, so that a deletion with a damaged id doesn't look as if it never happened. */
export const TOMBSTONE_OF = TOMBSTONE_ROWS.select("WHERE thread_id = ?1 OR tag = ?2");
const REMOVE_TOMBSTONE = "DELETE FROM langgraph_tombstones WHERE thread_id = ?1 OR tag = ?2";
const HAS_CHECKPOINT =
  "SELECT 1 FROM langgraph_snapshots WHERE thread = ? AND checkpoint_ns = ? AND checkpoint_id = ? AND superseded_by IS NULL";
/** A row that is under another thread because of damage must not block this one. */
const HOLDS = "SELECT 1 FROM langgraph_runs WHERE run_id = ? AND thread_id = ?";
const RUNS_OF = RUN_ROWS.select("WHERE thread_id = ?");

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
  const [raw] = rows;
  if (raw === undefined) return void session.noticeRead(threadId, undefined);
  if (rows.length > 1) throw damaged(threadId, "two rows of it");
  const row = yield* verifiedThread(session, threadId, raw);
  session.noticeRead(threadId, row);
  const key = new ThreadState(session.changed, row, session.generationOf(threadId));
  session.rememberRead(key);
  return key;
}

/**
 * A program about a thread, with the questions that it asks in any case. If the thread's number is remembered, they are asked
 * together with its row.
 *
 * @returns undefined if there is no such thread
 * @throws as {@link threadKey}
 */
export function* aboutThread<T>(
  session: Session,
  threadId: string,
  questions: (thread: number) => readonly Statement[],
  work: (key: ThreadState) => Program<T>,
): Program<T | undefined> {
  const about = function* (): Program<T | undefined> {
    const key = yield* threadKey(session, threadId);
    return key && (yield* session.expecting(questions(key.thread), work(key)));
  };
  const number = session.numberOf(threadId);
  // A thread that is known is guarded, which comes before the questions too.
  if (number === undefined || session.threads.has(threadId)) return yield* about();
  const row = question("all", session.locking(OF_ID), threadId, tagOf(session, threadId));
  return yield* session.expecting([row, ...questions(number)], about());
}

/** Rows of a thread; none, if there is no such thread. @param text binds the thread's number first @throws as {@link threadKey} */
export function* rowsOf<T>(session: Session, threadId: string, text: string, ...values: Bound[]): Program<T[]> {
  const found = yield* aboutThread(
    session,
    threadId,
    (thread) => [question("all", text, thread, ...values)],
    ({ thread }) => session.all<T>(text, thread, ...values),
  );
  return found ?? [];
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
  const key = new ThreadState(session.changed, row, session.generationOf(row.threadId));
  session.made(key);
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
  if (entry.sawEpoch !== undefined && entry.sawEpoch < session.historyOf(threadId, key?.row.epoch ?? 0)) {
    throw rewound(session, threadId, entry.refersTo);
  }
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
  const deletion = yield* deletionOf(session, threadId);
  const key = yield* threadKey(session, threadId);
  return { deletion, epoch: session.historyOf(threadId, key?.row.epoch ?? 0) };
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
  session.deleted(threadId);
  yield* session.run(REMOVE_TOMBSTONE, threadId, tagOf(session, threadId));
  const row = { threadId, tag: tagOf(session, threadId), deletedAt, final };
  yield* session.run(TOMBSTONE_ROWS.insert, ...TOMBSTONE_ROWS.values(session.sealing, { thread: null, threadId }, row));
}

/** @param checkpointId the checkpoint that the save continues from, or belongs to */
function rewound(session: Session, threadId: string, checkpointId: string | undefined): TurnsError {
  const what = session.wasSetBack(threadId) ? "was rewound, or the database has lost commits of it" : "was rewound";
  return new TurnsError("CHECKPOINT_NOT_FOUND", {
    problem: `Thread ${JSON.stringify(threadId)} ${what} during a run, so what the run saves now is refused (on checkpoint ${checkpointId}).`,
    remedy:
      "Nothing was saved. Stop the run, and call invoke again without a checkpoint_id: it continues from the thread's newest checkpoint.",
    data: { threadId, checkpointId },
  });
}

export function parentRewound(threadId: string, checkpointId: string): TurnsError {
  return new TurnsError("CHECKPOINT_NOT_FOUND", {
    problem: `Thread ${JSON.stringify(threadId)} has no checkpoint ${checkpointId} any more, from which this save continues: a rewind removed it.`,
    remedy:
      "Nothing was saved. saver.list(config) shows which checkpoints there are. Without a checkpoint_id, a run continues from the newest.",
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

/** What {@link checkLease} asks the first time. */
export function leaseQuestion(session: Session, { runId, threadId }: Lease): Statement {
  return question("one", session.sharing(HOLDS), runId, threadId);
}

/** What {@link listRuns} asks. */
export function runQuestions(session: Session, threadId: string): Statement[] {
  const { clock } = session.engine.dialect;
  return [question("all", RUNS_OF, threadId), ...(clock === undefined ? [] : [question("one", clock)])];
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

export type RawTask = RawOf<typeof TASKS>;

const CURRENT = TASK_ROWS.select("WHERE thread = ? ORDER BY seq DESC LIMIT 1");
/** Includes all later rows: if a kind was tampered with, one of those might be the one to find. */
const SINCE_LAST_RUN = TASK_ROWS.select(`WHERE thread = ?1
  AND seq >= coalesce((SELECT max(seq) FROM langgraph_tasks WHERE thread = ?1 AND kind = 'run'), 0) ORDER BY seq`);
const TURNS_SINCE = TURN_ROWS.select("WHERE thread = ? AND seq > ?");
const ALL = TASK_ROWS.select("WHERE thread = ? ORDER BY seq");

/** Books a commit to its task. Runs inside the commit's transaction, before the commit takes its own seq. */
export function* claimTask(session: Session, key: ThreadState, claim: TaskClaim, createdAt: string): Program<TaskRow> {
  const { current, lastRun } = yield* tasksKnown(session, key);
  const change = ownershipChange(current, lastRun, claim, key.threadId);
  if (change.type === "rename" && current !== undefined) {
    const renamed = { ...current, taskId: change.taskId };
    key.touch();
    yield* renameTaskOfTurns(session, key, current, renamed.taskId);
    yield* session.run(TASK_ROWS.update, ...TASK_ROWS.changed(session.sealing, key, renamed));
    key.facts.tasks = { current: renamed, lastRun: lastRun === current ? renamed : lastRun };
    return renamed;
  }
  if (change.type === "open") {
    const { taskId, graphId, kind } = change;
    const opened = { taskId, graphId, kind, seq: key.nextSeq(), createdAt, prunedTokens: undefined };
    yield* session.insert(key, TASK_ROWS, opened);
    key.facts.tasks = { current: opened, lastRun: kind === "run" ? opened : lastRun };
    return opened;
  }
  return current as TaskRow;
}

/** Renames the task of turns that were recorded under its provisional name. A turn's task is always one of its thread's. */
function* renameTaskOfTurns(session: Session, key: ThreadState, { seq, taskId }: TaskRow, newId: string): Program {
  yield* session.flushTurns(key);
  for (const row of yield* session.all<RawTurn>(TURNS_SINCE, key.thread, seq)) {
    if (row.task_id !== taskId) continue;
    const turn = { ...toTurn(session, row, key.threadId), taskId: newId };
    yield* session.run(TURN_ROWS.update, ...changedTurn(session, turn));
    key.rememberTurn(turn);
  }
}

function* tasksKnown(session: Session, key: ThreadState): Program<NonNullable<ThreadFacts["tasks"]>> {
  if (key.facts.tasks === undefined) {
    const current = yield* currentTask(session, key);
    key.facts.tasks = { current, lastRun: current?.kind === "update" ? yield* lastRunTask(session, key) : current };
  }
  return key.facts.tasks;
}

export function* currentTask(session: Session, key: ThreadState): Program<TaskRow | undefined> {
  const row = yield* session.get<RawTask>(CURRENT, key.thread);
  return row && toTask(session, key.threadId, row);
}

/** What {@link lastRunTask} asks. */
export function lastRunTaskQuestion(thread: number): Statement {
  return question("all", SINCE_LAST_RUN, thread);
}

/** The newest interval in which something ran. */
export function* lastRunTask(session: Session, key: ThreadState): Program<TaskRow | undefined> {
  const [first] = (yield* session.all<RawTask>(SINCE_LAST_RUN, key.thread)).map((row) => toTask(session, key.threadId, row));
  return first?.kind === "run" ? first : undefined;
}

/** What {@link listTasks} asks. */
export function tasksQuestion(thread: number): Statement {
  return question("all", ALL, thread);
}

export function* listTasks(session: Session, threadId: string): Program<TaskRow[]> {
  return (yield* rowsOf<RawTask>(session, threadId, ALL)).map((row) => toTask(session, threadId, row));
}

export function* tasksOf(session: Session, { thread, threadId }: ThreadState): Program<TaskRow[]> {
  return (yield* session.all<RawTask>(ALL, thread)).map((row) => toTask(session, threadId, row));
}

/** The task of a row, verified. @throws {TurnsError} CHECKPOINT_CORRUPTED */
export function toTask(session: Session, threadId: string, row: RawTask): TaskRow {
  return TASK_ROWS.parse(session.sealing, threadId, row);
}

/** How a commit changes the thread's list of task intervals, before its own row takes the next seq. */
export type OwnershipChange =
  | { type: "none" }
  | { type: "rename"; taskId: string }
  | { type: "open"; taskId: string; graphId: string; kind: TaskRow["kind"] };

/**
 * Decides which of the user's tasks a commit belongs to (design, *task*). Each new input starts a task, and a resume continues
 * the one it resumes. An `updateState` between runs is a task of its own, so that a rewind to the task before it is exact. A
 * task's rows are those of its intervals, so ownership depends on *when* a row was saved, and only turns carry a task id.
 *
 * @param current the interval that is open now
 * @param lastRun the newest interval of kind `run`, which a resume after an `updateState` continues
 */
export function ownershipChange(
  current: TaskRow | undefined,
  lastRun: TaskRow | undefined,
  claim: TaskClaim,
  threadId: string,
): OwnershipChange {
  const graphId = claim.graphId ?? current?.graphId ?? threadId;
  const open = (taskId: string, kind: TaskRow["kind"]): OwnershipChange => ({ type: "open", taskId, graphId, kind });
  const kind = claim.kind === "update" ? "update" : "run";

  if (current !== undefined && current.graphId !== graphId && claim.kind === "resume") {
    return open(claim.taskId ?? current.taskId, kind);
  }
  if (claim.taskId !== undefined) {
    const continues = current?.taskId === claim.taskId && (current.kind === kind || kind === "update");
    return continues ? { type: "none" } : open(claim.taskId, kind);
  }
  if (current === undefined) return open(claim.name, kind);
  if (claim.kind === "resume") {
    return current.kind === "update" && lastRun !== undefined ? open(lastRun.taskId, "run") : { type: "none" };
  }
  if (claim.provisional !== undefined && current.taskId === claim.provisional) {
    return claim.name === current.taskId ? { type: "none" } : { type: "rename", taskId: claim.name };
  }
  return open(claim.name, kind);
}
