import type { LostTurn, TurnRow } from "../store";
import { translated } from "./failures";
import type { Sql } from "./sql";

/**
 * Saves a turn that rides along with a commit in a savepoint of its own: if it fails, only the turn is undone, and what LangGraph
 * asked to save is saved (S1.9).
 */
export function turnApart(
  sql: Sql,
  of: Omit<LostTurn, "error">,
  save: () => TurnRow,
): { turn: TurnRow | undefined; lost: LostTurn | undefined } {
  try {
    return { turn: sql.db.transaction(save)() as TurnRow, lost: undefined };
  } catch (error) {
    // After some failures (a full disk) SQLite has rolled all of the transaction back.
    if (!sql.db.inTransaction) throw error;
    return { turn: undefined, lost: { ...of, error: translated(error, sql.db.name) } };
  }
}
