import type { NewAction, NewThought, NewWrites, TaskRow, TurnRow } from "../store";
import type { Sql } from "./sql";
import { claimTask } from "./tasks";
import { turnApart } from "./turn-apart";
import { insertTurn, type RawTurn, toTurn, TURN_COLUMNS } from "./turn-rows";

const STARTED_AT_STEP = `SELECT checkpoint_id FROM langgraph_snapshots
  WHERE thread_id = ? AND checkpoint_ns = ? AND step = ? AND superseded_by IS NULL ORDER BY seq DESC LIMIT 64`;
const LATEST_ID = `SELECT checkpoint_id FROM langgraph_snapshots
  WHERE thread_id = ? AND checkpoint_ns = ? AND superseded_by IS NULL ORDER BY checkpoint_id DESC LIMIT 1`;
const ATTEMPTS =
  "SELECT count(*) AS n FROM langgraph_checkpoints WHERE thread_id = ? AND node_task_id = ? AND turn_type = 'Thought'";
const OF_NODE_TASK = `SELECT ${TURN_COLUMNS} FROM langgraph_checkpoints
  WHERE thread_id = ? AND node_task_id = ? AND turn_type = ? ORDER BY seq DESC LIMIT 1`;
const OF_ATTEMPT = `SELECT ${TURN_COLUMNS} FROM langgraph_checkpoints
  WHERE thread_id = ? AND node_task_id = ? AND run_id = ? AND turn_type = 'Thought' ORDER BY seq DESC LIMIT 1`;
const SETTLE = "UPDATE langgraph_checkpoints SET status = ?, durable = ? WHERE id = ?";
const ADD_TOKENS =
  "UPDATE langgraph_checkpoints SET input_tokens = input_tokens + ?, output_tokens = output_tokens + ? WHERE id = ?";
const OF_THREAD = `SELECT ${TURN_COLUMNS} FROM langgraph_checkpoints WHERE thread_id = ? AND seq > ? ORDER BY seq LIMIT ?`;
const OPEN = `SELECT ${TURN_COLUMNS} FROM langgraph_checkpoints AS t
  WHERE thread_id = ?1 AND turn_type = 'Thought'
    AND NOT EXISTS (SELECT 1 FROM langgraph_checkpoints AS later
      WHERE later.thread_id = ?1 AND later.node_task_id = t.node_task_id AND later.seq > t.seq
        AND (later.turn_type = 'Thought' OR later.durable = 1 OR later.status <> 'ok'))
    AND (checkpoint_id IS NULL OR checkpoint_id = (SELECT checkpoint_id FROM langgraph_snapshots AS s
      WHERE s.thread_id = ?1 AND s.checkpoint_ns = t.checkpoint_ns AND s.superseded_by IS NULL
      ORDER BY s.checkpoint_id DESC LIMIT 1))
  ORDER BY seq`;

export function insertThought(sql: Sql, thought: NewThought): TurnRow {
  const { threadId, nodeTaskId, nodeNs, step } = thought;
  const task = claimTask(sql, threadId, thought.claim, thought.createdAt);
  const origin = originOf(sql, thought);
  const attempts = sql.get<{ n: number }>(ATTEMPTS, threadId, nodeTaskId)?.n ?? 0;
  const reference = { checkpoint_ns: origin.ns, checkpoint_id: origin.checkpointId };
  return insertTurn(sql, {
    id: thought.id,
    graphId: task.graphId,
    nodeName: thought.nodeName,
    turnType: "Thought",
    serializedState: withInput(JSON.stringify(reference), thought.input),
    taskId: task.taskId,
    createdAt: thought.createdAt,
    seq: sql.nextSeq(),
    stateFormat: "checkpoint",
    threadId,
    ns: origin.ns,
    checkpointId: origin.checkpointId,
    nodeNs,
    nodeTaskId,
    runId: thought.runId,
    step,
    attempt: attempts + 1,
    status: undefined,
    durable: false,
    inputTokens: 0,
    outputTokens: 0,
  });
}

function withInput(reference: string, input: string | undefined): string {
  return input === undefined ? reference : `${reference.slice(0, -1)},"input":${input}}`;
}

/**
 * The checkpoint a node task started from: of its namespace, or of the nearest one above that has any (a functional task's
 * checkpoint is its entrypoint's). Several may stand at the same step after a fork; the node task's id tells which.
 */
