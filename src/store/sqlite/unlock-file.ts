import { type EncryptionOption, resolveKeys, type ResolvedKeys, sealedKeyIds, unlock } from "../../sealing";
import { waitingForOthers } from "./connection";
import type { SqliteSession } from "./engine";
import { foundKeys, storeSecret, wrappedKeys } from "../ops/keys";

/**
 * Determines the keys with which a database is read and written, and gives the session its sealing. That happens at once, or when
 * the promise resolves if the keys come from an asynchronous provider.
 *
 * @throws {TurnsError} what `resolveKeys` and `unlock` throw; the promise rejects with the same
 */
export function unlockDatabase(session: SqliteSession, option: EncryptionOption | undefined): Promise<void> | undefined {
  const file = session.db.name;
  const found = waitingForOthers(file, () => session.now(wrappedKeys(session)));
  if (option === undefined) {
    session.unlock(unlock(undefined, { wrapped: found, empty: false }).sealing);
    return undefined;
  }
  const keys = resolveKeys(option, sealedKeyIds(found));
  const finish = (resolved: ResolvedKeys): void => {
    if (session.db.open) waitingForOthers(file, () => unlockWith(session, resolved));
  };
  if (keys instanceof Promise) return keys.then(finish);
  finish(keys);
  return undefined;
}

/** If two processes open a new file at once, the second finds the secret of the first in its transaction. */
function unlockWith(session: SqliteSession, keys: ResolvedKeys): void {
  const known = session.db.transaction(() => unlock(keys, session.now(foundKeys(session))))() as ReturnType<typeof unlock>;
  if (known.toStore === undefined || session.db.readonly) return session.unlock(known.sealing);
  session.db
    .transaction(() => {
      const { sealing, toStore } = unlock(keys, session.now(foundKeys(session)));
      if (toStore !== undefined) session.now(storeSecret(session, toStore.keyId, toStore.wrapped));
      session.unlock(sealing);
    })
    .immediate();
}
