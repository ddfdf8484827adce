import { plainSealing, type Sealing } from "../sealing";
import { namespaceBelow } from "./namespaces";
import type { Bound } from "./program";
import { TURN_ROWS } from "./rows";
import type { TurnRow } from "./store";
import type { RawOf, TURNS } from "./tables";

export type RawTurn = RawOf<typeof TURNS>;

/** Anything with a sealing between rows and their texts. */
interface HasSealing {
  readonly sealing: Sealing;
}

/** The values that insert a turn. @param thread the number of its thread; null for one that belongs to none */
export function turnValues(session: HasSealing, thread: number | null, turn: TurnRow): Bound[] {
  return TURN_ROWS.values(sealingOf(session, thread), { thread, threadId: turn.threadId }, withoutUsual(turn));
}

/** The values that update what may change in a turn. */
export function changedTurn(session: HasSealing, turn: TurnRow): Bound[] {
  const sealing = turn.threadId === undefined ? plainSealing : session.sealing;
  return TURN_ROWS.changed(sealing, { thread: null, threadId: turn.threadId }, withoutUsual(turn));
}

/**
 * A row, verified. Rows that others inserted with only the seven columns of S1 have no checksum.
 *
 * @param threadId of the thread that it belongs to, if any
 */
export function toTurn(session: HasSealing, row: RawTurn, threadId: string | undefined): TurnRow {
  const turn = TURN_ROWS.parse(sealingOf(session, row.thread), row.thread === null ? undefined : threadId, row);
  if (row.thread !== null) turn.nodeNs ??= usualNamespace(turn);
  return turn;
}

/** Rows outside of any thread belong to CheckpointPersister, which has no keys. */
function sealingOf(session: HasSealing, thread: number | null): Sealing {
  return thread === null ? plainSealing : session.sealing;
}

/** Drops the namespace if the other columns tell it. */
function withoutUsual(turn: TurnRow): TurnRow {
  return turn.nodeNs !== undefined && turn.nodeNs === usualNamespace(turn) ? { ...turn, nodeNs: undefined } : turn;
}

function usualNamespace(turn: TurnRow): string | undefined {
  if (turn.nodeTaskId === undefined) return undefined;
  return namespaceBelow(turn.ns ?? "", `${turn.nodeName}:${turn.nodeTaskId}`);
}
