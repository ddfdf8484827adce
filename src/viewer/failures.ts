import { TurnsError, type TurnsErrorCode } from "../errors";
import { movedMessage } from "../inspection/moving";
import type { Failure } from "./api";

/** An answer that isn't 2xx, and that has nothing to do with the database. */
export class HttpError extends Error {
  constructor(
    readonly status: number,
    readonly code: string,
    message: string,
  ) {
    super(message);
  }
}

const WRONG: readonly TurnsErrorCode[] = ["INVALID_OPTION", "INVALID_CONFIG", "UNSERIALIZABLE_VALUE"];
const NOT_THERE: readonly TurnsErrorCode[] = [
  ...(["THREAD_NOT_FOUND", "CHECKPOINT_NOT_FOUND", "EFFECT_NOT_FOUND", "REWIND_NOT_FOUND", "UNKNOWN_TASK"] as const),
  ...(["THREAD_DELETED", "THREAD_MOVED", "TURN_NOT_KEPT"] as const),
];
/** Somebody has to decide something first, or somebody else was quicker. */
const CONFLICTS: readonly TurnsErrorCode[] = [
  ...(["THREAD_RUNNING", "UNFINISHED_WORK", "NOTHING_TO_RESUME", "UNKNOWN_INTERRUPT", "REWIND_CONFLICT"] as const),
  ...(["REWIND_UNFINISHED", "EFFECT_IN_DOUBT", "EFFECT_NOT_IN_DOUBT", "EFFECT_UNCOMPENSATED", "UNDO_FAILED"] as const),
  ...(["GRAPH_CHANGED", "WRONG_GRAPH", "LEASE_LOST", "UNSUPPORTED"] as const),
];
const LATER: readonly TurnsErrorCode[] = [
  ...(["STORE_BUSY", "STORE_UNAVAILABLE", "STORE_CLOSED", "STORE_DRAINING", "SCHEMA_OUTDATED", "NOT_A_DATABASE"] as const),
];

/** What goes over the wire for an error. A stack never does. @param database what is served */
export function failureOf(error: unknown, database = "SRC"): { status: number; body: Failure } {
  if (error instanceof HttpError) {
    const { status, code, message } = error;
    return { status, body: { error: { code, message, data: {} } } };
  }
  if (!TurnsError.is(error)) {
    const message = "The server failed. Its terminal says why.";
    return { status: 500, body: { error: { code: "INTERNAL", message, data: {} } } };
  }
  const { code, data } = error;
  const message = code === "THREAD_MOVED" ? movedMessage(data, database) : error.message;
  const status = WRONG.includes(code)
    ? 400
    : NOT_THERE.includes(code)
      ? 404
      : CONFLICTS.includes(code)
        ? 409
        : LATER.includes(code)
          ? 503
          : 500;
  return { status, body: { error: { code, message, data: JSON.parse(JSON.stringify(data)) as Record<string, unknown> } } };
}
