import { TurnsError } from "../../errors";
import { plainSealing } from "../../sealing";
import { textFor } from "../dialect";
import { type Program, question as ask, type Statement } from "../program";
import { RUN_ROWS, TASK_ROWS, THREAD_ROWS, TOMBSTONE_ROWS } from "../rows";
import type { Session } from "../session";
import type { CheckpointHead, Remembered, RunRow, StoredCheckpoint, StoredWrites } from "../store";
import { type RawOf, RUNS, type TOMBSTONES } from "../tables";
import { headKey, ThreadState } from "../thread-state";
import { toLiveHead } from "./heads";
import { rememberRead } from "./put-checkpoint";
import { writesIn } from "./put-writes";
import { type AnsweredCheckpoint, askCheckpoint, getCheckpoint, hydrated } from "./read-checkpoints";
import { isIntact, OF_ID, type RawTask, type RawThread, tagOf, threadKey, TOMBSTONE_OF, toTask } from "./thread-rows";
import type { StoredChunk } from "./values";

/** For a start that doesn't know the number of its thread yet. */
const THREAD = "(SELECT thread FROM langgraph_threads WHERE thread_id = ?1)";
const CURRENT_TASK = TASK_ROWS.select(`WHERE thread = ${THREAD} ORDER BY seq DESC LIMIT 1`);
const GREATEST_ID = `SELECT max(id) AS id FROM (
    SELECT max(checkpoint_id) AS id FROM langgraph_snapshots WHERE thread = ${THREAD} AND checkpoint_ns = ''
    UNION ALL SELECT max(checkpoint_id) FROM langgraph_writes WHERE thread = ${THREAD} AND checkpoint_ns = '') AS ids`;
const GRAPHS = `SELECT seq, digest FROM langgraph_graphs WHERE thread = ${THREAD}`;
const UNSAVED = "SELECT 1 AS one FROM langgraph_effects WHERE unsaved_run = ? LIMIT 1";
/** A number for the thread, if it doesn't exist. */
const NUMBER_IF_NEW = textFor(
  ({ takeNumber }) => `${takeNumber} WHERE NOT EXISTS (SELECT 1 FROM langgraph_threads WHERE thread_id = ?1 OR tag = ?2)`,
);
/** The mark of a run, unless somebody has to decide first whether it may begin. */
const MARK = textFor(({ clock }) => {
  const columns = Object.keys(RUNS.columns);
  const values = columns.map((name, at) => {
    const value = `?${at + 1}`;
    return name === "beat_at" && clock !== undefined ? `CASE WHEN ${value} = 0 THEN 0 ELSE (${clock}) END` : value;
  });
  return `INSERT INTO langgraph_runs (${columns.join(", ")}) SELECT ${values.join(", ")}
    WHERE NOT EXISTS (SELECT 1 FROM langgraph_runs WHERE thread_id = ?2 AND run_id <> ?1)
      AND NOT EXISTS (SELECT 1 FROM langgraph_rewinds WHERE thread_id = ?2 AND status = 'undoing')
    ON CONFLICT (run_id) DO NOTHING`;
});

/** What a run found on its thread when it was marked. */
interface StartFacts {
  deletion: number;
  epoch: number;
  threadId: string;
  /** The row of the thread, and its newest root checkpoint with what was read of it; undefined if there is none. */
  newest: { thread: RawThread; head: CheckpointHead; writes: StoredWrites[]; wholes: StoredChunk[] } | undefined;
}

/**
 * Begins a run in one round trip, if nothing stands in its way: marks its thread, and reads everything that the run asks for until
 * its first save. The facts of that are remembered, so that the save needs to read nothing. It has a transaction of its own.
 *
 * @param graphRuns the graph runs that begin
 * @returns undefined if it was not begun: other runs have the thread, or a rewind of it is unfinished. `found` is undefined for a
 *   damaged thread
 */
export function* beginAtOnce(
  session: Session,
  run: RunRow,
  graphRuns: readonly string[],
): Program<{ found: StartFacts | undefined } | undefined> {
  const { threadId } = run;
  const tag = tagOf(session, threadId);
  yield* session.lock(threadId);
  // The row of the thread is locked first: then nothing else of it changes until the end.
  const asked = [
    ask("all", session.locking(OF_ID), threadId, tag),
    ask("count", MARK(session), ...RUN_ROWS.values(plainSealing, { thread: null, threadId }, run)),
    ask("one", TOMBSTONE_OF, threadId, tag),
    ...askCheckpoint(session, threadId, ""),
    ask("one", CURRENT_TASK, threadId),
    ask("one", GREATEST_ID, threadId),
    ask("all", GRAPHS, threadId),
    ask("one", NUMBER_IF_NEW(session), threadId, tag),
    ...graphRuns.map((graphRun) => ask("one", UNSAVED, graphRun)),
  ];
  const [threads, marks, tombstone, ...rest] = yield* session.together(asked, true);
  if (marks === 0) return undefined;
  // No other run has the thread.
  session.forgetLeases(threadId);
  const [latest, writes, wholes, task, greatest, graphs, number, ...unsaved] = rest;
  for (const [at, graphRun] of graphRuns.entries()) if (unsaved[at] === undefined) session.savedRuns.add(graphRun);
  try {
    return {
      found: learnt(session, threadId, threads as RawThread[], tombstone as RawOf<typeof TOMBSTONES> | undefined, {
        latest: [latest, writes, wholes] as AnsweredCheckpoint,
        task: task as RawTask | undefined,
        greatest: (greatest as { id: string | null } | undefined)?.id ?? null,
        graphs: graphs as { seq: number; digest: string }[],
        number: (number as { value: number } | undefined)?.value,
      }),
    };
  } catch (error) {
    // The next read of the thread reports it.
    if (TurnsError.is(error)) return { found: undefined };
    throw error;
  } finally {
    session.leases.set(run.runId, threadId);
  }
}

