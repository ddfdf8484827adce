import { chunkTag } from "../codec";
import type { Chunk } from "../store/store";
import { endOfString } from "./list-text";

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

const QUOTE = 0x22;
const COMMA = 0x2c;
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
