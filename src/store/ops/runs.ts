import { plainSealing } from "../../sealing";
import { leaseLost } from "../refusals";
import type { Program } from "../program";
import { RUN_ROWS } from "../rows";
import type { Sql } from "../session";
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
  sql: Sql,
  run: RunRow,
  guard: (others: readonly RunRow[], unfinished: RewindRow | undefined) => readonly RunRow[],
): Program<void> {
  const others = (yield* listRuns(sql, run.threadId)).filter(({ runId }) => runId !== run.runId);
  yield* clearRuns(sql, guard(others, yield* unfinishedRewind(sql, run.threadId)));
  yield* insertRun(sql, run);
}

/** The run of a copy that is being made. It belongs to no thread, so nobody waits for it. */
export function* beginCopyRun(sql: Sql, run: RunRow): Program<void> {
  yield* insertRun(sql, { ...run, threadId: "" });
}

function* insertRun(sql: Sql, run: RunRow): Program<void> {
  yield* sql.run(RUN_ROWS.save, ...RUN_ROWS.values(plainSealing, { thread: null, threadId: run.threadId }, run));
}

/** Takes the thread from runs that count as dead: should one of them still be there, its {@link Lease} is lost. */
export function* clearRuns(sql: Sql, dead: readonly RunRow[]): Program<void> {
  for (const { runId } of dead) yield* endRun(sql, runId);
}

export function* beatRun(sql: Sql, runId: string, at: number): Program<boolean> {
  return (yield* sql.run(BEAT, at, runId)) > 0;
}

/**
 * The fence, asked in the transaction of every commit of a run. A run's row goes only when the run itself gives it back, or when somebody
 * took the run for dead; an id is never used again.
 *
 * @throws {TurnsError} LEASE_LOST
 */
export function* checkLease(sql: Sql, lease: Lease | undefined): Program<void> {
  if (lease === undefined) return;
  const { runId, threadId } = lease;
  if (sql.leases.get(runId) === threadId) return;
  if ((yield* sql.get(IS_THERE, runId, threadId)) !== undefined) return void sql.leases.set(runId, threadId);
  throw leaseLost(lease, (yield* listRuns(sql, lease.threadId))[0]);
}

export function* endRun(sql: Sql, runId: string): Program<void> {
  sql.leases.delete(runId);
  yield* sql.run(END, runId);
}

export function* listRuns(sql: Sql, threadId: string): Program<RunRow[]> {
  return (yield* sql.all<RawRun>(OF_THREAD, threadId)).map(toRun);
}

export function toRun(row: RawRun): RunRow {
  return RUN_ROWS.parse(plainSealing, row.thread_id, row);
}