function originOf(sql: Sql, thought: NewThought): { ns: string; checkpointId: string | undefined } {
  for (let ns = above(thought.nodeNs); ; ns = above(ns)) {
    const atStep = sql.all<{ checkpoint_id: string }>(STARTED_AT_STEP, thought.threadId, ns, thought.step - 1);
    const proven = atStep.find((row) => thought.startedFrom(row.checkpoint_id));
    const found = proven ?? sql.get<{ checkpoint_id: string }>(LATEST_ID, thought.threadId, ns);
    if (found !== undefined) return { ns, checkpointId: found.checkpoint_id };
    if (ns === "") return { ns: above(thought.nodeNs), checkpointId: undefined };
  }
}

/** `a:1|b:2` → `a:1` → the root, which is empty. */
function above(ns: string): string {
  const cut = ns.lastIndexOf("|");
  return cut === -1 ? "" : ns.slice(0, cut);
}

export function insertAction(sql: Sql, action: NewAction): TurnRow {
  const thought = sql.get<RawTurn>(OF_ATTEMPT, action.threadId, action.nodeTaskId, action.runId);
  const task = thought === undefined ? claimTask(sql, action.threadId, action.claim, action.createdAt) : undefined;
  return insertTurn(sql, {
    id: action.id,
    graphId: thought?.graph_id ?? (task as TaskRow).graphId,
    nodeName: action.nodeName,
    turnType: "Action",
    serializedState: action.update,
    taskId: thought?.task_id ?? (task as TaskRow).taskId,
    createdAt: action.createdAt,
    seq: sql.nextSeq(),
    stateFormat: "update",
    threadId: action.threadId,
    ns: thought?.checkpoint_ns ?? above(action.nodeNs),
    checkpointId: thought?.checkpoint_id ?? undefined,
    nodeNs: action.nodeNs,
    nodeTaskId: action.nodeTaskId,
    runId: action.runId,
    step: action.step,
    attempt: thought?.attempt ?? 1,
    status: action.status,
    durable: false,
    inputTokens: thought?.input_tokens ?? 0,
    outputTokens: thought?.output_tokens ?? 0,
  });
}

/**
 * Marks the Action of the task's latest attempt as settled, in the transaction of its writes; if the attempt has none (its
 * provisional save failed, or no recorder is attached), the Action is inserted here.
 */
export function settleAction(
  sql: Sql,
  writes: NewWrites,
  settle: NonNullable<NewWrites["settle"]>,
): ReturnType<typeof turnApart> | undefined {
  const { threadId, nodeTaskId } = writes;
  const thought = sql.get<RawTurn>(OF_NODE_TASK, threadId, nodeTaskId, "Thought");
  if (thought === undefined) return undefined;
  return turnApart(sql, { nodeName: thought.node_name, turnType: "Action" }, () => settled(sql, writes, settle, toTurn(thought)));
}

function settled(sql: Sql, writes: NewWrites, settle: NonNullable<NewWrites["settle"]>, thought: TurnRow): TurnRow {
  const rawAction = sql.get<RawTurn>(OF_NODE_TASK, writes.threadId, writes.nodeTaskId, "Action");
  if (rawAction !== undefined && (rawAction.seq ?? 0) > (thought.seq ?? 0)) {
    sql.run(SETTLE, settle.status, settle.durable ? 1 : 0, rawAction.id);
    return { ...toTurn(rawAction), status: settle.status, durable: settle.durable };
  }
  return insertTurn(sql, {
    ...thought,
    id: settle.actionId,
    turnType: "Action",
    serializedState: settle.update(),
    createdAt: writes.createdAt,
    seq: sql.nextSeq(),
    stateFormat: "update",
    status: settle.status,
    durable: settle.durable,
  });
}

export function addTokens(sql: Sql, threadId: string, nodeTaskId: string, input: number, output: number): void {
  const thought = sql.get<RawTurn>(OF_NODE_TASK, threadId, nodeTaskId, "Thought");
  if (thought !== undefined) sql.run(ADD_TOKENS, input, output, thought.id);
}

export function listTurns(sql: Sql, query: { threadId: string; afterSeq?: number; limit?: number }): TurnRow[] {
  return sql.all<RawTurn>(OF_THREAD, query.threadId, query.afterSeq ?? 0, query.limit ?? -1).map(toTurn);
}

export function openThoughts(sql: Sql, threadId: string): TurnRow[] {
  return sql.all<RawTurn>(OPEN, threadId).map(toTurn);
}
