import { type EncryptionOption, resolveKeys, type ResolvedKeys, sealedKeyIds, unlock } from "../../sealing";
import { waitingForOthers } from "./connection";
import { refuseInside, type SqliteSession } from "./engine";
import { foundKeys, storeSecret, wrappedKeys } from "../ops/keys";

/**
 * Determines the keys with which a database is read and written, and gives the session its sealing. That happens at once. If the keys
 * come from an asynchronous provider, it's left to what the promise resolves to.
 *
 * @throws {TurnsError} what `resolveKeys` and `unlock` throw; the promise rejects with what `resolveKeys` throws
 */
export function unlockDatabase(session: SqliteSession, option: EncryptionOption | undefined): Promise<() => void> | undefined {
  const file = session.db.name;
  const found = waitingForOthers(file, () => session.now(wrappedKeys(session)));
  if (option === undefined) {
    session.unlock(unlock(undefined, { wrapped: found, empty: false }).sealing);
    return undefined;
  }
  const keys = resolveKeys(option, sealedKeyIds(found));
  if (keys instanceof Promise) return keys.then((resolved) => () => unlockWith(session, resolved));
  waitingForOthers(file, () => unlockWith(session, keys));
  return undefined;
}

/** If two processes open a new file at once, the second finds the secret of the first in its transaction. */
function unlockWith(session: SqliteSession, keys: ResolvedKeys): void {
  const known = session.db.transaction(() => unlock(keys, session.now(foundKeys(session))))() as ReturnType<typeof unlock>;
  if (known.toStore === undefined || session.db.readonly) return session.unlock(known.sealing);
  // Rolled back, the secret would be gone, and everything sealed with it unreadable.
  refuseInside(session.db);
  session.db
    .transaction(() => {
      const { sealing, toStore } = unlock(keys, session.now(foundKeys(session)));
      if (toStore !== undefined) session.now(storeSecret(session, toStore.keyId, toStore.wrapped));
      session.unlock(sealing);
    })
    .immediate();
}
