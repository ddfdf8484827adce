import { SETTLED_AS_HISTORY } from "../effects";
import { textFor } from "../dialect";
import { type Program, question, type Statement } from "../program";
import type { Session } from "../session";
import { ofThread } from "../spans";
import { planOf, planQuestions } from "./prune-plan";
import { changeRewind, unfinishedRewind } from "./rewind-records";
import { deleteThread } from "./threads";
import type { PruneCounts, PrunePlan, PruneUnit, PruneWish, RunRow } from "../store";
import { type ThreadCounts, ThreadFacts, type ThreadState } from "../thread-state";
import { DELETE_ARCHIVE } from "./archive";
import { deleteUnusedGraphs } from "./turns";
import { IN_PART, partsOf } from "./paging";
import { archivedRow } from "./row-references";
import { keepTokens, tokenQuestions } from "./pruned-tokens";
import { aboutThread, listRuns, refuseMoved, threadKey } from "./thread-rows";

/** The plus keeps an engine from reading all rows of the thread. */
const DELETE = {
  turns: `DELETE FROM langgraph_checkpoints WHERE thread = ? AND seq ${IN_PART}`,
  writes: `DELETE FROM langgraph_writes WHERE +thread = ? AND seq ${IN_PART}`,
  snapshots: `DELETE FROM langgraph_snapshots WHERE +thread = ? AND seq ${IN_PART}`,
};
const DELETE_NAMES = `DELETE FROM langgraph_names WHERE thread = ?1 AND NOT EXISTS (SELECT 1 FROM langgraph_snapshots AS s
  WHERE s.thread = ?1 AND s.checkpoint_ns = langgraph_names.checkpoint_ns AND s.checkpoint_id = langgraph_names.checkpoint_id)`;
/**
 * Settled effects that no rewind and no run can reach any more: the checkpoint they ran under, perhaps on another thread, was
 * saved and is gone.
 */
const DELETE_EFFECTS = `DELETE FROM langgraph_effects WHERE ${ofThread()} AND status <> 'intent' AND unsaved_run IS NULL AND seq <= ?2
  AND NOT EXISTS (SELECT 1 FROM langgraph_snapshots AS s
    WHERE s.thread = coalesce((SELECT t.thread FROM langgraph_threads AS t WHERE t.thread_id = langgraph_effects.anchor_thread), ?1)
      AND s.checkpoint_ns = '' AND s.checkpoint_id = langgraph_effects.anchor)`;

const OF_RUN = `SELECT DISTINCT t.thread_id FROM langgraph_snapshots AS s CROSS JOIN langgraph_threads AS t
  WHERE s.run_id = ? AND t.thread = s.thread`;

/** What a rewind has archived, where the id stands somewhere in the row. */
const MAYBE_ARCHIVED = textFor(
  ({ holds }) => `SELECT thread_id, row FROM langgraph_archive
    WHERE tbl = 'langgraph_snapshots' AND change = 'deleted' AND (${holds("row", "?1")})`,
);

/** Threads with checkpoints of these runs, those in archives of rewinds included. */
export function* threadsOfRuns(session: Session, runIds: readonly string[]): Program<string[]> {
  const found = new Set<string>();
  for (const runId of runIds) {
    for (const [threadId] of yield* session.rows<[string]>(OF_RUN, runId)) found.add(threadId);
    const escaped = JSON.stringify(runId).slice(1, -1);
    for (const [threadId, row] of yield* session.rows<[string, string]>(MAYBE_ARCHIVED(session), escaped))
      if (archivedRow(row)["run_id"] === runId) found.add(threadId);
  }
  return [...found].sort();
}

/** @throws {TurnsError} THREAD_MOVED, also while it moves */
export function* prunePlan(session: Session, threadId: string, wish: PruneWish): Program<PrunePlan | undefined> {
  return yield* aboutThread(
    session,
    threadId,
    () => planQuestions(threadId),
    (key) => {
      refuseMoved(key);
      return planOf(session, key, wish);
    },
  );
}

