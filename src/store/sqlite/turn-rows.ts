import { plainSealing, type Sealing } from "../../sealing";
import { namespaceBelow } from "../namespaces";
import { TURN_ROWS } from "../rows";
import type { TurnRow } from "../store";
import type { RawOf, TURNS } from "../tables";
import type { Program, Sql } from "./sql";

export type RawTurn = RawOf<typeof TURNS>;

/** @param thread the number of the turn's thread; null for one that belongs to none */
export function* writeTurn(sql: Sql, thread: number | null, turn: TurnRow): Program {
  const owner = { thread, threadId: turn.threadId };
  yield* sql.run(TURN_ROWS.insert, ...TURN_ROWS.values(sealingOf(sql, thread), owner, withoutUsual(turn)));
}

/** Writes what may change in a turn. */
export function* rewriteTurn(sql: Sql, now: TurnRow): Program {
  const sealing = now.threadId === undefined ? plainSealing : sql.sealing;
  yield* sql.run(TURN_ROWS.update, ...TURN_ROWS.changed(sealing, { thread: null, threadId: now.threadId }, withoutUsual(now)));
}

/**
 * A row, verified; rows that others inserted with the seven columns of S1 alone have no checksum to verify.
 *
 * @param threadId of the thread that it belongs to, if any
 */
export function toTurn(sql: Sql, row: RawTurn, threadId: string | undefined): TurnRow {
  const turn = TURN_ROWS.parse(sealingOf(sql, row.thread), row.thread === null ? undefined : threadId, row);
  if (row.thread !== null) turn.nodeNs ??= usualNamespace(turn);
  return turn;
}

/** Rows outside of any thread are CheckpointPersister's, which has no keys. */
function sealingOf(sql: Sql, thread: number | null): Sealing {
  return thread === null ? plainSealing : sql.sealing;
}

/** The namespace is not stored where the other columns tell it. */
function withoutUsual(turn: TurnRow): TurnRow {
  return turn.nodeNs !== undefined && turn.nodeNs === usualNamespace(turn) ? { ...turn, nodeNs: undefined } : turn;
}

function usualNamespace(turn: TurnRow): string | undefined {
  if (turn.nodeTaskId === undefined) return undefined;
  return namespaceBelow(turn.ns ?? "", `${turn.nodeName}:${turn.nodeTaskId}`);
}
