import { corrupted } from "../refusals";

/*
 * Reads JSON of columns that we wrote. Without keys, a checksum detects accidents but not deliberate changes to the file. So
 * parsed values are checked before use, and bad ones fail here with a named error.
 */

/**
 * @param what what the column belongs to, for the message
 * @throws {TurnsError} CHECKPOINT_CORRUPTED unless it is a JSON object
 */
export function storedRecord(text: unknown, what: string): Record<string, unknown> {
  const value = parsed(text, what);
  if (typeof value !== "object" || value === null || Array.isArray(value)) throw malformed(what, "an object");
  return value as Record<string, unknown>;
}

/** @throws {TurnsError} CHECKPOINT_CORRUPTED unless it is a list of strings */
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
    // The column's type is text, but another program may have put a number there.
    return JSON.parse(String(text)) as unknown;
  } catch {
    throw malformed(what, "JSON");
  }
}