/**
 * Removes the first units of a plan. If the thread has changed since the plan was made, it plans again, so that rows that
 * somebody needs by now stay.
 *
 * @param limit how many units at most; those of one root are removed together, however many they are
 * @returns what was removed, and what is left of the plan
 */
export function* pruneBatch(
  session: Session,
  plan: PrunePlan,
  wish: PruneWish,
  limit: number,
): Program<{ removed: PruneCounts; rest: PrunePlan }> {
  const asked = (thread: number): Statement[] => tokenQuestions(thread, turnsOf(firstUnits(plan.units, limit)));
  const pruned = yield* aboutThread(session, plan.threadId, asked, (key) => pruneFirst(session, key, { plan, wish, limit }));
  return pruned ?? { removed: countsOf([]), rest: { ...plan, units: [], archives: [] } };
}

function* pruneFirst(
  session: Session,
  key: ThreadState,
  { plan, wish, limit }: { plan: PrunePlan; wish: PruneWish; limit: number },
): Program<{ removed: PruneCounts; rest: PrunePlan }> {
  const current = key.stamp === plan.stamp ? plan : yield* planOf(session, key, wish);
  const units = firstUnits(current.units, limit);
  yield* keepTokens(session, key, turnsOf(units));
  const kinds: (keyof ThreadCounts)[] = [];
  const deletions: Statement[] = [];
  const remove = (kind: keyof ThreadCounts, deletion: Statement): void => {
    kinds.push(kind);
    deletions.push(deletion);
  };
  for (const kind of ["turns", "writes", "snapshots"] as const) {
    for (const part of partsOf(units.flatMap((unit) => unit[kind])))
      remove(kind, question("count", DELETE[kind], key.thread, ...part));
  }
  if (units.length > 0) {
    remove("others", question("count", DELETE_NAMES, key.thread));
    remove("effects", question("count", DELETE_EFFECTS, key.thread, current.floor));
  }
  for (const [at, deleted] of (yield* session.changesTogether(deletions)).entries())
    key.count(kinds[at] as keyof ThreadCounts, -deleted);
  if (units.length > 0) yield* deleteUnusedGraphs(session, key);
  for (const id of current.archives) {
    yield* session.run(DELETE_ARCHIVE, id);
    yield* changeRewind(session, id, { archived: false, entries: 0 });
  }
  key.facts = new ThreadFacts();
  key.change({
    prunedSeq: Math.max(key.row.prunedSeq, current.floor),
    unswept: key.row.unswept + units.length + current.archives.length,
  });
  const rest = { ...current, units: current.units.slice(units.length), archives: [], stamp: key.stamp };
  return { removed: countsOf(units), rest };
}

function turnsOf(units: readonly PruneUnit[]): number[] {
  return units.flatMap(({ turns }) => turns);
}

/** A crash behind them leaves no root without the checkpoints of its subgraphs. */
function firstUnits(units: readonly PruneUnit[], limit: number): readonly PruneUnit[] {
  let end = Math.min(limit, units.length);
  while (end > 0 && end < units.length && units[end - 1]?.isLast === false) end += 1;
  return units.slice(0, end);
}

function countsOf(units: readonly PruneUnit[]): PruneCounts {
  const sum = (count: (unit: PruneUnit) => number): number => units.reduce((total, unit) => total + count(unit), 0);
  return {
    checkpoints: sum(({ isCheckpoint }) => Number(isCheckpoint)),
    writes: sum(({ writes }) => writes.length),
    turns: sum(({ turns }) => turns.length),
    chunks: 0,
  };
}

