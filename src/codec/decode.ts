import { TurnsError } from "../errors";
import { isStackOverflow, undecodable } from "./failures";
import { Reader } from "./reader";

/**
 * The value for a text that {@link encode} wrote. Safe for untrusted text: it builds nothing but the classes of a closed table and
 * calls nothing that the text names.
 * @throws UNDECODABLE_VALUE for text that is not JSON, for unknown or malformed markers, and for nesting deeper than encode writes;
 * the message never quotes the text
 */
export function decode(text: string): unknown {
  return guarded(() => new Reader().value(parse(text)));
}

/** Parsed JSON, with an error that does not quote the text. */
export function parse(text: unknown): unknown {
  if (typeof text !== "string") throw undecodable(`a ${typeof text} instead of text`);
  try {
    return JSON.parse(text) as unknown;
  } catch {
    throw undecodable("text that is not JSON");
  }
}

/** Runs a reader; whatever it throws comes out as UNDECODABLE_VALUE. */
export function guarded<T>(read: () => T): T {
  try {
    return read();
  } catch (error) {
    if (TurnsError.is(error, "UNDECODABLE_VALUE")) throw error;
    throw undecodable(isStackOverflow(error) ? "nesting too deep for the stack" : "a marker with content its class refuses");
  }
}
