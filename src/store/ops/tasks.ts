import type { Program } from "../program";
import { TASK_ROWS } from "../rows";
import type { Session } from "../session";
import type { TaskClaim, TaskRow } from "../store";
import type { RawOf, TASKS } from "../tables";
import type { ThreadFacts, ThreadState } from "../thread-state";
import { threadKey } from "./thread-rows";
import { renameTaskOfTurns } from "./turn-changes";

export type RawTask = RawOf<typeof TASKS>;

const CURRENT = TASK_ROWS.select("WHERE thread = ? ORDER BY seq DESC LIMIT 1");
/** Includes all later rows: if a kind was tampered with, one of those might be the one to find. */
const SINCE_LAST_RUN = TASK_ROWS.select(`WHERE thread = ?1
  AND seq >= coalesce((SELECT max(seq) FROM langgraph_tasks WHERE thread = ?1 AND kind = 'run'), 0) ORDER BY seq`);
const ALL = TASK_ROWS.select("WHERE thread = ? ORDER BY seq");

/** Books a commit to its task. Runs inside the commit's transaction, before the commit takes its own seq. */
export function* claimTask(session: Session, key: ThreadState, claim: TaskClaim, createdAt: string): Program<TaskRow> {
  const { current, lastRun } = yield* tasksKnown(session, key);
  const change = ownershipChange(current, lastRun, claim, key.threadId);
  if (change.type === "rename" && current !== undefined) {
    const renamed = { ...current, taskId: change.taskId };
    key.touch();
    yield* renameTaskOfTurns(session, key, current, renamed.taskId);
    yield* session.run(TASK_ROWS.update, ...TASK_ROWS.changed(session.sealing, key, renamed));
    key.facts.tasks = { current: renamed, lastRun: lastRun === current ? renamed : lastRun };
    return renamed;
  }
  if (change.type === "open") {
    const { taskId, graphId, kind } = change;
    const opened = { taskId, graphId, kind, seq: key.nextSeq(), createdAt, prunedTokens: undefined };
    yield* session.insert(key, TASK_ROWS, opened);
    key.facts.tasks = { current: opened, lastRun: kind === "run" ? opened : lastRun };
    return opened;
  }
  return current as TaskRow;
}

function* tasksKnown(session: Session, key: ThreadState): Program<NonNullable<ThreadFacts["tasks"]>> {
  if (key.facts.tasks === undefined) {
    const current = yield* currentTask(session, key);
    key.facts.tasks = { current, lastRun: current?.kind === "update" ? yield* lastRunTask(session, key) : current };
  }
  return key.facts.tasks;
}

export function* currentTask(session: Session, key: ThreadState): Program<TaskRow | undefined> {
  const row = yield* session.get<RawTask>(CURRENT, key.thread);
  return row && toTask(session, key.threadId, row);
}

/** The newest interval in which something ran. */
export function* lastRunTask(session: Session, key: ThreadState): Program<TaskRow | undefined> {
  const [first] = (yield* session.all<RawTask>(SINCE_LAST_RUN, key.thread)).map((row) => toTask(session, key.threadId, row));
  return first?.kind === "run" ? first : undefined;
}

export function* listTasks(session: Session, threadId: string): Program<TaskRow[]> {
  const key = yield* threadKey(session, threadId);
  return key === undefined ? [] : yield* tasksOf(session, key);
}

export function* tasksOf(session: Session, { thread, threadId }: ThreadState): Program<TaskRow[]> {
  return (yield* session.all<RawTask>(ALL, thread)).map((row) => toTask(session, threadId, row));
}

/** The task of a row, verified. @throws {TurnsError} CHECKPOINT_CORRUPTED */
export function toTask(session: Session, threadId: string, row: RawTask): TaskRow {
  return TASK_ROWS.parse(session.sealing, threadId, row);
}

/** How a commit changes the thread's list of task intervals, before its own row takes the next seq. */
export type OwnershipChange =
  | { type: "none" }
  | { type: "rename"; taskId: string }
  | { type: "open"; taskId: string; graphId: string; kind: TaskRow["kind"] };

/**
 * Decides which of the user's tasks a commit belongs to (design, *task*). Each new input starts a task, and a resume continues
 * the one it resumes. An `updateState` between runs is a task of its own, so that a rewind to the task before it is exact. A
 * task's rows are those of its intervals, so ownership depends on *when* a row was saved, and only turns carry a task id.
 *
 * @param current the interval that is open now
 * @param lastRun the newest interval of kind `run`, which a resume after an `updateState` continues
 */
export function ownershipChange(
  current: TaskRow | undefined,
  lastRun: TaskRow | undefined,
  claim: TaskClaim,
  threadId: string,
): OwnershipChange {
  const graphId = claim.graphId ?? current?.graphId ?? threadId;
  const open = (taskId: string, kind: TaskRow["kind"]): OwnershipChange => ({ type: "open", taskId, graphId, kind });
  const kind = claim.kind === "update" ? "update" : "run";

  if (current !== undefined && current.graphId !== graphId && claim.kind === "resume") {
    return open(claim.taskId ?? current.taskId, kind);
  }
  if (claim.taskId !== undefined) {
    const continues = current?.taskId === claim.taskId && (current.kind === kind || kind === "update");
    return continues ? { type: "none" } : open(claim.taskId, kind);
  }
  if (current === undefined) return open(claim.name, kind);
  if (claim.kind === "resume") {
    return current.kind === "update" && lastRun !== undefined ? open(lastRun.taskId, "run") : { type: "none" };
  }
  if (claim.provisional !== undefined && current.taskId === claim.provisional) {
    return claim.name === current.taskId ? { type: "none" } : { type: "rename", taskId: claim.name };
  }
  return open(claim.name, kind);
}
