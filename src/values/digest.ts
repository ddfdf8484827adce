import { createHash, type Hash } from "node:crypto";

/**
 * SHA-256 over the texts of a list's elements, in their order and each with a comma behind: two lists with one digest are the same. It
 * is a running hash, so that the digest of a list that grew costs only what is new.
 */
export type RunningDigest = Hash;

export function newDigest(): RunningDigest {
  return createHash("sha256");
}

/** The digest of a list with more elements behind; the given one stays as it is. */
export function extended(digest: RunningDigest, texts: readonly string[]): RunningDigest {
  const next = digest.copy();
  for (const text of texts) next.update(text).update(",");
  return next;
}

/**
 * The finished digest. It goes through `address`, which is keyed in an encrypted database: nobody shall find out by guessing what a
 * list holds.
 */
export function finished(digest: RunningDigest, address: (text: string) => string): string {
  return address(digest.copy().digest("base64url"));
}
