import { textFor } from "../dialect";
import type { Program } from "../program";
import { type RawTurn, toTurn, TURN_ROWS } from "../rows";
import type { Session } from "../session";
import type { TurnStatus, Lease, TurnRow } from "../store";
import { checkLease, rowsOf } from "./thread-rows";
import { turnOf, updateTurn } from "./turns";

const BY_ID = TURN_ROWS.select("WHERE id = ?");
const OF_THREAD = TURN_ROWS.select("WHERE thread = ? AND seq > ? ORDER BY seq LIMIT ?");
const KNOWN = textFor(
  ({ among }) => `SELECT DISTINCT node_task_id AS id FROM langgraph_checkpoints
  WHERE thread = ? AND node_task_id ${among("?")}`,
);
/**
 * The plus keeps SQLite on the index by node task. If a node's checkpoint and its run weren't kept ("exit", or no checkpointer),
 * the node is history once a root checkpoint follows it.
 */
const OPEN = TURN_ROWS.select(`AS t
  WHERE thread = ?1 AND turn_type = 'Thought'
    AND NOT EXISTS (SELECT 1 FROM langgraph_checkpoints AS later
      WHERE later.thread = ?1 AND later.node_task_id = t.node_task_id AND +later.seq > t.seq
        AND (later.turn_type = 'Thought' OR later.durable = 1 OR later.status <> 'ok'))
    AND CASE WHEN checkpoint_id IS NULL
      THEN seq > (SELECT coalesce(max(s.seq), 0) FROM langgraph_snapshots AS s
        WHERE s.thread = ?1 AND s.checkpoint_ns = '' AND s.superseded_by IS NULL)
      ELSE checkpoint_id = (SELECT checkpoint_id FROM langgraph_snapshots AS s
        WHERE s.thread = ?1 AND s.checkpoint_ns = t.checkpoint_ns AND s.superseded_by IS NULL
        ORDER BY s.position DESC LIMIT 1) END
  ORDER BY seq`);

/** @returns undefined if the turn no longer exists */
export function* saveValidation(
  session: Session,
  turnId: string,
  validation: string,
  status: TurnStatus | undefined,
  lease?: Lease,
): Program<TurnRow | undefined> {
  yield* checkLease(session, lease);
  const row = yield* session.get<RawTurn>(BY_ID, turnId);
  return (
    row && (yield* updateTurn(session, yield* turnOf(session, row), { validation, ...(status === undefined ? {} : { status }) }))
  );
}

export function* listTurns(session: Session, query: { threadId: string; afterSeq?: number; limit?: number }): Program<TurnRow[]> {
  const { threadId, afterSeq = 0, limit = Number.MAX_SAFE_INTEGER } = query;
  const rows = yield* rowsOf<RawTurn>(session, threadId, OF_THREAD, afterSeq, limit);
  return rows.map((row) => toTurn(session, row, threadId));
}

export function* openThoughts(session: Session, threadId: string): Program<TurnRow[]> {
  return (yield* rowsOf<RawTurn>(session, threadId, OPEN)).map((row) => toTurn(session, row, threadId));
}

export function* knownNodeTasks(session: Session, threadId: string, nodeTaskIds: readonly string[]): Program<string[]> {
  const ids = JSON.stringify(nodeTaskIds);
  return (yield* rowsOf<{ id: string }>(session, threadId, KNOWN(session), ids)).map((row) => row.id);
}
