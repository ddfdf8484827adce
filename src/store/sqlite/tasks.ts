import { ownershipChange } from "../ownership";
import type { TaskClaim, TaskRow } from "../store";
import type { Sql } from "./sql";
import { type ThreadKey, threadKey } from "./thread-keys";

interface Row {
  task_id: string;
  graph_id: string;
  kind: TaskRow["kind"];
  seq: number;
  created_at: string;
}

const COLUMNS = "task_id, graph_id, kind, seq, created_at";
const CURRENT = `SELECT ${COLUMNS} FROM langgraph_tasks WHERE thread = ? ORDER BY seq DESC LIMIT 1`;
const LAST_RUN = `SELECT ${COLUMNS} FROM langgraph_tasks WHERE thread = ? AND kind = 'run' ORDER BY seq DESC LIMIT 1`;
const ALL = `SELECT ${COLUMNS} FROM langgraph_tasks WHERE thread = ? ORDER BY seq`;
const OPEN = "INSERT INTO langgraph_tasks (thread, seq, task_id, graph_id, kind, created_at) VALUES (?, ?, ?, ?, ?, ?)";
const RENAME = "UPDATE langgraph_tasks SET task_id = ? WHERE thread = ? AND seq = ?";

/** Books a commit to its task. Runs inside the commit's transaction, before the commit takes a seq of its own. */
export function claimTask(sql: Sql, { thread, threadId }: ThreadKey, claim: TaskClaim, createdAt: string): TaskRow {
  const current = toTask(sql.get<Row>(CURRENT, thread));
  const lastRun = current?.kind === "update" ? toTask(sql.get<Row>(LAST_RUN, thread)) : current;
  const change = ownershipChange(current, lastRun, claim, threadId);
  if (change.type === "rename" && current !== undefined) {
    sql.run(RENAME, change.taskId, thread, current.seq);
    return { ...current, taskId: change.taskId };
  }
  if (change.type === "open") {
    const seq = sql.nextSeq();
    sql.run(OPEN, thread, seq, change.taskId, change.graphId, change.kind, createdAt);
    return { taskId: change.taskId, graphId: change.graphId, kind: change.kind, seq, createdAt };
  }
  return current as TaskRow;
}

export function currentTask(sql: Sql, { thread }: ThreadKey): TaskRow | undefined {
  return toTask(sql.get<Row>(CURRENT, thread));
}

/** The newest interval in which something ran. */
export function lastRunTask(sql: Sql, { thread }: ThreadKey): TaskRow | undefined {
  return toTask(sql.get<Row>(LAST_RUN, thread));
}

export function listTasks(sql: Sql, threadId: string): TaskRow[] {
  const key = threadKey(sql, threadId);
  return key === undefined ? [] : sql.all<Row>(ALL, key.thread).map((row) => toTask(row) as TaskRow);
}

function toTask(row: Row | undefined): TaskRow | undefined {
  if (row === undefined) return undefined;
  return { taskId: row.task_id, graphId: row.graph_id, kind: row.kind, seq: row.seq, createdAt: row.created_at };
}
