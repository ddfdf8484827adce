import { createHash, type Hash } from "node:crypto";

export interface Addressed {
  readonly address: string;
}

/**
 * SHA-256 over the addresses of a list's elements, in their order: two lists with one digest have the same elements. It is a running
 * hash, so that the digest of a list that grew costs only what is new.
 */
export interface ListDigest {
  readonly hash: Hash;
  readonly text: string;
}

export function digestOf(elements: readonly Addressed[], length = elements.length): ListDigest {
  let addresses = "";
  for (let i = 0; i < length; i += 1) addresses += (elements[i] as Addressed).address;
  return finished(createHash("sha256").update(addresses));
}

/** The digest of a list with more elements behind; the given one stays as it is. */
export function extended(digest: ListDigest, elements: readonly Addressed[]): ListDigest {
  if (elements.length === 0) return digest;
  const hash = digest.hash.copy();
  for (const { address } of elements) hash.update(address);
  return finished(hash);
}

function finished(hash: Hash): ListDigest {
  return { hash, text: hash.copy().digest("base64url") };
}
