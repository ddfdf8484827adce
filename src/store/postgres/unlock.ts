import { TurnsError } from "../../errors";
import { type EncryptionOption, resolveKeys, sealedKeyIds, unlock } from "../../sealing";
import { storeSecret, wrappedKeys } from "../ops/keys";
import type { Session } from "../session";
import type { PostgresEngine } from "./engine";

/**
 * True only if nothing was ever saved: deleted content may still be readable in the tables' free space. USAGE on the sequence is enough.
 * Without it, newer servers say NULL instead of refusing to answer.
 */
const UNUSED = `SELECT 1 WHERE pg_catalog.pg_sequence_last_value(?1::regclass) IS NULL
  AND pg_catalog.has_sequence_privilege(?1::regclass::oid, 'USAGE, SELECT') AND NOT EXISTS (SELECT 1 FROM langgraph_checkpoints)`;
/** SQLSTATE of a write where only reads are allowed. */
const READ_ONLY = "25006";
/** Of two processes that open a new database, the second must find the secret of the first. */
const ALONE = "LOCK TABLE langgraph_settings IN SHARE ROW EXCLUSIVE MODE";

/**
 * Determines the keys with which a database is read and written, and gives the session its sealing.
 * On a database that is read-only, reads work, and a save is refused by the server.
 *
 * @param readOnly nothing may be locked or written
 * @throws {TurnsError} what `resolveKeys` and `unlock` throw
 */
export async function unlockDatabase(
  engine: PostgresEngine,
  session: Session,
  option: EncryptionOption | undefined,
  readOnly = false,
): Promise<void> {
  const found = await engine.first(() => wrappedKeys(session), true);
  if (option === undefined) {
    unlock(undefined, { wrapped: found, empty: false });
    return;
  }
  const keys = await resolveKeys(option, sealedKeyIds(found));
  const numbers = `${engine.dialect.schema.place}langgraph_thread_numbers`;
  const unlocking = (isReading: boolean, refusal?: Error): Promise<void> =>
    engine.first(function* () {
      if (!isReading) yield* session.run(ALONE);
      const wrapped = yield* wrappedKeys(session);
      const empty = wrapped.length === 0 && (yield* session.get(UNUSED, numbers)) !== undefined;
      const { sealing, toStore } = unlock(keys, { wrapped, empty });
      // Once the server takes writes again, nothing may be sealed under a key that isn't stored.
      if (toStore !== undefined && refusal !== undefined) throw refusal;
      if (toStore !== undefined && !isReading) yield* storeSecret(session, toStore.keyId, toStore.wrapped);
      session.unlock(sealing);
    }, isReading);
  try {
    await unlocking(readOnly);
  } catch (error) {
    if (!isReadOnlyDatabase(error)) throw error;
    await unlocking(true, error);
  }
}

function isReadOnlyDatabase(error: unknown): error is TurnsError {
  return TurnsError.is(error) && error.data["sqlstate"] === READ_ONLY;
}
