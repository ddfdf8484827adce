import type { EffectRecord, EffectRow } from "../effects";
import type { Bound } from "../program";
import { EFFECT_ROWS } from "../rows";
import type { Session } from "../session";

const CHANGED = ["content", "ended_at", "checksum"] as const;
const TABLE = EFFECT_ROWS.table.name;

/**
 * How the transaction that has done an effect records it, if it's on the journal's database.
 *
 * The row is changed only if it's exactly as it was seen, and if nobody is saving on its thread at that moment: then their
 * transaction may have read it. Nor if the key that seals it was retired, or is just being: a checksum doesn't tell that. Otherwise
 * nothing is changed, and the outcome is recorded afterwards, as it always is elsewhere. So nobody waits while the transaction holds
 * locks, and no save of others is overwritten. The thread's row isn't changed: of a thread's effects only open intents are remembered,
 * each under a guard of its own.
 *
 * A transaction that reads one state of the database can't lock what others have changed since: the server would refuse it.
 *
 * @param outcome codec text without parts
 */
export function effectRecord(session: Session, seen: EffectRow, outcome: string | undefined, endedAt: string): EffectRecord {
  const { table, value, locks } = session.engine.dialect.elsewhere;
  const [before, after] = [seen, { ...seen, status: "done", outcome, endedAt, settledBy: undefined } as const].map((row) =>
    stored(session, row),
  );
  const [effects, threads, settings] = [table(TABLE), table("langgraph_threads"), table("langgraph_settings")];
  const { keyId } = session.sealing;
  const keys = keyId === undefined ? [] : [`key:${keyId}`];
  const changes = CHANGED.map((name) => value(after?.[name] as string | Uint8Array));
  const checksum = before?.["checksum"] as string;
  const change = `UPDATE ${effects} SET status = 'done', settled_by = NULL, ${CHANGED.map((name) => `${name} = ?`).join(", ")}`;
  const returned = "AND checksum = ? RETURNING id";
  const key = `SELECT 1 FROM ${settings} WHERE name = ?${locks ? " FOR KEY SHARE SKIP LOCKED" : ""}`;
  const isThere = keyId === undefined ? "" : `AND EXISTS (${locks ? "SELECT 1 FROM sealing" : key})`;
  if (!locks) {
    return { sql: `${change} WHERE id = ? ${isThere} ${returned}`, values: [...changes, seen.id, ...keys, checksum] };
  }
  const sealing = keyId === undefined ? "" : `sealing AS (SELECT 1 FROM free, LATERAL (${key}) AS held),`;
  const locked = `WITH free AS (SELECT t.thread FROM ${threads} AS t WHERE pg_catalog.current_setting('transaction_isolation') = 'read committed'
      AND t.thread = (SELECT e.thread FROM ${effects} AS e WHERE e.id = ?) FOR NO KEY UPDATE SKIP LOCKED),
    ${sealing}
    seen AS (SELECT e.id FROM ${effects} AS e, free WHERE e.thread = free.thread AND e.id = ? AND e.checksum = ?
      FOR NO KEY UPDATE OF e SKIP LOCKED)`;
  return {
    sql: `${locked} ${change} WHERE id IN (SELECT id FROM seen) ${isThere} ${returned}`,
    values: [seen.id, ...keys, seen.id, checksum, ...changes, checksum],
  };
}

/** A statement that fails where {@link effectRecord}'s would, also for lack of rights. */
export function effectProbe({ engine: { dialect } }: Session): string {
  const { table, locks } = dialect.elsewhere;
  const tables = `${table(TABLE)} AS e, ${table("langgraph_threads")} AS t, ${table("langgraph_settings")} AS s`;
  return `SELECT e.id FROM ${tables} WHERE 1 = 0${locks ? " FOR NO KEY UPDATE" : ""}`;
}

/** A row as it is stored, by column. */
function stored({ sealing }: Session, row: EffectRow): Record<string, Bound> {
  const { input, outcome, undoError } = row;
  const content = JSON.stringify({ input, outcome, undoError });
  const values = EFFECT_ROWS.values(sealing, { thread: null, threadId: row.threadId }, { ...row, content });
  return Object.fromEntries(Object.keys(EFFECT_ROWS.table.columns).map((name, at) => [name, values[at] as Bound]));
}
