import { createSecretKey, hkdfSync, type KeyObject } from "node:crypto";
import { encodeParts } from "./parts";
import { sha256 } from "./sha256";

/** What a derived key is for; it goes into the derivation, so that no key ever serves two purposes. */
type Purpose = "wrap" | "seal" | "address" | "checksum";

/**
 * Derives a key of 32 bytes with HKDF-SHA-256.
 *
 * @param scope whose key it is, the thread's for example; hashed, because HKDF in Node takes no more than 1024 bytes
 */
export function deriveKey(from: KeyObject, salt: Uint8Array, purpose: Purpose, ...scope: readonly string[]): KeyObject {
  const info = `turns/1/${purpose}/${sha256(encodeParts(scope))}`;
  return createSecretKey(Buffer.from(hkdfSync("sha256", from, salt, info, 32)));
}
