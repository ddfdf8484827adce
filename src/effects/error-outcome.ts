import type { ErrorOutcome } from "./options";

/** What breaks off a request that may have gone out: nobody knows what came of it. */
const BROKEN_OFF =
  /^(ETIMEDOUT|ESOCKETTIMEDOUT|ECONNRESET|ECONNABORTED|EPIPE|ERR_STREAM_PREMATURE_CLOSE|UND_ERR_(?!CONNECT_TIMEOUT).+)$/;
const ABORTED: readonly unknown[] = ["AbortError", "TimeoutError"];
const LONGEST_CHAIN = 10;

/** What the function's error says about the deed. A classification that fails says nothing. */
export function errorOutcome(
  onError: ErrorOutcome | ((error: unknown) => ErrorOutcome) | undefined,
  error: unknown,
): ErrorOutcome {
  if (onError === undefined) return isBrokenOff(error) ? "unknown" : "retryable";
  if (typeof onError !== "function") return onError;
  try {
    const outcome = onError(error);
    return outcome === "retryable" || outcome === "final" ? outcome : "unknown";
  } catch {
    return "unknown";
  }
}

/** A timeout, an abort or a lost connection, here or as the cause. A connection that was never made is none: nothing has gone out. */
function isBrokenOff(error: unknown): boolean {
  let link = error as { name?: unknown; code?: unknown; cause?: unknown } | null | undefined;
  for (let depth = 0; typeof link === "object" && link !== null && depth < LONGEST_CHAIN; depth++) {
    if (ABORTED.includes(link.name) || (typeof link.code === "string" && BROKEN_OFF.test(link.code))) return true;
    link = link.cause as typeof link;
  }
  return false;
}
