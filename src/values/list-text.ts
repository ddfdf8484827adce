import { createHash, type Hash } from "node:crypto";

/*
 * A list is stored as the JSON texts of its elements, one chunk each. Joined by commas they are one text.
 */

const QUOTE = 0x22;
const BACKSLASH = 0x5c;
const COMMA = 0x2c;

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
  for (const text of texts) next.update(`${text},`);
  return next;
}

/**
 * The finished digest. It goes through `address`, which is keyed in an encrypted database: nobody shall find out by guessing what a
 * list holds.
 */
export function finished(digest: RunningDigest, address: (text: string) => string): string {
  return address(digest.copy().digest("base64url"));
}

export function lengthOf(texts: readonly string[]): number {
  return texts.reduce((sum, text) => sum + text.length, 0);
}

/**
 * Where each of the JSON texts ends that are joined by commas in one text. Needed because the texts themselves count, exactly as they
 * are stored: a later version of the codec may write another text for what it reads.
 */
export function endsOf(joined: string): number[] {
  const ends: number[] = [];
  if (joined === "") return ends;
  let depth = 0;
  for (let at = 0; at < joined.length; at += 1) {
    const code = joined.charCodeAt(at);
    if (code === QUOTE) at = endOfString(joined, at);
    // [ and { differ from ] and } by 2, and the two pairs by 32.
    else if ((code | 0x20) === 0x7b) depth += 1;
    else if ((code | 0x20) === 0x7d) depth -= 1;
    else if (code === COMMA && depth === 0) ends.push(at);
  }
  ends.push(joined.length);
  return ends;
}

/** Where a JSON string ends that begins there. */
export function endOfString(text: string, start: number): number {
  for (let quote = text.indexOf('"', start + 1); quote !== -1; quote = text.indexOf('"', quote + 1)) {
    let before = quote - 1;
    while (text.charCodeAt(before) === BACKSLASH) before -= 1;
    if ((quote - before) % 2 === 1) return quote;
  }
  return text.length;
}
