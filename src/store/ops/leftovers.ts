import { anyOf, filtered, type Program } from "../program";
import { RUN_ROWS } from "../rows";
import type { Session } from "../session";
import type { RunRow } from "../store";
import { type LEFTOVERS, type RawOf, rowsOfThread, type Table, THREAD_TABLES } from "../tables";
import { endRun } from "./runs";
import { type RawRun, toRuns } from "./thread-rows";

/** How many rows of a thread the deleting transaction removes: some milliseconds, index entries included. */
export const ROWS_AT_ONCE = 1_000;
/**
 * A later transaction stops at this time or at {@link ROWS_AT_ONCE}, the first that is reached. On a slow disk, or with large
 * values, that is the time.
 */
const BATCH_MS = 20;
const STEPS = 5;
/** Rows between two checks of the clock. */
const ROWS_PER_STEP = ROWS_AT_ONCE / STEPS;

const REMOVALS = THREAD_TABLES.map((table: Table) => {
  const key = table.key.join(", ");
  return `DELETE FROM ${table.name} WHERE (${key}) IN (SELECT ${key} FROM ${table.name} WHERE ${rowsOfThread(table)} LIMIT ?2)`;
});
const REMOVE_ARCHIVE = `DELETE FROM langgraph_archive WHERE rewind_id = ?1
  AND ordinal IN (SELECT ordinal FROM langgraph_archive WHERE rewind_id = ?1 LIMIT ?2)`;
/** Counts only as far as needed. */
const COUNTS = THREAD_TABLES.map(
  (table) => `SELECT count(*) AS n FROM (SELECT 1 FROM ${table.name} WHERE ${rowsOfThread(table)} LIMIT ?2) AS counted`,
);
const LEAVE = "INSERT INTO langgraph_leftovers (thread, rewind_id, run_id) VALUES (?, ?, ?) ON CONFLICT DO NOTHING";
const FORGET = "DELETE FROM langgraph_leftovers WHERE thread = ? AND rewind_id = ?";
const ALL = "SELECT thread, rewind_id, run_id FROM langgraph_leftovers";
const IS_THERE = "SELECT 1 FROM langgraph_leftovers WHERE thread = ? AND rewind_id = ? AND run_id = ?";
const IS_LEFT = "SELECT 1 FROM langgraph_leftovers WHERE thread = ? AND rewind_id = ?";
const IN_USE = `SELECT 1 WHERE EXISTS (SELECT 1 FROM langgraph_threads WHERE thread = ?1 AND ?1 > 0)
  OR EXISTS (SELECT 1 FROM langgraph_rewinds WHERE id = ?2 AND ?1 = 0)`;
const RUN = RUN_ROWS.select("WHERE run_id = ?");

export type Leftover = RawOf<typeof LEFTOVERS>;

/**
 * Rows of a thread that nobody sees any more, or nobody sees yet.
 * @param runId of the copy that writes them
 */
export function* leaveThread(session: Session, thread: number, runId = ""): Program<void> {
  yield* session.run(LEAVE, thread, "", runId);
}

/** {@link leaveThread} for the archive of a rewind. */
export function* leaveArchive(session: Session, rewindId: string, runId = ""): Program<void> {
  yield* session.run(LEAVE, 0, rewindId, runId);
}

/** Nothing is left of it, or the copy has become a thread. Removes the run of the copy too. */
export function* forgetLeftover(session: Session, { thread, rewind_id: rewindId, run_id: runId }: Leftover): Program<void> {
  yield* session.run(FORGET, thread, rewindId);
  if (runId !== "") yield* endRun(session, runId);
}

/** Whether it is still on record, with the same run. If the transaction writes, it stays there until its end. */
export function* isThere(session: Session, { thread, rewind_id: rewindId, run_id: runId }: Leftover): Program<boolean> {
  return (yield* session.get(session.sharing(IS_THERE), thread, rewindId, runId)) !== undefined;
}

/** Whether a thread has so many rows that deleting or copying it takes more than one transaction. */
export function* isLarge(session: Session, thread: number): Program<boolean> {
  let rows = 0;
  return yield* anyOf(COUNTS, function* (count) {
    rows += (yield* session.get<{ n: number }>(count, thread, ROWS_AT_ONCE + 1))?.n ?? 0;
    return rows > ROWS_AT_ONCE;
  });
}

export function* isLeftover(session: Session, thread: number): Program<boolean> {
  return (yield* session.get(IS_LEFT, thread, "")) !== undefined;
}

export function* isLeftoverArchive(session: Session, rewindId: string): Program<boolean> {
  return (yield* session.get(IS_LEFT, 0, rewindId)) !== undefined;
}

/** @returns how many rows of the thread were removed; fewer than `limit` means all are gone */
export function* removeRows(session: Session, thread: number, limit: number): Program<number> {
  let left = limit;
  for (const removal of REMOVALS) if (left > 0) left -= yield* session.changes(removal, thread, left);
  return limit - left;
}

/** @returns how many rows of the archive were removed; fewer than `limit` means all are gone */
export function* removeArchived(session: Session, rewindId: string, limit: number): Program<number> {
  return yield* session.changes(REMOVE_ARCHIVE, rewindId, limit);
}

/** Whether there is anything that {@link removeLeftovers} would remove. */
export function* hasLeftovers(session: Session, isAlive: (run: RunRow) => boolean): Program<boolean> {
  return (yield* rubbish(session, isAlive)).length > 0;
}

/**
 * Removes some unreachable rows, of any deletion or copy that didn't finish. Rows that a live copy is writing stay.
 *
 * @returns whether there is more
 */
export function* removeLeftovers(session: Session, isAlive: (run: RunRow) => boolean): Program<boolean> {
  const until = Date.now() + BATCH_MS;
  const left = yield* rubbish(session, isAlive);
  for (let step = 0; step < STEPS && left[0] !== undefined && Date.now() < until; step += 1) {
    if (yield* isGone(session, left[0])) left.shift();
  }
  return left.length > 0;
}

/**
 * Removes some rows of a leftover, alive or not.
 * @returns whether all are gone
 */
export function* isGone(session: Session, leftover: Leftover): Program<boolean> {
  const { thread, rewind_id: rewindId } = leftover;
  // Whoever is writing its rows finishes first.
  yield* session.get(session.locking(IS_LEFT), thread, rewindId);
  // A damaged number must not remove rows of an existing thread or rewind.
  const inUse = (yield* session.get(IN_USE, thread, rewindId)) !== undefined;
  const remove = () =>
    thread === 0 ? removeArchived(session, rewindId, ROWS_PER_STEP) : removeRows(session, thread, ROWS_PER_STEP);
  if (!inUse && (yield* remove()) >= ROWS_PER_STEP) return false;
  yield* forgetLeftover(session, leftover);
  return true;
}

function* rubbish(session: Session, isAlive: (run: RunRow) => boolean): Program<Leftover[]> {
  return yield* filtered(yield* session.all<Leftover>(ALL), function* ({ run_id: runId }) {
    const [run] = runId === "" ? [] : yield* toRuns(session, yield* session.all<RawRun>(RUN, runId));
    return run === undefined || !isAlive(run);
  });
}
