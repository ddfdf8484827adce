import { randomBytes } from "node:crypto";
import { TurnsError } from "../errors";
import { deriveKey } from "./derive";
import { headerOf, openBytes, sealBytes, sealedKeyId } from "./envelope";
import { unknownKey } from "./failures";
import type { MasterKey, ResolvedKeys } from "./keys";
import { encodeParts } from "./parts";

const WHAT = "the secret of this database";
/** Rows begin with "turns": a secret never opens as one, nor one as a secret. */
const ASSOCIATED = encodeParts(["turns database secret"]);
const NO_SALT = new Uint8Array(0);

/** 32 random bytes, drawn once per database: the root of its addresses and checksums, whichever master key is current. */
export function createDatabaseSecret(): Buffer {
  return randomBytes(32);
}

/** The secret as it is stored: encrypted under a master key, with the key's id in front (see `sealedKeyId`). */
export function wrapSecret(secret: Uint8Array, master: MasterKey): Buffer {
  return sealBytes(deriveKey(master.key, NO_SALT, "wrap"), headerOf(master.id), ASSOCIATED, secret);
}

/**
 * The secret that was wrapped. Because every database has one, this is also where a wrong key is noticed.
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
    what: `the encryption key ${JSON.stringify(keyId)}`,
    expected: "the key this database was sealed with under that id",
    found: "a key that does not open it",
    remedy: "Pass the right key. If it is certain to be right, the stored secret was changed: restore the file from a copy.",
    data: { keyId },
  });
}

export function corruptedSecret(found: string): TurnsError {
  return new TurnsError("CHECKPOINT_CORRUPTED", {
    what: WHAT,
    expected: "one secret, wrapped under each of its keys",
    found,
    remedy: "The stored data was changed outside this package. Restore the file from a copy.",
  });
}
