import { Client } from "pg";
import type { UndoCall, Undos } from "langgraph-checkpoint-turns";
import { setRoundTripHook, type SqliteDatabase } from "../../src/testing-internal";
import type { Deeds } from "../support/eff-world";
import { undosNamed } from "../support/undo-world";

/** How an undo can be asked, or called again, after a crash: not at all, or by a probe, or with the same key. */
export type Kind = "plain" | "probe" | "idempotent";

export type Point = (what: string) => void;

const nowhere: Point = () => undefined;

/**
 * Undoes by a line in the ledger. Of an idempotent one the receiver honours the key: what comes again with the same one changes nothing.
 *
 * @param calls every call, whatever came of it
 */
export function crashUndos(kind: Kind, ledger: Deeds, calls: Deeds, point: Point = nowhere): Undos {
  const lineOf = ({ input, key }: UndoCall): string => `undo ${(input as { what: string }).what} ${key}`;
  const run = (call: UndoCall): void => {
    calls.do(lineOf(call));
    if (kind !== "idempotent" || ledger.count(lineOf(call)) === 0) ledger.do(lineOf(call));
    point("undone");
  };
  const probe = (call: UndoCall): boolean => ledger.count(lineOf(call)) > 0;
  return undosNamed({ back: kind === "plain" ? run : kind === "probe" ? { run, probe } : { run, idempotent: true } });
}

type Work = (...args: unknown[]) => unknown;
type Transaction = ((...args: unknown[]) => unknown) & Record<"immediate", (...args: unknown[]) => unknown>;

/** Calls `point` in every write transaction of a connection, when all its work is done and nothing committed, and right after it. */
export function pointAtCommits(db: SqliteDatabase, point: Point): void {
  const own = db as unknown as { transaction: (work: Work) => Transaction };
  const transaction = own.transaction.bind(db);
  own.transaction = (work) => {
    const asIs = transaction(work);
    const watched = transaction((...args) => {
      const result = work(...args);
      point("about to commit");
      return result;
    });
    const immediate = (...args: unknown[]): unknown => {
      const result = watched.immediate(...args);
      point("committed");
      return result;
    };
    return Object.assign((...args: unknown[]): unknown => asIs(...args), { immediate });
  };
}

/** Statements that the driver sends in one piece. */
interface Sent {
  handleCommandComplete: (answer: { text: string }) => void;
}

/** {@link pointAtCommits} on all connections to a server. */
export function pointAtServerCommits(point: Point): void {
  const own = Client.prototype as unknown as { query: (sent: Sent) => unknown };
  const query = own.query;
  const writing = new WeakSet<object>();
  let texts: readonly string[] = [];
  // The driver calls it right before it hands the statements to the client.
  setRoundTripHook((all) => (texts = all));
  own.query = function (this: object, sent) {
    if (texts.some((text) => /^BEGIN .* READ COMMITTED$/.test(text))) writing.add(this);
    if (!texts.includes("COMMIT") || !writing.delete(this)) return query.call(this, sent);
    point("about to commit");
    const complete = sent.handleCommandComplete;
    sent.handleCommandComplete = function (answer) {
      if (answer.text === "COMMIT") point("committed");
      complete.call(this, answer);
    };
    return query.call(this, sent);
  };
}
