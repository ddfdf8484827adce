import { TurnsError } from "../errors";

const AWAY: readonly string[] = ["STORE_BUSY", "STORE_UNAVAILABLE", "STORE_CLOSED"];

/**
 * What is said of a thread in place of an answer.
 *
 * @throws what was caught, if it's no error of ours, or if the database gave no answer: that says nothing of the thread
 */
export function refusalOf(error: unknown): TurnsError {
  if (!TurnsError.is(error) || AWAY.includes(error.code)) throw error;
  return error;
}
