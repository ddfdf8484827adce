import { TurnsError } from "../../errors";
import type { Program } from "../program";
import { RECOVERY_ROWS, RUN_ROWS } from "../rows";
import { threadMoved } from "../refusals";
import type { Session } from "../session";
import type { Lease, RecoveryClaim, RecoveryRow, RecoveryTry, RewindRow, RunRow } from "../store";
import type { RawOf, RECOVERIES } from "../tables";
import type { ThreadState } from "../thread-state";
import { unfinishedRewind } from "./rewind-records";
import { clearRuns, insertRun } from "./runs";
import { checkLease, listRuns, type RawRun, showInThread, threadKey, threadOrSignpost, toRuns } from "./thread-rows";

const OF_THREAD = RECOVERY_ROWS.select("WHERE thread = ?");
const PAGE = `SELECT t.thread_id, ${RECOVERY_ROWS.of("r")} FROM langgraph_recoveries AS r
  JOIN langgraph_threads AS t ON t.thread = r.thread WHERE t.thread_id > ? AND r.given_up = ? ORDER BY t.thread_id LIMIT ?`;
const FORGET = "DELETE FROM langgraph_recoveries WHERE thread = ?";
/** Runs of threads: a copy that is being made has none. */
const RUNS_PAGE = RUN_ROWS.select("WHERE run_id > ? AND thread_id <> '' ORDER BY run_id LIMIT ?");

type RawRecovery = RawOf<typeof RECOVERIES>;
type StoredRecovery = Omit<RecoveryRow, "threadId" | "sinceMs">;

/** All runs on record, of live processes and dead ones, by id. */
export function* allRuns(session: Session, after: string, limit: number): Program<RunRow[]> {
  return yield* toRuns(session, yield* session.all<RawRun>(RUNS_PAGE, after, limit));
}

/**
 * The threads that recovery has tried, by id: those that it tries again, or those that it has given up on.
 *
 * @param query.isLenient a damaged record counts as one that is due; {@link recoveryOf} reports it
 * @param at this machine's clock, for a database without its own
 */
export function* listRecoveries(
  session: Session,
  { after, limit, givenUp, isLenient = false }: { after: string; limit: number; givenUp: boolean; isLenient?: boolean },
  at: number,
): Program<RecoveryRow[]> {
  const rows = yield* session.all<RawRecovery & { thread_id: string }>(PAGE, after, givenUp ? 1 : 0, limit);
  const now = rows.length === 0 ? at : yield* clockOf(session, at);
  return rows.map(({ thread_id: threadId, ...raw }) => {
    try {
      return toRecovery(session, threadId, raw, now);
    } catch (error) {
      if (!isLenient || !TurnsError.is(error, "CHECKPOINT_CORRUPTED")) throw error;
      return { threadId, tries: 0, progress: "", triedAt: 0, waitMs: 0, givenUp, failure: "{}", sinceMs: now };
    }
  });
}

export function* recoveryOf(session: Session, threadId: string, at: number): Program<RecoveryRow | undefined> {
  const key = yield* threadOrSignpost(session, threadId);
  const raw = key && (yield* session.get<RawRecovery>(OF_THREAD, key.thread));
  return raw && toRecovery(session, threadId, raw, yield* clockOf(session, at));
}

/**
 * {@link beginRun} for a run that recovers the thread, which counts as a try from here on: it may kill its process.
 *
 * @returns whether the thread still is as it was when it was looked at. If not, somebody else has taken care of it.
 */
export function* beginRecovery(
  session: Session,
  run: RunRow,
  { runIds, seen, next, at }: RecoveryClaim,
  guard: (others: readonly RunRow[], unfinished: RewindRow | undefined) => readonly RunRow[],
): Program<boolean> {
  const { threadId } = run;
  yield* session.lock(threadId);
  const runs = yield* listRuns(session, threadId);
  // The commit of an earlier attempt has happened after all.
  if (runs.some(({ runId }) => runId === run.runId)) return true;
  const key = yield* threadKey(session, threadId);
  if (key === undefined) return false;
  // Its move has to be finished first, and that is no try of the thread.
  if (key.row.movedTo !== undefined) throw threadMoved(key.row);
  const recorded = yield* recordedOf(session, key);
  const isLost = seen !== undefined || runs.some(({ runId }) => runIds.includes(runId));
  if (!isAsSeen(recorded, seen) || !isLost) return false;
  const dead = guard(runs, yield* unfinishedRewind(session, threadId));
  yield* clearRuns(session, dead);
  if (dead.length > 0) yield* showInThread(session, threadId);
  yield* insertRun(session, run);
  const failure = recorded?.progress === next.progress ? recorded.failure : "{}";
  yield* save(session, key, { ...next, failure, givenUp: false }, at);
  return true;
}