const LAST_SAVED = `SELECT created_at AS created,
    (SELECT s.created_at FROM langgraph_snapshots AS s WHERE s.thread = t.thread ORDER BY s.seq DESC LIMIT 1) AS checkpoint,
    (SELECT c.created_at FROM langgraph_checkpoints AS c WHERE c.thread = t.thread ORDER BY c.seq DESC LIMIT 1) AS turn,
    (SELECT k.created_at FROM langgraph_tasks AS k WHERE k.thread = t.thread ORDER BY k.seq DESC LIMIT 1) AS task
  FROM langgraph_threads AS t WHERE t.thread = ?`;
/** The last save may have used a clock that was behind: nothing counts as older than what was saved before it. */
const YOUNGEST = `SELECT (SELECT max(created_at) FROM langgraph_snapshots WHERE thread = ?1) AS checkpoint,
    (SELECT max(created_at) FROM langgraph_checkpoints WHERE thread = ?1) AS turn,
    (SELECT max(created_at) FROM langgraph_tasks WHERE thread = ?1) AS task`;
const NAMED = "SELECT 1 FROM langgraph_names WHERE thread = ? LIMIT 1";
const SIZE = `SELECT
  (SELECT count(*) FROM (SELECT DISTINCT checkpoint_ns, checkpoint_id FROM langgraph_snapshots WHERE thread = ?1) AS c) AS checkpoints,
  (SELECT count(*) FROM langgraph_writes WHERE thread = ?1) AS writes,
  (SELECT count(*) FROM langgraph_checkpoints WHERE thread = ?1) AS turns,
  (SELECT count(*) FROM langgraph_chunks WHERE thread = ?1) AS chunks`;

const IN_DOUBT = `SELECT 1 FROM langgraph_effects WHERE ${ofThread()} AND (undo_status = 'begun' OR (status = 'intent'
  AND undo_status IS DISTINCT FROM 'done' AND settled_by IS DISTINCT FROM '${SETTLED_AS_HISTORY}')) LIMIT 1`;

/**
 * The size of an idle thread, which may be deleted as a whole. A thread is idle if nothing was saved on it since a given time and
 * no live run holds it. A thread with a named checkpoint or an unfinished rewind never is.
 *
 * @param before milliseconds since the epoch
 * @returns how much it holds; undefined if it stays; `in-doubt` if it stays because nobody knows whether an effect happened
 * @throws {TurnsError} THREAD_MOVED, also while it moves
 */
export function* idleThread(
  session: Session,
  threadId: string,
  before: number,
  isAlive: (run: RunRow) => boolean,
): Program<PruneCounts | "in-doubt" | undefined> {
  const key = yield* threadKey(session, threadId);
  if (key !== undefined) refuseMoved(key);
  if (
    key === undefined ||
    (yield* session.get(NAMED, key.thread)) !== undefined ||
    (yield* listRuns(session, threadId)).some(isAlive)
  )
    return undefined;
  if ((yield* unfinishedRewind(session, threadId)) !== undefined) return undefined;
  if (newestOf(yield* session.get<Times>(LAST_SAVED, key.thread)) >= before) return undefined;
  if (newestOf(yield* session.get<Times>(YOUNGEST, key.thread)) >= before) return undefined;
  if ((yield* session.get(IN_DOUBT, key.thread)) !== undefined) return "in-doubt";
  return yield* session.get<PruneCounts>(SIZE, key.thread);
}

/** Milliseconds, or texts as ISO 8601 writes them. */
type Times = Readonly<Record<string, number | string | null>>;

function newestOf(times: Times | undefined): number {
  return Math.max(0, ...Object.values(times ?? {}).map((time) => (typeof time === "string" ? Date.parse(time) : (time ?? 0))));
}

/** Deletes the thread, with a tombstone, if it is idle now. @returns as {@link idleThread} */
export function* deleteIdleThread(
  session: Session,
  threadId: string,
  before: number,
  isAlive: (run: RunRow) => boolean,
  deletedAt: number,
): Program<PruneCounts | "in-doubt" | undefined> {
  const size = yield* idleThread(session, threadId, before, isAlive);
  if (typeof size === "object") yield* deleteThread(session, threadId, deletedAt, false, isAlive);
  return size;
}
