import { plainSealing } from "../../sealing";
import { textFor } from "../dialect";
import type { Program } from "../program";
import { RUN_ROWS } from "../rows";
import type { Session } from "../session";
import { LEFT, type RewindRow, type RunRow } from "../store";
import { unfinishedRewind } from "./rewind-records";
import { listRuns, showInThread } from "./thread-rows";

/** Whether a run on another machine still lives is told by the database's clock, if it has one of its own. */
const BEAT = textFor(
  ({ clock, among }) =>
    `UPDATE langgraph_runs SET beat_at = ${clock === undefined ? "?1" : `CASE WHEN ?1 <= 0 THEN ?1 ELSE (${clock}) END`}
  WHERE run_id ${among("?2")} RETURNING run_id AS id`,
);
/**
 * A heartbeat waits for nobody who has locked the row of another run of the process. A row that is locked is left out, and still told as
 * there: the next heartbeat tries it again.
 */
const BEAT_UNLOCKED = textFor(
  ({ clock = "?1", among, skipLocked = "" }) =>
    `WITH beaten AS (UPDATE langgraph_runs SET beat_at = (${clock}) WHERE run_id IN (
      SELECT run_id FROM langgraph_runs WHERE run_id ${among("?2")}${skipLocked}))
    SELECT run_id AS id FROM langgraph_runs WHERE run_id ${among("?2")}`,
);
const LEAVE = `UPDATE langgraph_runs SET run_id = ?2, beat_at = ${LEFT} WHERE run_id = ?1`;
const END = "DELETE FROM langgraph_runs WHERE run_id = ?";
/**
 * A run that succeeded leaves nothing to recover. One that failed in a caller's hands does, if recovery had given up before. One whose
 * thread was taken over changes nothing.
 */
const RECOVERED = `DELETE FROM langgraph_recoveries WHERE thread = (SELECT thread FROM langgraph_threads WHERE thread_id = ?1)
  AND (?2 = 1 OR given_up = 0) AND EXISTS (SELECT 1 FROM langgraph_runs WHERE run_id = ?3)`;

export function* beginRun(
  session: Session,
  run: RunRow,
  guard: (others: readonly RunRow[], unfinished: RewindRow | undefined) => readonly RunRow[],
): Program<void> {
  yield* session.lock(run.threadId);
  const others = (yield* listRuns(session, run.threadId)).filter(({ runId }) => runId !== run.runId);
  const dead = guard(others, yield* unfinishedRewind(session, run.threadId));
  yield* clearRuns(session, dead);
  if (dead.length > 0) yield* showInThread(session, run.threadId);
  yield* insertRun(session, run);
}

/**
 * {@link beginRun} for what holds a thread without running it. Runs that are lost stay left to recovery; if one of them is still alive, it
 * can't save any more.
 */
export function* beginHold(
  session: Session,
  hold: RunRow,
  guard: (others: readonly RunRow[]) => { over: readonly RunRow[]; lost: readonly RunRow[] },
): Program<void> {
  yield* session.lock(hold.threadId);
  const others = (yield* listRuns(session, hold.threadId)).filter(({ runId }) => runId !== hold.runId);
  const { over, lost } = guard(others);
  yield* clearRuns(session, over);
  for (const { runId, beatAt } of lost) {
    if (beatAt === LEFT) continue;
    session.leases.delete(runId);
    yield* session.run(LEAVE, runId, leftId(runId));
  }
  if (others.length > 0) yield* showInThread(session, hold.threadId);
  yield* insertRun(session, hold);
}

/** Another id, so that a run that is still alive no longer finds its mark. */
export function leftId(runId: string): string {
  return `left ${runId}`;
}

/** Records the run of a copy that is being made. It belongs to no thread, so nobody waits for it. */
export function* beginCopyRun(session: Session, run: RunRow): Program<void> {
  yield* insertRun(session, { ...run, threadId: "" });
}

export function* insertRun(session: Session, run: RunRow): Program<void> {
  yield* session.run(RUN_ROWS.save, ...RUN_ROWS.values(plainSealing, { thread: null, threadId: run.threadId }, run));
  if (session.engine.dialect.clock === undefined) return;
  yield* session.run(beatText(session, run.beatAt), run.beatAt, JSON.stringify([run.runId]));
}

/** Takes the thread from runs that count as dead. If one of them is still alive, it loses its {@link Lease}. */
export function* clearRuns(session: Session, dead: readonly RunRow[]): Program<void> {
  for (const { runId } of dead) yield* removeRun(session, runId);
}

/** @returns the runs that are still on record */
export function* beatRuns(session: Session, runIds: readonly string[], at: number): Program<string[]> {
  const there = yield* session.all<{ id: string }>(beatText(session, at), at, JSON.stringify(runIds));
  return there.map(({ id }) => id);
}

function beatText(session: Session, at: number): string {
  const isKeptAlive = at > 0 && session.engine.dialect.skipLocked !== undefined;
  return isKeptAlive ? BEAT_UNLOCKED(session) : BEAT(session);
}

/**
 * For the process whose run it was.
 * @param ran if the thread ran, and recovery didn't start that
 */
export function* endRun(session: Session, runId: string, ran?: { threadId: string; succeeded: boolean }): Program<void> {
  session.ended.set(runId, true);
  if (ran !== undefined) yield* session.run(RECOVERED, ran.threadId, ran.succeeded ? 1 : 0, runId);
  yield* removeRun(session, runId);
}

function* removeRun(session: Session, runId: string): Program<void> {
  session.leases.delete(runId);
  yield* session.run(END, runId);
}
