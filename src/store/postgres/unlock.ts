import { type EncryptionOption, resolveKeys, sealedKeyIds, unlock } from "../../sealing";
import { storeSecret, wrappedKeys } from "../ops/keys";
import type { Session } from "../session";
import type { PostgresEngine } from "./engine";

/** True only if nothing was ever saved: deleted content may still be readable in the tables' free space. */
const UNUSED = `SELECT 1 FROM langgraph_thread_numbers WHERE NOT is_called AND NOT EXISTS (SELECT 1 FROM langgraph_checkpoints)`;
/** Of two processes that open a new database, the second must find the secret of the first. */
const ALONE = "LOCK TABLE langgraph_settings IN SHARE ROW EXCLUSIVE MODE";

/**
 * Determines the keys with which a database is read and written, and gives the session its sealing.
 * @param readOnly nothing may be locked or written
 * @throws {TurnsError} what `resolveKeys` and `unlock` throw
 */
export async function unlockDatabase(
  engine: PostgresEngine,
  session: Session,
  option: EncryptionOption | undefined,
  readOnly = false,
): Promise<void> {
  const found = await engine.first(() => wrappedKeys(session));
  if (option === undefined) {
    unlock(undefined, { wrapped: found, empty: false });
    return;
  }
  const keys = await resolveKeys(option, sealedKeyIds(found));
  await engine.first(function* () {
    if (!readOnly) yield* session.run(ALONE);
    const wrapped = yield* wrappedKeys(session);
    const empty = wrapped.length === 0 && (yield* session.get(UNUSED)) !== undefined;
    const { sealing, toStore } = unlock(keys, { wrapped, empty });
    if (toStore !== undefined && !readOnly) yield* storeSecret(session, toStore.keyId, toStore.wrapped);
    session.unlock(sealing);
  });
}
