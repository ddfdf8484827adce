import { plainSealing } from "../../sealing";
import { leaseLost } from "../refusals";
import type { Program } from "../program";
import { RUN_ROWS } from "../rows";
import type { Session } from "../session";
import { unfinishedRewind } from "./rewind-records";
import type { Lease, RewindRow, RunRow } from "../store";
import type { RawOf, RUNS } from "../tables";

export type RawRun = RawOf<typeof RUNS>;

const BEAT = "UPDATE langgraph_runs SET beat_at = ? WHERE run_id = ?";
const END = "DELETE FROM langgraph_runs WHERE run_id = ?";
/** A row that stands under another thread, by damage, keeps nobody from this one. */
const IS_THERE = "SELECT 1 FROM langgraph_runs WHERE run_id = ? AND thread_id = ?";
const OF_THREAD = RUN_ROWS.select("WHERE thread_id = ?");

export function* beginRun(
  session: Session,
  run: RunRow,
  guard: (others: readonly RunRow[], unfinished: RewindRow | undefined) => readonly RunRow[],
): Program<void> {
  const others = (yield* listRuns(session, run.threadId)).filter(({ runId }) => runId !== run.runId);
  yield* clearRuns(session, guard(others, yield* unfinishedRewind(session, run.threadId)));
  yield* insertRun(session, run);
}

/** The run of a copy that is being made. It belongs to no thread, so nobody waits for it. */
export function* beginCopyRun(session: Session, run: RunRow): Program<void> {
  yield* insertRun(session, { ...run, threadId: "" });
}

function* insertRun(session: Session, run: RunRow): Program<void> {
  yield* session.run(RUN_ROWS.save, ...RUN_ROWS.values(plainSealing, { thread: null, threadId: run.threadId }, run));
}

/** Takes the thread from runs that count as dead: should one of them still be there, its {@link Lease} is lost. */
export function* clearRuns(session: Session, dead: readonly RunRow[]): Program<void> {
  for (const { runId } of dead) yield* endRun(session, runId);
}

export function* beatRun(session: Session, runId: string, at: number): Program<boolean> {
  return (yield* session.run(BEAT, at, runId)) > 0;
}

/**
 * The fence, asked in the transaction of every commit of a run. A run's row goes only when the run itself gives it back, or when somebody
 * took the run for dead; an id is never used again.
 *
 * @throws {TurnsError} LEASE_LOST
 */
export function* checkLease(session: Session, lease: Lease | undefined): Program<void> {
  if (lease === undefined) return;
  const { runId, threadId } = lease;
  if (session.leases.get(runId) === threadId) return;
  if ((yield* session.get(IS_THERE, runId, threadId)) !== undefined) return void session.leases.set(runId, threadId);
  throw leaseLost(lease, (yield* listRuns(session, lease.threadId))[0]);
}

export function* endRun(session: Session, runId: string): Program<void> {
  session.leases.delete(runId);
  yield* session.run(END, runId);
}

export function* listRuns(session: Session, threadId: string): Program<RunRow[]> {
  return (yield* session.all<RawRun>(OF_THREAD, threadId)).map(toRun);
}

export function toRun(row: RawRun): RunRow {
  return RUN_ROWS.parse(plainSealing, row.thread_id, row);
}
