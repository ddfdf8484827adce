import type { LostTurn, TurnRow } from "../store";
import { translated } from "./failures";
import type { Program, Sql } from "./sql";

/** A turn that rode along with a commit: saved or lost. */
export interface SavedApart {
  turn: TurnRow | undefined;
  lost: LostTurn | undefined;
}

/**
 * Saves a turn that rides along with a commit in a savepoint of its own: if it fails, only the turn is undone, and what LangGraph
 * asked to save is saved (S1.9).
 */
export function* turnApart(sql: Sql, of: Omit<LostTurn, "error">, save: Program<TurnRow>): Program<SavedApart> {
  yield* sql.run("SAVEPOINT turn_apart");
  try {
    const turn = yield* save;
    yield* sql.run("RELEASE turn_apart");
    return { turn, lost: undefined };
  } catch (error) {
    // After some failures (a full disk) SQLite has rolled all of the transaction back.
    if (!sql.db.inTransaction) throw error;
    yield* sql.run("ROLLBACK TO turn_apart");
    yield* sql.run("RELEASE turn_apart");
    return { turn: undefined, lost: { ...of, error: translated(error, sql.db.name) } };
  }
}