interface Learnt {
  latest: AnsweredCheckpoint;
  task: RawTask | undefined;
  greatest: string | null;
  graphs: readonly { seq: number; digest: string }[];
  number: number | undefined;
}

/**
 * What the answers say, for the run; the session remembers them for its first save.
 *
 * @returns undefined for a thread whose own row is damaged or doubled, or that moved away
 * @throws {TurnsError} CHECKPOINT_CORRUPTED, and what decrypting rows throws
 */
function learnt(
  session: Session,
  threadId: string,
  threads: readonly RawThread[],
  tombstone: RawOf<typeof TOMBSTONES> | undefined,
  { latest: [latest, versions, wholes], task, greatest, graphs, number }: Learnt,
): StartFacts | undefined {
  const deletion = tombstone && TOMBSTONE_ROWS.parse(session.sealing, threadId, tombstone);
  const [thread] = threads;
  if (thread === undefined) session.noticeRead(threadId, undefined);
  const none = { deletion: deletion?.deletedAt ?? 0, epoch: session.historyOf(threadId, 0), threadId, newest: undefined };
  if (thread === undefined) {
    if (deletion === undefined && number !== undefined) session.awaited.set(threadId, number);
    return none;
  }
  if (threads.length > 1 || !isIntact(session, threadId, thread)) return undefined;
  const row = THREAD_ROWS.unverified(threadId, thread);
  if (row.gone) return undefined;
  session.noticeRead(threadId, row);
  const epoch = session.historyOf(threadId, row.epoch);
  const known = session.threads.get(threadId);
  const isCurrent = known?.thread === row.thread && known.row.seq === row.seq && known.row.generation === row.generation;
  const key = isCurrent ? known : new ThreadState(session.changed, row, session.generationOf(threadId));
  const { facts } = key;
  facts.deletion = deletion ?? null;
  if (facts.tasks === undefined && task?.kind !== "update") {
    const current = task && toTask(session, threadId, task);
    facts.tasks = { current, lastRun: current };
  }
  if (facts.greatestIds.get("") === undefined) facts.greatestIds.set("", greatest);
  for (const { seq, digest } of graphs) facts.graphs.set(digest, seq);
  facts.areGraphsKnown = true;
  session.rememberRead(key);
  if (latest === undefined) return { ...none, epoch };
  const head = toLiveHead(session, threadId, latest);
  const { ns, checkpointId } = head;
  if (facts.heads.get(headKey(ns, checkpointId)) === undefined) rememberRead(key, head);
  return {
    ...none,
    epoch,
    newest: { thread, head, writes: writesIn(session, { threadId, ns, checkpointId }, versions), wholes },
  };
}

/** The thread's newest root checkpoint. Of its values, those that the caller doesn't remember are read. */
export function* foundCheckpoint(
  session: Session,
  { threadId, newest }: StartFacts,
  remembered: Remembered,
): Program<StoredCheckpoint | undefined> {
  if (newest === undefined) return undefined;
  const { thread, head, ...known } = newest;
  const was = THREAD_ROWS.unverified(threadId, thread);
  const values = valuesOf(
    session,
    new ThreadState(session.changed, was, session.generationOf(threadId)),
    head,
    remembered,
    known,
  );
  const first = values.next();
  if (first.done === true && first.value !== undefined) return first.value;
  const [now, stored] = yield* session.sideBySide<unknown[]>([threadKey(session, threadId), begun(first, values)]);
  const isSame =
    (now as ThreadState | undefined)?.thread === was.thread && (now as ThreadState).row.generation === was.generation;
  if (isSame && stored !== undefined) return stored as StoredCheckpoint;
  return yield* getCheckpoint(session, threadId, "", undefined, remembered);
}

/** @returns undefined if a value isn't there: it may have been deleted since the checkpoint was read */
function* valuesOf(...args: Parameters<typeof hydrated>): Program<StoredCheckpoint | undefined> {
  try {
    return yield* hydrated(...args);
  } catch (error) {
    if (TurnsError.is(error, "CHECKPOINT_CORRUPTED")) return undefined;
    throw error;
  }
}

/** The rest of a program whose first step is done. */
function* begun<T>(first: IteratorResult<Statement, T>, program: Program<T>): Program<T> {
  let step = first;
  while (step.done !== true) step = program.next(yield step.value);
  return step.value;
}
