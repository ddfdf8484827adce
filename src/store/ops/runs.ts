import { plainSealing } from "../../sealing";
import type { Program } from "../program";
import { RUN_ROWS } from "../rows";
import type { Session } from "../session";
import type { RewindRow, RunRow } from "../store";
import { unfinishedRewind } from "./rewind-records";
import { listRuns } from "./thread-rows";

const BEAT = "UPDATE langgraph_runs SET beat_at = ? WHERE run_id = ?";
const END = "DELETE FROM langgraph_runs WHERE run_id = ?";

export function* beginRun(
  session: Session,
  run: RunRow,
  guard: (others: readonly RunRow[], unfinished: RewindRow | undefined) => readonly RunRow[],
): Program<void> {
  const others = (yield* listRuns(session, run.threadId)).filter(({ runId }) => runId !== run.runId);
  yield* clearRuns(session, guard(others, yield* unfinishedRewind(session, run.threadId)));
  yield* insertRun(session, run);
}

/** Records the run of a copy that is being made. It belongs to no thread, so nobody waits for it. */
export function* beginCopyRun(session: Session, run: RunRow): Program<void> {
  yield* insertRun(session, { ...run, threadId: "" });
}

function* insertRun(session: Session, run: RunRow): Program<void> {
  yield* session.run(RUN_ROWS.save, ...RUN_ROWS.values(plainSealing, { thread: null, threadId: run.threadId }, run));
}

/** Takes the thread from runs that count as dead. If one of them is still alive, it loses its {@link Lease}. */
export function* clearRuns(session: Session, dead: readonly RunRow[]): Program<void> {
  for (const { runId } of dead) yield* endRun(session, runId);
}

export function* beatRun(session: Session, runId: string, at: number): Program<boolean> {
  return (yield* session.changes(BEAT, at, runId)) > 0;
}

export function* endRun(session: Session, runId: string): Program<void> {
  session.leases.delete(runId);
  yield* session.run(END, runId);
}
