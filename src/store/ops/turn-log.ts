import { chunkAddresses } from "../../codec";
import { TurnsError } from "../../errors";
import { textFor } from "../dialect";
import type { Bound, Program } from "../program";
import { type RawTurn, TURN_ROWS, turnValues } from "../rows";
import type { Session } from "../session";
import { type LoggedTurn, NOTHING_REMEMBERED, type TurnRow } from "../store";
import { refuseEncrypted } from "./keys";
import { getCheckpoint } from "./read-checkpoints";
import { threadKey } from "./thread-rows";
import { turnOf } from "./turns";
import { readChunks } from "./values";

/** Excludes turns of a deleted thread, and of a copy that is still being made. */
const REACHABLE = "(thread IS NULL OR thread NOT IN (SELECT thread FROM langgraph_leftovers))";
const TURNS = TURN_ROWS.select(`WHERE ${REACHABLE}`);
const BY_ID = `${TURNS} AND id = ?`;
/**
 * langgraph_tasks has the task and the graph of a recorded turn. An interval has nobody else's turns before the task began, and
 * late ones after it finished.
 */
const OF_TASKS =
  "langgraph_tasks AS t CROSS JOIN langgraph_checkpoints AS c WHERE c.thread = t.thread AND c.seq > t.seq AND c.task_id = t.task_id";
const OF_GRAPH = `(SELECT thread, min(seq) AS seq FROM langgraph_tasks WHERE graph_id = ?1 GROUP BY thread) AS t
  CROSS JOIN langgraph_checkpoints AS c WHERE c.thread = t.thread AND c.seq > t.seq AND c.graph_id = ?1`;
const NEWEST_OWN = "(SELECT max(rowid) FROM langgraph_checkpoints WHERE thread IS NULL AND graph_id = ?1)";
/** If threads have turns of the graph, the newest rows are searched first: usually one of the first belongs to the graph. */
const LATEST = `${TURNS} AND graph_id = ?1 AND rowid >= coalesce(${NEWEST_OWN}, 0)
  AND rowid <= CASE WHEN EXISTS (SELECT 1 FROM langgraph_tasks WHERE graph_id = ?1) THEN ${Number.MAX_SAFE_INTEGER} ELSE ${NEWEST_OWN} END
  ORDER BY rowid DESC LIMIT 1`;
/** {@link LATEST} where no index is by rowid: the newest one of each thread is. */
const LATEST_OF_EACH = `${TURNS} AND id = (SELECT id FROM (
    (SELECT id, rowid FROM langgraph_checkpoints WHERE thread IS NULL AND graph_id = ?1 ORDER BY rowid DESC LIMIT 1)
    UNION ALL SELECT c.id, c.rowid FROM (SELECT DISTINCT thread FROM langgraph_tasks WHERE graph_id = ?1) AS t CROSS JOIN LATERAL (
      SELECT id, rowid FROM langgraph_checkpoints WHERE thread = t.thread AND graph_id = ?1 ORDER BY seq DESC LIMIT 1) AS c
    WHERE t.thread NOT IN (SELECT thread FROM langgraph_leftovers)) AS newest
  ORDER BY rowid DESC LIMIT 1)`;
const IN_ORDER = " ORDER BY rowid ASC";

/** The texts that name rows by the key by which they are read fastest. */
const latest = textFor(({ rowid }) => (rowid === undefined ? LATEST_OF_EACH : LATEST));
const ofTask = textFor(
  ({ rowid = "id" }) =>
    `${TURNS} AND ${rowid} IN (SELECT ${rowid} FROM langgraph_checkpoints WHERE thread IS NULL AND task_id = ?1
      UNION ALL SELECT c.${rowid} FROM ${OF_TASKS} AND t.task_id = ?1)`,
);
const pruneGraph = textFor(
  ({ rowid = "id" }) =>
    `DELETE FROM langgraph_checkpoints WHERE ${rowid} IN (SELECT ${rowid} FROM langgraph_checkpoints WHERE ${REACHABLE} AND ${rowid} IN (
      SELECT ${rowid} FROM langgraph_checkpoints WHERE thread IS NULL AND graph_id = ?1 UNION ALL SELECT c.${rowid} FROM ${OF_GRAPH})
    ORDER BY rowid DESC LIMIT ${Number.MAX_SAFE_INTEGER} OFFSET ?2) RETURNING id, thread`,
);
const recordedWith = textFor(({ rowid = "id" }) => `${rowid} IN (SELECT c.${rowid} FROM ${OF_TASKS} AND t.task_id`);
/** Statements are kept, so their texts have few lengths. SQLite binds up to 32,766 values in one, older builds 999. */
const IDS_PER_STATEMENT = [900, 256, 64, 16];
const LOWER = "UPDATE langgraph_threads SET turns = turns - ? WHERE thread = ?";
const ID_OF = "SELECT thread_id FROM langgraph_threads WHERE thread = ?";
const threadsOfTasks = textFor(({ among }) => threadsWith(`task_id ${among("?1")}`));
const THREADS_OF_GRAPH = threadsWith("graph_id = ?1");

function threadsWith(tasks: string): string {
  return `SELECT thread FROM langgraph_threads WHERE thread IN (SELECT thread FROM langgraph_tasks WHERE ${tasks}) ORDER BY thread`;
}

/** A deleted turn, with its thread if it had one. */
interface Gone {
  id: string;
  thread: number | null;
}

