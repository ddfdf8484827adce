import { TurnsError } from "../../errors";
import { corrupted } from "../refusals";
import type { Program } from "../program";
import type { Session } from "../session";
import { leaveArchive, leaveThread, removeArchived, removeRows, ROWS_AT_ONCE } from "./leftovers";
import { bury, listRuns, refuseMoved, tasksOf, threadKey, threadNumbers, threadOrSignpost } from "./thread-rows";
import type { RunRow, ThreadRow } from "../store";
import { refuseBack } from "./paging";
import { clearRuns } from "./runs";

type Row = Pick<ThreadRow, "epoch" | "checkpoints" | "turns"> & { created_at: string; live: number };

const NEXT_ARCHIVE = "SELECT min(rewind_id) AS id FROM langgraph_archive WHERE thread_id = ? AND rewind_id > ?";
const PAGE = "SELECT thread_id FROM langgraph_threads WHERE thread_id > ? AND gone = 0 ORDER BY thread_id LIMIT ?";
/** No index has the column that is counted first, so the table is read. */
const COUNTS = `SELECT (SELECT count(created_at) FROM langgraph_threads) AS there,
  (SELECT count(*) FROM langgraph_threads WHERE thread_id > '') AS listed`;
/**
 * Checkpoints are counted in two ways, which agree in an intact thread. Turns are counted too: no checksum covers their recorded
 * number, because `CheckpointPersister` lowers it without the keys.
 */
const ONE = `SELECT created_at, epoch,
    (SELECT count(seq) FROM langgraph_checkpoints AS c WHERE c.thread = t.thread) AS turns,
    (SELECT count(*) FROM langgraph_snapshots AS s WHERE s.thread = t.thread AND s.superseded_by IS NULL) AS live,
    (SELECT count(*) FROM (SELECT 1 FROM langgraph_snapshots AS s WHERE s.thread = t.thread
      GROUP BY checkpoint_ns, checkpoint_id) AS c) AS checkpoints
  FROM langgraph_threads AS t WHERE thread = ?`;

export function* listThreads(session: Session, query: { after: string | undefined; limit: number }): Program<ThreadRow[]> {
  if (query.after === undefined) yield* verifyListed(session);
  const ids = yield* session.rows<[string]>(PAGE, query.after ?? "", query.limit);
  let last = query.after ?? "";
  for (const [threadId] of ids) {
    refuseBack("langgraph_threads", last, threadId);
    last = threadId;
  }
  const rows = yield* session.sideBySide(ids.map(([threadId]) => getThread(session, threadId)));
  return rows.filter((row) => row !== undefined);
}

/**
 * A damaged index would silently leave threads out.
 * @throws {TurnsError} CHECKPOINT_CORRUPTED
 */
function* verifyListed(session: Session): Program<void> {
  const { there, listed } = (yield* session.get<{ there: number; listed: number }>(COUNTS)) ?? { there: 0, listed: 0 };
  if (there !== listed) throw corrupted("the list of threads", `${there} threads`, `${listed} in their index`, {});
}

export function* getThread(session: Session, threadId: string): Program<ThreadRow | undefined> {
  const key = yield* threadKey(session, threadId);
  if (key === undefined) return undefined;
  const [row, intervals] = yield* session.sideBySide([session.get<Row>(ONE, key.thread), tasksOf(session, key)]);
  if (row === undefined) return undefined;
  const { created_at: createdAt, epoch, checkpoints, live, turns } = row;
  if (checkpoints !== live) {
    const what = `thread ${JSON.stringify(threadId)}`;
    throw corrupted(what, "a newest version of each of its checkpoints", `${live} of ${checkpoints}`, { threadId });
  }
  const tasks = new Set(intervals.map(({ taskId }) => taskId)).size;
  return { threadId, createdAt, epoch, checkpoints, turns, tasks };
}

/**
 * Leaves a tombstone, even for a thread that doesn't exist: its first save may be on its way.
 * @throws {TurnsError} THREAD_MOVED: its rows are in another database, or on their way there, and would stay there
 */
export function* deleteThread(
  session: Session,
  threadId: string,
  deletedAt: number,
  final: boolean,
  isAlive: (run: RunRow) => boolean,
): Program<void> {
  yield* session.lock(threadId);
  yield* refuseElsewhere(session, threadId);
  const dead = (yield* listRuns(session, threadId)).filter((run) => !isAlive(run));
  yield* clearRuns(session, dead);
  yield* removeThread(session, threadId);
  yield* bury(session, threadId, deletedAt, final);
}

/** A thread whose own row is damaged can be deleted. */
function* refuseElsewhere(session: Session, threadId: string): Program<void> {
  try {
    const key = yield* threadOrSignpost(session, threadId);
    if (key !== undefined) refuseMoved(key);
  } catch (error) {
    if (!TurnsError.is(error, "CHECKPOINT_CORRUPTED")) throw error;
  }
}

/**
 * Removes every row of the thread, in every table except the one of running runs. Some rows of a large thread stay for {@link
 * removeLeftovers}; nobody can reach them any more.
 */
export function* removeThread(session: Session, threadId: string): Program<void> {
  session.threads.delete(threadId);
  let left = ROWS_AT_ONCE;
  for (const thread of yield* threadNumbers(session, threadId)) {
    yield* session.run("DELETE FROM langgraph_threads WHERE thread = ?", thread);
    left -= yield* removeRows(session, thread, left);
    if (left <= 0) yield* leaveThread(session, thread);
  }
  // One look-up per archive: each has many rows.
  for (let rewindId = yield* archiveBehind(session, threadId, ""); rewindId !== undefined;) {
    if (left > 0) left -= yield* removeArchived(session, rewindId, left);
    if (left <= 0) yield* leaveArchive(session, rewindId);
    rewindId = yield* archiveBehind(session, threadId, rewindId);
  }
  yield* session.run("DELETE FROM langgraph_rewinds WHERE thread_id = ?", threadId);
}

function* archiveBehind(session: Session, threadId: string, last: string): Program<string | undefined> {
  const next = (yield* session.get<{ id: string | null }>(NEXT_ARCHIVE, threadId, last))?.id ?? undefined;
  return next === undefined || next <= last ? undefined : next;
}
