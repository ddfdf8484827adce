import { createHash, type Hash } from "node:crypto";
import { chunkTag } from "../codec";
import type { Chunk } from "../store/store";

/*
 * Values are stored as JSON texts: a list as those of its elements, one chunk each, and joined by commas they are one text; what is
 * large in other values as a chunk that their text refers to.
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

/*
 * A part that a text refers to more than once is made anew for every reference, so a small text can become a large value: in a file that
 * somebody forged a few parts could ask for more than any memory. Reading therefore has a limit, and saving keeps far away from it.
 */

/** How much all that is repeated in a checkpoint may weigh when it is read: some hundreds of megabytes. */
export const REPEATED_READ_MAX = 2 ** 23;
/** How much may be repeated by references in one value that is saved; one that repeats more is written out. */
const REPEATED_SAVED_MAX = 2 ** 21;

/** Instances have properties that their text need not mention. */
const TAG_WEIGHT = 8;

const BEGINNING = '{"~":"chunk","v":"';
const REFERENCE_LENGTH = chunkTag("").length + 43;
const REFERENCE = /\{"~":"chunk","v":"([\w-]{43})"\}/g;

/** What a value takes in memory, from its text, in units of some 64 bytes: for every part, every tag, and so many characters. */
export function weightOf(text: string): number {
  let weight = 1 + Math.floor(text.length / 64);
  for (let at = 0; at < text.length; at += 1) {
    const code = text.charCodeAt(at);
    if (code === QUOTE) at = endOfString(text, at);
    // [ and { differ by 32.
    else if (code === COMMA || (code | 0x20) === 0x7b) weight += text.startsWith('"~"', at + 1) ? TAG_WEIGHT : 1;
  }
  return weight;
}

/** Whether a text that was packed just now repeats its parts so often that it has to be written out instead. */
export function repeatsTooMuch(text: string, parts: ReadonlyMap<string, Chunk>): boolean {
  if (referencesIn(text) <= parts.size) return false;
  const weights = new Map<string, number | undefined>();
  let repeated = 0;
  for (const [, address = ""] of text.matchAll(REFERENCE)) {
    const chunk = parts.get(address);
    // Data may look like a reference.
    if (chunk === undefined) continue;
    const weight = weights.has(address) ? (weights.get(address) ?? weightOf(chunk.text())) : undefined;
    weights.set(address, weight);
    repeated += weight ?? 0;
    if (repeated > REPEATED_SAVED_MAX) return true;
  }
  return false;
}

/** At least as many as there are: data may look like one. */
function referencesIn(text: string): number {
  let found = 0;
  for (let at = text.indexOf(BEGINNING); at >= 0; at = text.indexOf(BEGINNING, at + REFERENCE_LENGTH)) found += 1;
  return found;
}
