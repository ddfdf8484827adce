import { ownershipChange } from "../ownership";
import type { Program } from "../program";
import { TASK_ROWS } from "../rows";
import type { Sql } from "../session";
import { renameTaskOfTurns } from "./turn-changes";
import type { TaskClaim, TaskRow } from "../store";
import type { RawOf, TASKS } from "../tables";
import type { ThreadFacts, ThreadKey } from "../thread-state";
import { threadKey } from "./thread-rows";

type RawTask = RawOf<typeof TASKS>;

const CURRENT = TASK_ROWS.select("WHERE thread = ? ORDER BY seq DESC LIMIT 1");
/** With all that came behind it: by a changed kind one of those might be the one that is looked for. */
const SINCE_LAST_RUN = TASK_ROWS.select(`WHERE thread = ?1
  AND seq >= coalesce((SELECT max(seq) FROM langgraph_tasks WHERE thread = ?1 AND kind = 'run'), 0) ORDER BY seq`);
const ALL = TASK_ROWS.select("WHERE thread = ? ORDER BY seq");

/** Books a commit to its task. Runs inside the commit's transaction, before the commit takes a seq of its own. */
export function* claimTask(sql: Sql, key: ThreadKey, claim: TaskClaim, createdAt: string): Program<TaskRow> {
  const { current, lastRun } = yield* tasksKnown(sql, key);
  const change = ownershipChange(current, lastRun, claim, key.threadId);
  if (change.type === "rename" && current !== undefined) {
    const renamed = { ...current, taskId: change.taskId };
    key.touch();
    yield* renameTaskOfTurns(sql, key, current, renamed.taskId);
    yield* sql.run(TASK_ROWS.update, ...TASK_ROWS.changed(sql.sealing, key, renamed));
    key.facts.tasks = { current: renamed, lastRun: lastRun === current ? renamed : lastRun };
    return renamed;
  }
  if (change.type === "open") {
    const { taskId, graphId, kind } = change;
    const opened = { taskId, graphId, kind, seq: key.nextSeq(), createdAt };
    yield* sql.insert(key, TASK_ROWS, opened);
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

export function* currentTask(sql: Sql, key: ThreadKey): Program<TaskRow | undefined> {
  const row = yield* sql.get<RawTask>(CURRENT, key.thread);
  return row && toTask(sql, key.threadId, row);
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
  return (yield* sql.all<RawTask>(ALL, thread)).map((row) => toTask(sql, threadId, row));
}

/** The task of a row, verified. @throws {TurnsError} CHECKPOINT_CORRUPTED */
function toTask(sql: Sql, threadId: string, row: RawTask): TaskRow {
  return TASK_ROWS.parse(sql.sealing, threadId, row);
}
