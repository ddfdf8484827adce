import type { Program } from "../program";
import { type Sql, LeftUnwritten } from "../session";
import type { LostTurn, TurnRow } from "../store";

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
export function* turnApart(sql: Sql, of: Omit<LostTurn, "error">, save: Program<TurnRow>): Program<SavedApart> {
  if (!sql.inParts) return { turn: yield* save, lost: undefined };
  if (sql.leftOut !== undefined) return { turn: undefined, lost: { ...of, error: sql.leftOut.error } };
  yield* sql.flush();
  const restore = sql.savepoint();
  yield* sql.run("SAVEPOINT turn_apart");
  try {
    const turn = yield* save;
    yield* sql.flush();
    yield* sql.run("RELEASE turn_apart");
    return { turn, lost: undefined };
  } catch (error) {
    const reason = sql.engine.meaningOf(error instanceof LeftUnwritten ? error.cause : error);
    yield* rolledBack(sql, reason);
    restore();
    return { turn: undefined, lost: { ...of, error: reason } };
  }
}

/** After some failures (a full disk) SQLite has rolled all of the transaction back, and there is no savepoint any more. */
function* rolledBack(sql: Sql, reason: unknown): Program {
  try {
    yield* sql.run("ROLLBACK TO turn_apart");
    yield* sql.run("RELEASE turn_apart");
  } catch {
    throw new TookAllBack(reason);
  }
}
