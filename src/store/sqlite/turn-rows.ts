import { rowChecksum, verifyChecksum } from "../checksum";
import type { TurnRow, TurnStatus, TurnType } from "../store";
import type { Sql } from "./sql";

/** A row of `langgraph_checkpoints` as SQLite returns it. */
export interface RawTurn {
  id: string;
  graph_id: string;
  node_name: string;
  turn_type: TurnType;
  serialized_state: string;
  task_id: string;
  created_at: string;
  seq: number | null;
  state_format: TurnRow["stateFormat"];
  thread_id: string | null;
  checkpoint_ns: string | null;
  checkpoint_id: string | null;
  node_ns: string | null;
  node_task_id: string | null;
  run_id: string | null;
  step: number | null;
  attempt: number | null;
  status: TurnStatus | null;
  durable: number;
  input_tokens: number;
  output_tokens: number;
  checksum: string | null;
}

export const TURN_COLUMNS =
  "id, graph_id, node_name, turn_type, serialized_state, task_id, created_at, seq, state_format, thread_id, checkpoint_ns, " +
  "checkpoint_id, node_ns, node_task_id, run_id, step, attempt, status, durable, input_tokens, output_tokens, checksum";

const INSERT = `INSERT INTO langgraph_checkpoints (${TURN_COLUMNS}) VALUES (${TURN_COLUMNS.split(", ")
  .map(() => "?")
  .join(", ")})`;

export function insertTurn(sql: Sql, turn: TurnRow): TurnRow {
  sql.run(
    INSERT,
    turn.id,
    turn.graphId,
    turn.nodeName,
    turn.turnType,
    turn.serializedState,
    turn.taskId,
    turn.createdAt,
    turn.seq ?? null,
    turn.stateFormat,
    turn.threadId ?? null,
    turn.ns ?? null,
    turn.checkpointId ?? null,
    turn.nodeNs ?? null,
    turn.nodeTaskId ?? null,
    turn.runId ?? null,
    turn.step ?? null,
    turn.attempt ?? null,
    turn.status ?? null,
    turn.durable ? 1 : 0,
    turn.inputTokens,
    turn.outputTokens,
    checksumOf(turn),
  );
  return turn;
}

/** Reads a row, verified; rows that others inserted with the seven columns of S1 alone have no checksum to verify. */
export function toTurn(row: RawTurn): TurnRow {
  const turn: TurnRow = {
    id: row.id,
    graphId: row.graph_id,
    nodeName: row.node_name,
    turnType: row.turn_type,
    serializedState: row.serialized_state,
    taskId: row.task_id,
    createdAt: row.created_at,
    seq: row.seq ?? undefined,
    stateFormat: row.state_format,
    threadId: row.thread_id ?? undefined,
    ns: row.checkpoint_ns ?? undefined,
    checkpointId: row.checkpoint_id ?? undefined,
    nodeNs: row.node_ns ?? undefined,
    nodeTaskId: row.node_task_id ?? undefined,
    runId: row.run_id ?? undefined,
    step: row.step ?? undefined,
    attempt: row.attempt ?? undefined,
    status: row.status ?? undefined,
    durable: row.durable === 1,
    inputTokens: row.input_tokens,
    outputTokens: row.output_tokens,
  };
  if (row.checksum !== null) {
    verifyChecksum(row.checksum, checksumOf(turn), `turn ${turn.id} of graph ${turn.graphId}`, {
      id: turn.id,
      graphId: turn.graphId,
    });
  }
  return turn;
}

/** Over all that never changes; status, durable and tokens are updated in place. */
function checksumOf(turn: TurnRow): string {
  return rowChecksum(
    turn.id,
    turn.graphId,
    turn.nodeName,
    turn.turnType,
    turn.serializedState,
    turn.taskId,
    turn.createdAt,
    turn.seq,
    turn.stateFormat,
    turn.threadId,
    turn.ns,
    turn.checkpointId,
    turn.nodeNs,
    turn.nodeTaskId,
    turn.runId,
    turn.step,
    turn.attempt,
  );
}
