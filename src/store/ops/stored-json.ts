import { corrupted } from "../refusals";

/*
 * JSON of columns that we wrote. Without keys a checksum stops accidents, not whoever can write the file: what was parsed is looked at
 * before it is used, so that it fails by name and not somewhere behind.
 */

/** @param what the column belongs to, for the message @throws {TurnsError} CHECKPOINT_CORRUPTED for what is no JSON object */
export function storedRecord(text: unknown, what: string): Record<string, unknown> {
  const value = parsed(text, what);
  if (typeof value !== "object" || value === null || Array.isArray(value)) throw malformed(what, "an object");
  return value as Record<string, unknown>;
}

/** @throws {TurnsError} CHECKPOINT_CORRUPTED for what is no list of strings */
export function storedNames(text: unknown, what: string): string[] {
  const value = parsed(text, what);
  if (!Array.isArray(value) || !value.every((name) => typeof name === "string")) throw malformed(what, "a list of names");
  return value;
}

export function malformed(what: string, expected: string): Error {
  return corrupted(what, expected, "something else", {});
}

function parsed(text: unknown, what: string): unknown {
  try {
    // Typed as text by the table, and yet another program may have put a number there.
    return JSON.parse(String(text)) as unknown;
  } catch {
    throw malformed(what, "JSON");
  }
}