/**
 * Records what a try came to.
 * @param lease of the run that has tried; undefined for a thread whose last try killed its process
 * @param dead what was recorded when the thread was looked at, and the runs of processes that died of it: these are forgotten
 * @returns false if that has changed since, or the thread is gone
 * @throws {TurnsError} LEASE_LOST
 */
export function* saveRecovery(
  session: Session,
  threadId: string,
  tried: RecoveryTry & Pick<RecoveryRow, "failure" | "givenUp">,
  lease: Lease | undefined,
  at: number,
  dead?: Pick<RecoveryClaim, "seen" | "runIds">,
): Program<boolean> {
  // As who claims the thread.
  yield* session.lock(threadId);
  const key = yield* threadKey(session, threadId);
  yield* checkLease(session, lease);
  if (key === undefined || (dead !== undefined && !isAsSeen(yield* recordedOf(session, key), dead.seen))) return false;
  if (dead !== undefined) yield* forgetRuns(session, threadId, dead.runIds);
  yield* save(session, key, tried, at);
  return true;
}

function* recordedOf(session: Session, { thread, threadId }: ThreadState): Program<StoredRecovery | undefined> {
  const raw = yield* session.get<RawRecovery>(session.locking(OF_THREAD), thread);
  return raw && RECOVERY_ROWS.parse(session.sealing, threadId, raw);
}

/** Whether nobody has tried the thread since, or brought it to its end. */
function isAsSeen(recorded: StoredRecovery | undefined, seen: RecoveryClaim["seen"]): boolean {
  return recorded?.tries === seen?.tries && recorded?.triedAt === seen?.triedAt;
}

/**
 * There's nothing to recover: forgets the runs of the dead processes, and what was tried. A run that is alive after all loses its
 * {@link Lease}.
 */
export function* endRecovery(session: Session, threadId: string, runIds: readonly string[]): Program<void> {
  yield* session.lock(threadId);
  yield* forgetRuns(session, threadId, runIds);
  const key = yield* threadOrSignpost(session, threadId);
  if (key !== undefined) yield* forgetRecovery(session, key);
}

function* forgetRuns(session: Session, threadId: string, runIds: readonly string[]): Program<void> {
  const there = (yield* listRuns(session, threadId)).filter(({ runId }) => runIds.includes(runId));
  yield* clearRuns(session, there);
  if (there.length > 0) yield* showInThread(session, threadId);
}

/** Also for a rewind: it has removed what was tried. */
export function* forgetRecovery(session: Session, { thread }: Pick<ThreadState, "thread">): Program<void> {
  yield* session.run(FORGET, thread);
}

function* save(
  session: Session,
  key: ThreadState,
  row: RecoveryTry & Pick<RecoveryRow, "failure" | "givenUp">,
  at: number,
): Program<void> {
  const stored: StoredRecovery = { ...row, triedAt: yield* clockOf(session, at) };
  yield* session.run(RECOVERY_ROWS.save, ...RECOVERY_ROWS.values(session.sealing, key, stored));
}

function toRecovery(session: Session, threadId: string, raw: RawRecovery, now: number): RecoveryRow {
  const row = RECOVERY_ROWS.parse(session.sealing, threadId, raw);
  return { ...row, threadId, sinceMs: now - row.triedAt };
}

function* clockOf(session: Session, at: number): Program<number> {
  const { clock } = session.engine.dialect;
  return clock === undefined ? at : ((yield* session.get<{ now: number }>(clock))?.now ?? at);
}