/** Inserts a turn that belongs to no thread. @throws {TurnsError} ENCRYPTED */
export function* logTurn(session: Session, turn: Omit<TurnRow, "seq">): Program {
  yield* refuseEncrypted(session, `Turn ${JSON.stringify(turn.id)}`);
  yield* session.run(TURN_ROWS.insert, ...turnValues(session, null, { ...turn, seq: undefined }));
}

/** Whether exactly this row is there: for a commit in doubt. */
export function* isLogged(session: Session, turn: Omit<TurnRow, "seq">): Program<boolean> {
  const row = yield* session.get<RawTurn>(BY_ID, turn.id);
  const values = turnValues(session, null, { ...turn, seq: undefined });
  return row !== undefined && Object.values(row).every((value, at) => value === values[at]);
}

export function* turnById(session: Session, id: string): Program<LoggedTurn | undefined> {
  return yield* first(session, yield* session.all<RawTurn>(BY_ID, id));
}

export function* latestTurn(session: Session, graphId: string): Program<LoggedTurn | undefined> {
  return yield* first(session, yield* session.all<RawTurn>(latest(session), graphId));
}

/** Oldest first. */
export function* turnsOfTask(session: Session, taskId: string, graphId: string | undefined): Program<LoggedTurn[]> {
  const text = ofTask(session);
  const rows =
    graphId === undefined
      ? yield* session.all<RawTurn>(text + IN_ORDER, taskId)
      : yield* session.all<RawTurn>(`${text} AND graph_id = ?2${IN_ORDER}`, taskId, graphId);
  const turns: LoggedTurn[] = [];
  for (const row of rows) turns.push(yield* withParts(session, row));
  return turns;
}

/** Deletes all rows of these tasks. @returns their ids */
export function* deleteTurnsOfTasks(
  session: Session,
  taskIds: readonly string[],
  graphId: string | undefined,
): Program<string[]> {
  yield* holdThreads(session, threadsOfTasks(session), JSON.stringify(taskIds));
  const gone: Gone[] = [];
  for (let from = 0; from < taskIds.length;) {
    const left = taskIds.length - from;
    const ids = taskIds.slice(from, from + (IDS_PER_STATEMENT.find((count) => count <= left) ?? left));
    const placeholders = Array(ids.length).fill("?").join(",");
    const [scope, graphs] = graphId === undefined ? ["", []] : [" AND graph_id = ?", [graphId]];
    for (const which of ["thread IS NULL AND (task_id", recordedWith(session)]) {
      const text = `DELETE FROM langgraph_checkpoints WHERE ${which} IN (${placeholders}))${scope} RETURNING id, thread`;
      gone.push(...(yield* session.all<Gone>(text, ...ids, ...graphs)));
    }
    from += ids.length;
  }
  return yield* counted(session, gone);
}

/** Deletes all rows of a graph but the newest ones. @returns their ids */
export function* pruneTurns(session: Session, graphId: string, keep: number): Program<string[]> {
  yield* holdThreads(session, THREADS_OF_GRAPH, graphId);
  return yield* counted(session, yield* session.all<Gone>(pruneGraph(session), graphId, keep));
}

/** Locks the threads that may lose turns, as every save on them does first. Then nobody waits for us while we wait for them. */
function* holdThreads(session: Session, threads: string, of: Bound): Program {
  if (session.engine.dialect.guards !== undefined) yield* session.all(session.locking(threads), of);
}

/** Updates the threads that lost turns. */
function* counted(session: Session, gone: readonly Gone[]): Program<string[]> {
  const lost = new Map<number, number>();
  for (const { thread } of gone) if (thread !== null) lost.set(thread, (lost.get(thread) ?? 0) + 1);
  for (const [thread, turns] of lost) {
    if (session.engine.dialect.guards === undefined) yield* session.run(LOWER, turns, thread);
    else yield* countedIn(session, thread, turns);
  }
  return gone.map(({ id }) => id);
}

/** Others remember the row of the thread, so it has to show that it has changed. A leftover has none. */
function* countedIn(session: Session, thread: number, turns: number): Program {
  const row = yield* session.get<{ thread_id: string }>(ID_OF, thread);
  if (row !== undefined) (yield* threadKey(session, row.thread_id))?.count("turns", -turns);
}

function* first(session: Session, [row]: readonly RawTurn[]): Program<LoggedTurn | undefined> {
  return row === undefined ? undefined : yield* withParts(session, row);
}

function* withParts(session: Session, row: RawTurn): Program<LoggedTurn> {
  const turn = yield* turnOf(session, row);
  const { threadId, serializedState } = turn;
  if (threadId === undefined) return { turn, chunks: new Map(), checkpoint: () => undefined };
  const chunks = yield* readChunks(session, threadId, chunkAddresses(serializedState));
  return { turn, chunks, checkpoint: yield* checkpointBehind(session, turn) };
}

/** Whether it's needed, only the turn's state tells. */
function* checkpointBehind(session: Session, turn: TurnRow): Program<LoggedTurn["checkpoint"]> {
  const { stateFormat, threadId, ns = "", checkpointId } = turn;
  if (stateFormat !== "checkpoint" || threadId === undefined || checkpointId === undefined) return () => undefined;
  try {
    const found = yield* getCheckpoint(session, threadId, ns, checkpointId, NOTHING_REMEMBERED);
    return () => found;
  } catch (error) {
    if (!TurnsError.is(error)) throw error;
    return () => {
      throw error;
    };
  }
}
