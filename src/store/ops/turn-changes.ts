import { StaleFacts } from "../engine";
import type { Program } from "../program";
import { TURN_ROWS } from "../rows";
import { type Session, LeftUnwritten } from "../session";
import type { LostTurn, TurnRow, TaskRow } from "../store";
import type { ChangesOf, TURNS } from "../tables";
import { headKey, type ThreadState } from "../thread-state";
import { changedTurn, toTurn, type RawTurn } from "../turn-rows";
import { threadKey, threadIdOf } from "./thread-rows";

/** A turn that is part of a commit: saved or lost. */
export interface SavedApart {
  turn: TurnRow | undefined;
  lost: LostTurn | undefined;
}

/** A turn couldn't be saved, and the whole transaction was rolled back with it. */
export class TookAllBack extends Error {
  constructor(override readonly cause: unknown) {
    super("a turn could not be saved", { cause });
  }
}

/**
 * Saves a turn that is part of a request. If it fails, the whole transaction is taken apart (see `CommitQueue`). The turn then
 * gets its own savepoint, so that only the turn is lost and the rest of LangGraph's request is saved (S1.9). If the savepoint is
 * gone too, for example because the disk is full, the turn is left out.
 *
 * @throws {TookAllBack}
 */
export function* turnApart(session: Session, of: Omit<LostTurn, "error">, save: Program<TurnRow>): Program<SavedApart> {
  if (!session.inParts) return { turn: yield* save, lost: undefined };
  if (session.leftOut !== undefined) return { turn: undefined, lost: { ...of, error: session.leftOut.error } };
  yield* session.flush();
  const restore = session.savepoint();
  // Both wait: what fails in between is the turn's fault, and nothing else is.
  yield* session.changes("SAVEPOINT turn_apart");
  try {
    const turn = yield* save;
    yield* session.flush();
    yield* session.changes("RELEASE turn_apart");
    return { turn, lost: undefined };
  } catch (error) {
    if (error instanceof StaleFacts || (session.engine.buffers && session.engine.isPassing(error))) throw error;
    const reason = session.engine.meaningOf(error instanceof LeftUnwritten ? error.cause : error);
    yield* rolledBack(session, reason);
    restore();
    return { turn: undefined, lost: { ...of, error: reason } };
  }
}

/** After some failures (a full disk) SQLite has rolled back the whole transaction, and the savepoint is gone. */
function* rolledBack(session: Session, reason: unknown): Program {
  try {
    yield* session.changes("ROLLBACK TO turn_apart");
    yield* session.changes("RELEASE turn_apart");
  } catch {
    throw new TookAllBack(reason);
  }
}

const SINCE = TURN_ROWS.select("WHERE thread = ? AND seq > ?");

/** Adds a turn to a thread. It is written at the end of the transaction, with all changes made to it until then. */
export function insertTurn(key: ThreadState, turn: TurnRow): TurnRow {
  key.count("turns");
  key.addTurn(turn);
  const { ns = "", checkpointId = "", nodeTaskId = "" } = turn;
  key.facts.heads.get(headKey(ns, checkpointId))?.turns?.add(nodeTaskId);
  rememberTurn(key, turn);
  return turn;
}

/** Remembers a turn that is new or has changed. Turns of finished node tasks aren't remembered. */
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

/** The fields of a saved turn that may change. */
type TurnChange = Partial<ChangesOf<typeof TURNS>>;

/**
 * Changes a turn in place, within the caller's transaction.
 *
 * @param turn as {@link toTurn} read it in the same transaction, so verified: the new checksum must not vouch for somebody else's
 *   changes
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

/** Renames the task of turns that were recorded under its provisional name. A turn's task is always one of its thread's. */
export function* renameTaskOfTurns(session: Session, key: ThreadState, { seq, taskId }: TaskRow, newId: string): Program {
  yield* session.flushTurns(key);
  for (const row of yield* session.all<RawTurn>(SINCE, key.thread, seq)) {
    if (row.task_id !== taskId) continue;
    const turn = { ...toTurn(session, row, key.threadId), taskId: newId };
    yield* session.run(TURN_ROWS.update, ...changedTurn(session, turn));
    rememberTurn(key, turn);
  }
}

/** A row of any thread, verified. */
export function* turnOf(session: Session, row: RawTurn): Program<TurnRow> {
  return toTurn(session, row, row.thread === null ? undefined : yield* threadIdOf(session, row.thread));
}
