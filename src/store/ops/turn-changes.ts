import type { Program } from "../program";
import { TURN_ROWS } from "../rows";
import { type Session, LeftUnwritten } from "../session";
import type { LostTurn, TurnRow, TaskRow } from "../store";
import type { ChangesOf, TURNS } from "../tables";
import { headKey, type ThreadState } from "../thread-state";
import { changedTurn, toTurn, type RawTurn } from "../turn-rows";
import { threadKey, threadIdOf } from "./thread-rows";

/** A turn that rode along with a commit: saved or lost. */
export interface SavedApart {
  turn: TurnRow | undefined;
  lost: LostTurn | undefined;
}

/** A turn that couldn't be saved has taken the whole transaction back with it. */
export class TookAllBack extends Error {
  constructor(override readonly cause: unknown) {
    super("a turn could not be saved", { cause });
  }
}

/**
 * Saves a turn that rides along with a request. If it fails, the whole transaction is taken apart (see `CommitQueue`); then the turn has a
 * savepoint of its own, so that only the turn is lost, and what LangGraph asked to save is saved (S1.9). A turn that takes the savepoint
 * back too, as when the disk is full, is left out.
 *
 * @throws {TookAllBack}
 */
export function* turnApart(session: Session, of: Omit<LostTurn, "error">, save: Program<TurnRow>): Program<SavedApart> {
  if (!session.inParts) return { turn: yield* save, lost: undefined };
  if (session.leftOut !== undefined) return { turn: undefined, lost: { ...of, error: session.leftOut.error } };
  yield* session.flush();
  const restore = session.savepoint();
  yield* session.run("SAVEPOINT turn_apart");
  try {
    const turn = yield* save;
    yield* session.flush();
    yield* session.run("RELEASE turn_apart");
    return { turn, lost: undefined };
  } catch (error) {
    const reason = session.engine.meaningOf(error instanceof LeftUnwritten ? error.cause : error);
    yield* rolledBack(session, reason);
    restore();
    return { turn: undefined, lost: { ...of, error: reason } };
  }
}

/** After some failures (a full disk) SQLite has rolled all of the transaction back, and there is no savepoint any more. */
function* rolledBack(session: Session, reason: unknown): Program {
  try {
    yield* session.run("ROLLBACK TO turn_apart");
    yield* session.run("RELEASE turn_apart");
  } catch {
    throw new TookAllBack(reason);
  }
}

const SINCE = TURN_ROWS.select("WHERE thread = ? AND seq > ?");

/** A new turn of a thread. It is written at the end of the transaction, together with what becomes of it until then. */
export function insertTurn(key: ThreadState, turn: TurnRow): TurnRow {
  key.count("turns");
  key.addTurn(turn);
  const { ns = "", checkpointId = "", nodeTaskId = "" } = turn;
  key.facts.heads.get(headKey(ns, checkpointId))?.turns?.add(nodeTaskId);
  rememberTurn(key, turn);
  return turn;
}

/** A turn is new, or has changed; of node tasks that have ended nothing is remembered. */
function rememberTurn({ facts }: ThreadState, turn: TurnRow): void {
  const { nodeTaskId, id } = turn;
  const known = nodeTaskId === undefined ? undefined : facts.turns.get(nodeTaskId);
  if (nodeTaskId === undefined || known === undefined) return;
  if (turn.turnType === "Action" && turn.durable) facts.turns.delete(nodeTaskId);
  else facts.turns.set(nodeTaskId, [...known.filter((other) => other.id !== id), turn].toSorted(bySeq));
}

function bySeq(left: TurnRow, right: TurnRow): number {
  return (left.seq ?? 0) - (right.seq ?? 0);
}

/** What may change in a turn that is saved. */
export type TurnChange = Partial<ChangesOf<typeof TURNS>>;

/**
 * Changes a turn in place, within the caller's transaction.
 *
 * @param turn as {@link toTurn} read it in the same transaction, so verified: the new checksum must not vouch for what somebody else
 *   has changed
 * @returns the turn as it is now
 */
export function* updateTurn(session: Session, turn: TurnRow, change: TurnChange): Program<TurnRow> {
  const now = { ...turn, ...change };
  const key = now.threadId === undefined ? undefined : yield* threadKey(session, now.threadId);
  key?.touch();
  if (key !== undefined) rememberTurn(key, now);
  if (key?.replaceTurn(now) === true) return now;
  yield* session.run(TURN_ROWS.update, ...changedTurn(session, now));
  return now;
}

/** The turns that were recorded under the first name of a task get its new one: a turn's task is always one of its thread's. */
export function* renameTaskOfTurns(session: Session, key: ThreadState, { seq, taskId }: TaskRow, newId: string): Program {
  yield* session.flushTurns(key);
  for (const row of yield* session.all<RawTurn>(SINCE, key.thread, seq)) {
    if (row.task_id !== taskId) continue;
    const turn = { ...toTurn(session, row, key.threadId), taskId: newId };
    yield* session.run(TURN_ROWS.update, ...changedTurn(session, turn));
    rememberTurn(key, turn);
  }
}

/** A row of whichever thread, verified. */
export function* turnOf(session: Session, row: RawTurn): Program<TurnRow> {
  return toTurn(session, row, row.thread === null ? undefined : yield* threadIdOf(session, row.thread));
}
