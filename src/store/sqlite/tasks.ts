import { verifyChecksum } from "../checksum";
import { ownershipChange } from "../ownership";
import type { TaskClaim, TaskRow } from "../store";
import type { Program, Sql } from "./sql";
import type { ThreadFacts } from "./thread-facts";
import type { ThreadKey } from "./thread-key";
import { threadKey } from "./thread-keys";
import { renameTaskOfTurns } from "./turn-changes";

/** A row of `langgraph_tasks` as SQLite returns it. */
export interface RawTask {
  task_id: string;
  graph_id: string;
  kind: TaskRow["kind"];
  seq: number;
  created_at: string;
  checksum: string;
}

const COLUMNS = "task_id, graph_id, kind, seq, created_at, checksum";
const CURRENT = `SELECT ${COLUMNS} FROM langgraph_tasks WHERE thread = ? ORDER BY seq DESC LIMIT 1`;
/** With all that came behind it: by a changed kind one of those might be the one that is looked for. */
const SINCE_LAST_RUN = `SELECT ${COLUMNS} FROM langgraph_tasks WHERE thread = ?1
  AND seq >= coalesce((SELECT max(seq) FROM langgraph_tasks WHERE thread = ?1 AND kind = 'run'), 0) ORDER BY seq`;
const ALL = `SELECT ${COLUMNS} FROM langgraph_tasks WHERE thread = ? ORDER BY seq`;
const OPEN =
  "INSERT INTO langgraph_tasks (thread, seq, task_id, graph_id, kind, created_at, checksum) VALUES (?, ?, ?, ?, ?, ?, ?)";
const RENAME = "UPDATE langgraph_tasks SET task_id = ?, checksum = ? WHERE thread = ? AND seq = ?";

/** Books a commit to its task. Runs inside the commit's transaction, before the commit takes a seq of its own. */
export function* claimTask(sql: Sql, key: ThreadKey, claim: TaskClaim, createdAt: string): Program<TaskRow> {
  const { current, lastRun } = yield* tasksKnown(sql, key);
  const change = ownershipChange(current, lastRun, claim, key.threadId);
  if (change.type === "rename" && current !== undefined) {
    const renamed = { ...current, taskId: change.taskId };
    key.touch();
    yield* renameTaskOfTurns(sql, key, current, renamed.taskId);
    yield* sql.run(RENAME, renamed.taskId, checksumOf(sql, key.threadId, renamed), key.thread, current.seq);
    key.facts.tasks = { current: renamed, lastRun: lastRun === current ? renamed : lastRun };
    return renamed;
  }
  if (change.type === "open") {
    const { taskId, graphId, kind } = change;
    const opened = { taskId, graphId, kind, seq: key.nextSeq(), createdAt };
    yield* insertTask(sql, key, opened);
    key.facts.tasks = { current: opened, lastRun: kind === "run" ? opened : lastRun };
    return opened;
  }
  return current as TaskRow;
}

function* tasksKnown(sql: Sql, key: ThreadKey): Program<NonNullable<ThreadFacts["tasks"]>> {
  if (key.facts.tasks === undefined) {
    const current = yield* currentTask(sql, key);
    key.facts.tasks = { current, lastRun: current?.kind === "update" ? yield* lastRunTask(sql, key) : current };
  }
  return key.facts.tasks;
}

export function* insertTask(sql: Sql, key: ThreadKey, task: TaskRow): Program<void> {
  const { thread, threadId } = key;
  key.count("others");
  const { taskId, graphId, kind, seq, createdAt } = task;
  yield* sql.run(OPEN, thread, seq, taskId, graphId, kind, createdAt, checksumOf(sql, threadId, task));
}

export function* currentTask(sql: Sql, key: ThreadKey): Program<TaskRow | undefined> {
  return toTask(sql, key.threadId, yield* sql.get<RawTask>(CURRENT, key.thread));
}

/** The newest interval in which something ran. */
export function* lastRunTask(sql: Sql, key: ThreadKey): Program<TaskRow | undefined> {
  const [first] = (yield* sql.all<RawTask>(SINCE_LAST_RUN, key.thread)).map((row) => toTask(sql, key.threadId, row));
  return first?.kind === "run" ? first : undefined;
}

export function* listTasks(sql: Sql, threadId: string): Program<TaskRow[]> {
  const key = yield* threadKey(sql, threadId);
  return key === undefined ? [] : yield* tasksOf(sql, key);
}

export function* tasksOf(sql: Sql, { thread, threadId }: ThreadKey): Program<TaskRow[]> {
  return (yield* sql.all<RawTask>(ALL, thread)).map((row) => toTask(sql, threadId, row) as TaskRow);
}

/** The task of a row, verified. @throws {TurnsError} CHECKPOINT_CORRUPTED */
export function toTask(sql: Sql, threadId: string, row: RawTask | undefined): TaskRow | undefined {
  if (row === undefined) return undefined;
  const { task_id: taskId, graph_id: graphId, kind, seq, created_at: createdAt } = row;
  const task = { taskId, graphId, kind, seq, createdAt };
  verifyChecksum(row.checksum, checksumOf(sql, threadId, task), `the task at ${seq} of thread ${threadId}`, { threadId, seq });
  return task;
}

function checksumOf(sql: Sql, threadId: string, { taskId, graphId, kind, seq, createdAt }: TaskRow): string {
  return sql.sealing.checksum(threadId, "task", seq, taskId, graphId, kind, createdAt);
}
