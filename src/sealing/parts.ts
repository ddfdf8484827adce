import { TurnsError } from "../errors";
import type { Part } from "./sealing";

/**
 * Writes parts one after the other so that no two lists give the same text, whatever the parts contain. A string is preceded by its
 * length rather than quoted: it may be a megabyte, and quoting would copy it character by character.
 *
 * @returns well-formed Unicode, so that UTF-8 keeps what tells lists apart
 * @throws {TurnsError} STATE_INVARIANT_VIOLATED for a number that is not finite
 */
export function encodeParts(parts: readonly Part[]): string {
  let encoded = "";
  for (const part of parts) encoded += encodePart(part);
  return encoded;
}

function encodePart(part: Part): string {
  if (typeof part === "string") {
    // JSON escapes lone surrogates; as they are, UTF-8 would turn every one of them into the same character.
    return part.isWellFormed() ? `s${part.length}:${part}` : `j${JSON.stringify(part)}`;
  }
  if (part === null || part === undefined) return "z;";
  if (Number.isFinite(part)) return `n${part};`;
  throw new TurnsError("STATE_INVARIANT_VIOLATED", {
    what: "a number in a row's identity or checksum",
    expected: "a finite number",
    found: String(part),
    remedy: "This is a bug in the calling code: a database does not give such a number back.",
  });
}
