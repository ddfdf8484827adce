import { timingSafeEqual } from "node:crypto";
import { TurnsError } from "../errors";
import { encryptedSealing } from "./encrypted";
import { sealedKeyId } from "./envelope";
import type { MasterKey, ResolvedKeys } from "./keys";
import { plainSealing } from "./plain";
import type { Sealing } from "./sealing";
import { corruptedSecret, createDatabaseSecret, unwrapSecret, wrapSecret } from "./secret";

/** What the storage layer finds when it opens a database. */
export interface FoundInDatabase {
  /** The database's secret as often as it is stored: once per key id under which there is data. */
  wrapped: readonly Uint8Array[];
  /** Whether no text has been stored yet. */
  empty: boolean;
}

export interface Unlocked {
  sealing: Sealing;
  /** The secret wrapped under the current key, if it is not stored yet; it must be, before anything is sealed. */
  toStore: { keyId: string; wrapped: Buffer } | undefined;
}

/** The ids of the keys a database needs; what a key provider is asked for. @throws {TurnsError} CHECKPOINT_CORRUPTED */
export function sealedKeyIds(wrapped: readonly Uint8Array[]): string[] {
  return wrapped.map((bytes) => {
    const keyId = sealedKeyId(bytes);
    if (keyId === undefined) throw corruptedSecret(`${bytes.length} bytes that are not in the sealed format`);
    return keyId;
  });
}

/**
 * Decides how a database is read and written. Every key it needs is tried here, so that a missing or wrong one is noticed when the
 * database is opened and not at the first old row. To be called, and `toStore` stored, inside one write transaction: of two
 * processes that open a new database, the second must find the secret of the first.
 *
 * @param keys undefined: no encryption was asked for
 * @throws {TurnsError} ENCRYPTED if keys are needed and none are given
 * @throws {TurnsError} NOT_ENCRYPTED if keys are given and the database holds plain texts
 * @throws {TurnsError} UNKNOWN_KEY, WRONG_KEY, CHECKPOINT_CORRUPTED as `unwrapSecret` does
 */
export function unlock(keys: ResolvedKeys | undefined, { wrapped, empty }: FoundInDatabase): Unlocked {
  if (keys === undefined) {
    if (wrapped.length > 0) throw encrypted(sealedKeyIds(wrapped));
    return { sealing: plainSealing, toStore: undefined };
  }
  if (wrapped.length === 0) {
    if (!empty) throw notEncrypted();
    return unlocked(keys, createDatabaseSecret(), true);
  }
  const [secret, ...others] = wrapped.map((bytes) => unwrapSecret(bytes, keys));
  if (secret === undefined || others.some((other) => !timingSafeEqual(other, secret))) throw corruptedSecret("different secrets");
  return unlocked(keys, secret, !sealedKeyIds(wrapped).includes(keys.current.id));
}

function unlocked(keys: ResolvedKeys, secret: Buffer, isNew: boolean): Unlocked {
  return { sealing: encryptedSealing(keys, secret), toStore: isNew ? wrap(secret, keys.current) : undefined };
}

function wrap(secret: Buffer, master: MasterKey): { keyId: string; wrapped: Buffer } {
  return { keyId: master.id, wrapped: wrapSecret(secret, master) };
}

function encrypted(keyIds: readonly string[]): TurnsError {
  return new TurnsError("ENCRYPTED", {
    what: "this database",
    expected: "the option `encryption`, because the database is encrypted",
    found: "no keys",
    remedy: `Pass the option \`encryption\` with the keys ${keyIds.map((id) => JSON.stringify(id)).join(", ")}.`,
    data: { keyIds },
  });
}

function notEncrypted(): TurnsError {
  return new TurnsError("NOT_ENCRYPTED", {
    what: "this database",
    expected: "an encrypted or an empty one, because the option `encryption` is given",
    found: "texts stored without encryption",
    remedy: "Open it without `encryption`, or start a new file: a database is encrypted from its first row or not at all.",
  });
}
