import { createHmac, type KeyObject } from "node:crypto";
import { TurnsError } from "../errors";
import { claimedKeyId, headerOf, openBytes, sealBytes, sealedKeyId } from "./envelope";
import { assertWellFormed, corruptedRow, rowName, unknownKey } from "./failures";
import type { ResolvedKeys } from "./keys";
import { encodeParts } from "./parts";
import type { Identity, Sealing } from "./sealing";
import { ThreadKeyring } from "./thread-keys";

/**
 * Of an encrypted database.
 *
 * @param keys the current key seals, every one of them opens
 * @param secret the database's, from `createDatabaseSecret` or `unwrapSecret`
 */
export function encryptedSealing(keys: ResolvedKeys, secret: Uint8Array): Sealing {
  const threads = new ThreadKeyring(secret);
  const header = headerOf(keys.current.id);

  return {
    encrypted: true,
    keyId: keys.current.id,
    header,

    address(threadId, text) {
      assertWellFormed(threadId, text);
      return hmac(threads.of(threadId).address, text);
    },

    checksum: (threadId, ...parts) => hmac(threads.of(threadId).checksum, encodeParts([threadId, ...parts])),

    seal(threadId, identity, text) {
      assertWellFormed(threadId, text);
      const key = threads.of(threadId).seal(keys.current);
      // Given a string, `update` would encode it itself, and take twice as long for a large one.
      return sealBytes(key, header, associated(threadId, identity), Buffer.from(text, "utf8"));
    },

    open(threadId, identity, stored) {
      if (typeof stored === "string") throw notEncrypted(threadId, identity);
      if (!(stored instanceof Uint8Array)) throw corruptedRow(threadId, identity, "nothing");
      const keyId = claimedKeyId(stored);
      const master = keyId === undefined ? undefined : keys.byId.get(keyId);
      if (master === undefined) throw notOpenable(keys, threadId, identity, stored);
      const content = openBytes(threads.of(threadId).seal(master), associated(threadId, identity), stored);
      if (content === undefined) {
        throw corruptedRow(threadId, identity, "bytes that were changed, or sealed for another row or under another key");
      }
      return content.toString("utf8");
    },
  };
}

/** Binds sealed bytes to the row they are in: moved to another row, they do not open. */
function associated(threadId: string, identity: Identity): string {
  return encodeParts(["turns", threadId, ...identity]);
}

function hmac(key: KeyObject, text: string): string {
  return createHmac("sha256", key).update(text, "utf8").digest("base64url");
}

function notOpenable(keys: ResolvedKeys, threadId: string, identity: Identity, stored: Uint8Array): TurnsError {
  const keyId = sealedKeyId(stored);
  if (keyId === undefined) return corruptedRow(threadId, identity, `${stored.length} bytes that are not in the sealed format`);
  return unknownKey(keyId, rowName(threadId, identity), [...keys.byId.keys()], { threadId, identity });
}

function notEncrypted(threadId: string, identity: Identity): TurnsError {
  return new TurnsError("NOT_ENCRYPTED", {
    what: rowName(threadId, identity),
    expected: "sealed bytes",
    found: "a plain text in an encrypted database",
    remedy: "The row was written outside this package, or before the database was encrypted; restore the file from a copy.",
    data: { threadId, identity },
  });
}
