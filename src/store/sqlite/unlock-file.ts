import { type EncryptionOption, resolveKeys, type ResolvedKeys, sealedKeyIds, unlock } from "../../sealing";
import { waitingForOthers } from "./connection";
import type { SqliteSql } from "./engine";
import { foundKeys, storeSecret, wrappedKeys } from "../ops/keys";

/**
 * Makes out with which keys a database is read and written, and gives {@link Sql} its sealing: at once, or when the promise resolves
 * if the keys come from a provider that takes its time.
 *
 * @throws {TurnsError} what `resolveKeys` and `unlock` throw; the promise rejects with the same
 */
export function unlockDatabase(sql: SqliteSql, option: EncryptionOption | undefined): Promise<void> | undefined {
  const file = sql.db.name;
  const found = waitingForOthers(file, () => sql.now(wrappedKeys(sql)));
  if (option === undefined) {
    sql.unlock(unlock(undefined, { wrapped: found, empty: false }).sealing);
    return undefined;
  }
  const keys = resolveKeys(option, sealedKeyIds(found));
  const finish = (resolved: ResolvedKeys): void => {
    if (sql.db.open) waitingForOthers(file, () => unlockWith(sql, resolved));
  };
  if (keys instanceof Promise) return keys.then(finish);
  finish(keys);
  return undefined;
}

/** Of two processes that open a new file at once, the second finds the secret of the first in its transaction. */
function unlockWith(sql: SqliteSql, keys: ResolvedKeys): void {
  const known = sql.db.transaction(() => unlock(keys, sql.now(foundKeys(sql))))() as ReturnType<typeof unlock>;
  if (known.toStore === undefined || sql.db.readonly) return sql.unlock(known.sealing);
  sql.db
    .transaction(() => {
      const { sealing, toStore } = unlock(keys, sql.now(foundKeys(sql)));
      if (toStore !== undefined) sql.now(storeSecret(sql, toStore.keyId, toStore.wrapped));
      sql.unlock(sealing);
    })
    .immediate();
}
