import { plainSealing, type Sealing } from "../../sealing";
import { verifyChecksum } from "../checksum";
import { namespaceBelow } from "../namespaces";
import type { TurnRow, TurnStatus, TurnType } from "../store";
import { turnIdentity } from "./identities";
import { fromSealedText, toSealedText } from "./sealed-text";
import type { Program, Sql } from "./sql";

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
  thread: number | null;
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
  cached_tokens: number;
  reasoning_tokens: number;
  graph: number | null;
  fingerprint: string | null;
  validation: string | null;
  checksum: string | null;
}

export const TURN_COLUMNS =
  "id, graph_id, node_name, turn_type, serialized_state, task_id, created_at, seq, state_format, thread, checkpoint_ns, " +
  "checkpoint_id, node_ns, node_task_id, run_id, step, attempt, status, durable, input_tokens, output_tokens, cached_tokens, reasoning_tokens, " +
  "graph, fingerprint, validation, checksum";

const INSERT = `INSERT INTO langgraph_checkpoints (${TURN_COLUMNS}) VALUES (${TURN_COLUMNS.split(", ")
  .map(() => "?")
  .join(", ")})`;

/** @param thread the number of the turn's thread; null for one that belongs to none */
export function* writeTurn(sql: Sql, thread: number | null, turn: TurnRow): Program {
  const sealing = sealingOf(sql, thread);
  const place = turn.nodeNs !== undefined && turn.nodeNs === usualNamespace(turn) ? undefined : turn.nodeNs;
  yield* sql.run(
    INSERT,
    turn.id,
    turn.graphId,
    turn.nodeName,
    turn.turnType,
    sealedState(sealing, turn),
    turn.taskId,
    turn.createdAt,
    turn.seq ?? null,
    turn.stateFormat,
    thread,
    turn.ns ?? null,
    turn.checkpointId ?? null,
    place ?? null,
    turn.nodeTaskId ?? null,
    turn.runId ?? null,
    turn.step ?? null,
    turn.attempt ?? null,
    turn.status ?? null,
    turn.durable ? 1 : 0,
    turn.inputTokens,
    turn.outputTokens,
    turn.cachedTokens,
    turn.reasoningTokens,
    turn.graph ?? null,
    turn.fingerprint ?? null,
    turn.validation ?? null,
    checksumOf(sealing, turn),
  );
}

const UPDATE = `UPDATE langgraph_checkpoints SET status = ?, durable = ?, input_tokens = ?, output_tokens = ?, cached_tokens = ?,
  reasoning_tokens = ?, graph = ?, fingerprint = ?, validation = ?, checksum = ? WHERE id = ?`;

const RENAME_TASK = "UPDATE langgraph_checkpoints SET task_id = ?, checksum = ? WHERE id = ?";

/** Writes what may change in a turn. */
export function* rewriteTurn(sql: Sql, now: TurnRow): Program {
  yield* sql.run(
    UPDATE,
    now.status ?? null,
    now.durable ? 1 : 0,
    now.inputTokens,
    now.outputTokens,
    now.cachedTokens,
    now.reasoningTokens,
    now.graph ?? null,
    now.fingerprint ?? null,
    now.validation ?? null,
    checksumOf(now.threadId === undefined ? plainSealing : sql.sealing, now),
    now.id,
  );
}

/** Writes the name of a turn's task. */
export function* rewriteTask(sql: Sql, now: TurnRow): Program {
  yield* sql.run(RENAME_TASK, now.taskId, checksumOf(sql.sealing, now), now.id);
}

/**
 * A row, verified; rows that others inserted with the seven columns of S1 alone have no checksum to verify.
 *
 * @param threadId of the thread that it belongs to, if any
 */
export function toTurn(sql: Sql, row: RawTurn, threadId: string | undefined): TurnRow {
  const sealing = sealingOf(sql, row.thread);
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
    threadId: row.thread === null ? undefined : threadId,
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
    cachedTokens: row.cached_tokens,
    reasoningTokens: row.reasoning_tokens,
    graph: row.graph ?? undefined,
    fingerprint: row.fingerprint ?? undefined,
    validation: row.validation ?? undefined,
  };
  turn.serializedState = openedState(sealing, turn);
  if (row.thread !== null) turn.nodeNs ??= usualNamespace(turn);
  if (row.checksum !== null || sealing.encrypted) {
    verifyChecksum(row.checksum ?? "", checksumOf(sealing, turn), `turn ${turn.id} of graph ${turn.graphId}`, {
      id: turn.id,
      graphId: turn.graphId,
    });
  }
  return turn;
}

/** Rows outside of any thread are CheckpointPersister's, which has no keys. */
function sealingOf(sql: Sql, thread: number | null): Sealing {
  return thread === null ? plainSealing : sql.sealing;
}

function sealedState(sealing: Sealing, turn: TurnRow): string {
  const sealed = sealing.seal(turn.threadId ?? "", turnIdentity(turn.id), turn.serializedState);
  return typeof sealed === "string" ? sealed : toSealedText(sealed);
}

function openedState(sealing: Sealing, turn: TurnRow): string {
  const stored = fromSealedText(turn.serializedState) ?? turn.serializedState;
  return sealing.open(turn.threadId ?? "", turnIdentity(turn.id), stored);
}

function usualNamespace(turn: TurnRow): string | undefined {
  if (turn.nodeTaskId === undefined) return undefined;
  return namespaceBelow(turn.ns ?? "", `${turn.nodeName}:${turn.nodeTaskId}`);
}

/** Over all of the row, what is updated in place too: {@link updateTurn} writes it anew. */
function checksumOf(sealing: Sealing, turn: TurnRow): string {
  return sealing.checksum(
    turn.threadId ?? "",
    turn.id,
    turn.graphId,
    turn.nodeName,
    turn.turnType,
    turn.serializedState,
    turn.taskId,
    turn.createdAt,
    turn.seq,
    turn.stateFormat,
    turn.ns,
    turn.checkpointId,
    turn.nodeNs,
    turn.nodeTaskId,
    turn.runId,
    turn.step,
    turn.attempt,
    turn.status,
    turn.durable ? 1 : 0,
    turn.inputTokens,
    turn.outputTokens,
    turn.cachedTokens,
    turn.reasoningTokens,
    turn.graph,
    turn.fingerprint,
    turn.validation,
  );
}
