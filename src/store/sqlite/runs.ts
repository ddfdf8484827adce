import type { RewindRow, RunRow } from "../store";
import { unfinishedRewind } from "./rewind-records";
import type { Sql } from "./sql";

interface Row {
  run_id: string;
  thread_id: string;
  host: string;
  pid: number;
  pid_start: string;
  started_at: string;
  beat_at: number;
}

const BEGIN =
  "INSERT OR REPLACE INTO langgraph_runs (run_id, thread_id, host, pid, pid_start, started_at, beat_at) VALUES (?, ?, ?, ?, ?, ?, ?)";
const BEAT = "UPDATE langgraph_runs SET beat_at = ? WHERE run_id = ?";
const END = "DELETE FROM langgraph_runs WHERE run_id = ?";
const OF_THREAD = "SELECT run_id, thread_id, host, pid, pid_start, started_at, beat_at FROM langgraph_runs WHERE thread_id = ?";

export function beginRun(
  sql: Sql,
  run: RunRow,
  guard: (others: readonly RunRow[], unfinished: RewindRow | undefined) => readonly RunRow[],
): void {
  for (const dead of guard(listRuns(sql, run.threadId), unfinishedRewind(sql, run.threadId))) sql.run(END, dead.runId);
  sql.run(BEGIN, run.runId, run.threadId, run.host, run.pid, run.pidStart, run.startedAt, run.beatAt);
}

export function beatRun(sql: Sql, runId: string, at: number): void {
  sql.run(BEAT, at, runId);
}

export function endRun(sql: Sql, runId: string): void {
  sql.run(END, runId);
}

export function listRuns(sql: Sql, threadId: string): RunRow[] {
  return sql.all<Row>(OF_THREAD, threadId).map((row) => ({
    runId: row.run_id,
    threadId: row.thread_id,
    host: row.host,
    pid: row.pid,
    pidStart: row.pid_start,
    startedAt: row.started_at,
    beatAt: row.beat_at,
  }));
}
