import { randomBytes, timingSafeEqual } from "node:crypto";
import { TurnsError } from "../errors";
import { deriveKey, encryptedSealing, headerOf, openBytes, sealBytes, sealedKeyId } from "./encrypted";
import type { MasterKey, ResolvedKeys } from "./keys";
import { encodeParts, plainSealing, type Sealing, unknownKey } from "./sealing";

/** What the storage layer finds when it opens a database. */
export interface FoundInDatabase {
  /** All stored copies of the database's secret: one per key id under which there is data. */
  wrapped: readonly Uint8Array[];
  /** Whether no text has been stored yet. */
  empty: boolean;
}

export interface Unlocked {
  sealing: Sealing;
  /** The secret wrapped under the current key, if it isn't stored yet. Store it before anything is sealed. */
  toStore: { keyId: string; wrapped: Buffer } | undefined;
}

/**
 * The ids of the keys that a database needs. A key provider is asked for these.
 * @throws {TurnsError} CHECKPOINT_CORRUPTED
 */
export function sealedKeyIds(wrapped: readonly Uint8Array[]): string[] {
  return wrapped.map((bytes) => {
    const keyId = sealedKeyId(bytes);
    if (keyId === undefined) throw corruptedSecret(`${bytes.length} bytes that are not in the sealed format`);
    return keyId;
  });
}

/**
 * Decides how a database is read and written. It tries every key that the database needs, so a missing or wrong key is noticed on
 * opening and not at the first old row.
 *
 * Call it, and store `toStore`, inside one write transaction: if two processes open a new database, the second must find the
 * secret of the first.
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
  const toStore = isNew ? { keyId: keys.current.id, wrapped: wrapSecret(secret, keys.current) } : undefined;
  return { sealing: encryptedSealing(keys, secret), toStore };
}

const encrypted = (keyIds: readonly string[]): TurnsError =>
  new TurnsError("ENCRYPTED", {
    problem: "This database is encrypted, and no keys were given.",
    remedy: `Pass the option \`encryption\` with the keys ${keyIds.map((id) => JSON.stringify(id)).join(", ")}.`,
    data: { keyIds },
  });

const notEncrypted = (): TurnsError =>
  new TurnsError("NOT_ENCRYPTED", {
    problem: "This database holds texts without encryption, but the option `encryption` is given.",
    remedy: "Open it without `encryption`, or start a new file: a database is encrypted from its first row or not at all.",
  });

const WHAT = "The secret of this database";
/** Rows begin with "turns", so a secret never opens as a row, nor a row as a secret. */
const ASSOCIATED = encodeParts(["turns database secret"]);
const NO_SALT = new Uint8Array(0);

/**
 * 32 random bytes, drawn once per database. Its addresses and checksums derive from them, independent of the current master key.
 */
export function createDatabaseSecret(): Buffer {
  return randomBytes(32);
}

/** The secret as it is stored: encrypted under a master key, with the key's id in front (see `sealedKeyId`). */
export function wrapSecret(secret: Uint8Array, master: MasterKey): Buffer {
  return sealBytes(deriveKey(master.key, NO_SALT, "wrap"), headerOf(master.id), ASSOCIATED, secret);
}

/**
 * The secret that was wrapped. Every database has one, so a wrong key is noticed here.
 *
 * @throws {TurnsError} UNKNOWN_KEY if the key it was wrapped under is not given
 * @throws {TurnsError} WRONG_KEY if the key of that id is another one, or the wrapped bytes were changed
 * @throws {TurnsError} CHECKPOINT_CORRUPTED if the bytes are no wrapped secret
 */
export function unwrapSecret(wrapped: Uint8Array, keys: ResolvedKeys): Buffer {
  const keyId = sealedKeyId(wrapped);
  if (keyId === undefined) throw corruptedSecret(`${wrapped.length} bytes that are not in the sealed format`);
  const master = keys.byId.get(keyId);
  if (master === undefined) throw unknownKey(keyId, WHAT, [...keys.byId.keys()]);
  const secret = openBytes(deriveKey(master.key, NO_SALT, "wrap"), ASSOCIATED, wrapped);
  if (secret !== undefined) return secret;
  throw new TurnsError("WRONG_KEY", {
    problem: `The encryption key ${JSON.stringify(keyId)} isn't the one that sealed this database under that id.`,
    remedy: "Pass the right key. If it is certain to be right, the stored secret was changed: restore the file from a copy.",
    data: { keyId },
  });
}

const corruptedSecret = (found: string): TurnsError =>
  new TurnsError("CHECKPOINT_CORRUPTED", {
    problem: `${WHAT} is damaged: it should be one secret, wrapped under each of its keys, and is ${found}.`,
    remedy: "The stored data was changed outside this package. Restore the file from a copy.",
  });
