import { TurnsError } from "../errors";
import { isStackOverflow, undecodable } from "./failures";
import { Reader, type Resolve } from "./reader";

export type { Resolve };

/**
 * The value for a text that {@link encode} wrote. Safe for untrusted text: it builds nothing but the classes of a closed table and
 * calls nothing that the text names.
 * @throws UNDECODABLE_VALUE for text that is not JSON, for unknown or malformed markers, and for nesting deeper than encode writes;
 * the message never quotes the text; also for references with nothing to resolve them
 * @param resolve gives the value a reference in the text stands for; it becomes a part of the result as it is. A TurnsError it
 * throws comes out unchanged.
 */
export function decode(text: string, resolve?: Resolve): unknown {
  return guarded(() => new Reader(resolve).value(parse(text)));
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

/** Runs a reader; whatever it throws besides our errors comes out as UNDECODABLE_VALUE. */
export function guarded<T>(read: () => T): T {
  try {
    return read();
  } catch (error) {
    if (TurnsError.is(error)) throw error;
    throw undecodable(isStackOverflow(error) ? "nesting too deep for the stack" : "a marker with content its class refuses");
  }
}
