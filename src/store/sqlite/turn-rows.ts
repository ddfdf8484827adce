import { plainSealing, type Sealing } from "../../sealing";
import { verifyChecksum } from "../checksum";
import { namespaceBelow } from "../namespaces";
import type { TaskRow, TurnRow, TurnStatus, TurnType } from "../store";
import { turnIdentity } from "./identities";
import { fromSealedText, toSealedText } from "./sealed-text";
import type { Program, Sql } from "./sql";
import { threadIdOf, type ThreadKey, threadKey } from "./thread-keys";

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

/** A new turn of a thread. It is written at the end of the transaction, together with what becomes of it until then. */
export function insertTurn(key: ThreadKey, turn: TurnRow): TurnRow {
  key.count("turns");
  key.addTurn(turn);
  rememberTurn(key, turn);
  return turn;
}

/** A turn is new, or has changed; of node tasks that have ended nothing is remembered. */
function rememberTurn({ facts }: ThreadKey, turn: TurnRow): void {
  const { nodeTaskId, id } = turn;
  const known = nodeTaskId === undefined ? undefined : facts.turns.get(nodeTaskId);
  if (nodeTaskId === undefined || known === undefined) return;
  if (turn.turnType === "Action" && turn.durable) facts.turns.delete(nodeTaskId);
  else facts.turns.set(nodeTaskId, [...known.filter((other) => other.id !== id), turn].toSorted(bySeq));
}

function bySeq(left: TurnRow, right: TurnRow): number {
  return (left.seq ?? 0) - (right.seq ?? 0);
}

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

/** What may change in a turn that is saved. */
export type TurnChange = Partial<
  Pick<
    TurnRow,
    | "status"
    | "durable"
    | "inputTokens"
    | "outputTokens"
    | "cachedTokens"
    | "reasoningTokens"
    | "graph"
    | "fingerprint"
    | "validation"
  >
>;

const UPDATE = `UPDATE langgraph_checkpoints SET status = ?, durable = ?, input_tokens = ?, output_tokens = ?, cached_tokens = ?,
  reasoning_tokens = ?, graph = ?, fingerprint = ?, validation = ?, checksum = ? WHERE id = ?`;

const SINCE = `SELECT ${TURN_COLUMNS} FROM langgraph_checkpoints WHERE thread = ? AND seq > ?`;
const RENAME_TASK = "UPDATE langgraph_checkpoints SET task_id = ?, checksum = ? WHERE id = ?";

/**
 * Changes a turn in place, within the caller's transaction.
 *
 * @param turn as {@link toTurn} read it in the same transaction, so verified: the new checksum must not vouch for what somebody else
 *   has changed
 * @returns the turn as it is now
 */
export function* updateTurn(sql: Sql, turn: TurnRow, change: TurnChange): Program<TurnRow> {
  const now = { ...turn, ...change };
  const key = now.threadId === undefined ? undefined : yield* threadKey(sql, now.threadId);
  key?.touch();
  if (key !== undefined) rememberTurn(key, now);
  if (key?.replaceTurn(now) === true) return now;
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
  return now;
}

/** The turns that were recorded under the first name of a task get its new one: a turn's task is always one of its thread's. */
export function* renameTaskOfTurns(sql: Sql, key: ThreadKey, { seq, taskId }: TaskRow, newId: string): Program {
  yield* key.flush();
  for (const row of yield* sql.all<RawTurn>(SINCE, key.thread, seq)) {
    if (row.task_id !== taskId) continue;
    const turn = { ...toTurn(sql, row, key.threadId), taskId: newId };
    yield* sql.run(RENAME_TASK, newId, checksumOf(sql.sealing, turn), turn.id);
    rememberTurn(key, turn);
  }
}

/** A row of whichever thread, verified. */
export function* turnOf(sql: Sql, row: RawTurn): Program<TurnRow> {
  return toTurn(sql, row, row.thread === null ? undefined : yield* threadIdOf(sql, row.thread));
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
