import { TurnsError } from "../errors";

/** `pg` has no codes for these. Knex puts the statement before them. */
const LOST = /is not queryable$|(^| - )Connection terminated/;
/** The server has closed the connection. */
const LOST_CODES = /^(57P|08)/;
/** Node's network says so, or a server that has no connection left. */
const UNREACHED_CODES = /^(E[A-Z]+|53300)$/;
/** A pool that is used up or closed, of `pg` or of Knex. */
const NO_CONNECTION =
  /timeout exceeded when trying to connect|Timeout acquiring a connection|Cannot use a pool after|Unable to acquire a connection/;
/** Another transaction got in the way. */
const BUSY_CODES = /^(SQLITE_(BUSY|LOCKED).*|40001|40P01|55P03|25P0[34]|P2034)$/;
/** `node:sqlite` has one code for all errors. */
const BUSY = /database (table )?is locked/;
const LONGEST_CHAIN = 10;
const LONGEST_MESSAGE = 120;

/**
 * What an error of the database means, wherever it isn't the user's own function that threw it.
 *
 * @param what for the message, which database it is
 * @param codeName what its driver's code is called in `data`
 */
export function told(error: unknown, what: string, codeName: "sqlite" | "sqlstate"): TurnsError {
  if (TurnsError.is(error)) return error;
  const chain = chainOf(error);
  const code = chain.map(codeOf).find(Boolean) ?? "";
  const message = messageOf(chain.at(-1));
  const details = { data: { [codeName]: code }, cause: error };
  // Libraries put the statement before it, and its values, which don't belong into a log.
  const because = `(${message.length > LONGEST_MESSAGE ? `…${message.slice(-LONGEST_MESSAGE)}` : message || code})`;
  if (isUnreached(error)) {
    return new TurnsError("STORE_UNAVAILABLE", {
      problem: `${what} can't be reached ${because}.`,
      remedy:
        "Check that it runs, its host and port, and that its pool is large enough; then resume the thread. What became of an effect is looked up there first.",
      ...details,
    });
  }
  if (BUSY_CODES.test(code) || BUSY.test(message)) {
    return new TurnsError("STORE_BUSY", {
      problem: `${what} is locked, or another transaction got in the way ${because}.`,
      remedy:
        "Do it again, for instance by a retryPolicy, or resume the thread. What became of an effect is looked up there first.",
      ...details,
    });
  }
  return new TurnsError("STORE_FAILED", {
    problem: `${what} reported an error ${because}.`,
    remedy: "Remove the cause, then resume the thread. What became of an effect is looked up there first.",
    ...details,
  });
}

/** Whether an error may mean that there is no connection, or no longer. It may be one to somewhere else. */
export function isUnreached(error: unknown): boolean {
  return (
    isLost(error) || chainOf(error).some((link) => UNREACHED_CODES.test(codeOf(link)) || NO_CONNECTION.test(messageOf(link)))
  );
}

/** Whether the connection was lost on which somebody waited for an answer. */
export function isLost(error: unknown): boolean {
  return chainOf(error).some((link) => {
    const { severity, originalCode } = fieldsOf(link);
    if (typeof severity === "string" || typeof originalCode === "string") return LOST_CODES.test(codeOf(link));
    return LOST.test(messageOf(link));
  });
}

/** What libraries put into an error: the driver's code and message, or where to find them. */
interface Fields {
  code?: unknown;
  severity?: unknown;
  cause?: unknown;
  /** Of Prisma. */
  meta?: { code?: unknown; driverAdapterError?: unknown } | null;
  /** Of Prisma's driver adapters, in a cause that is no Error. */
  originalCode?: unknown;
  originalMessage?: unknown;
}

function fieldsOf(error: unknown): Fields {
  return error ?? {};
}

/** An error and its causes: Drizzle wraps the errors of its driver, Prisma those of its adapter. */
function chainOf(error: unknown): unknown[] {
  const chain = [error];
  for (let link = error; link instanceof Error && chain.length < LONGEST_CHAIN;) {
    const { cause, meta } = fieldsOf(link);
    link = meta?.driverAdapterError ?? cause;
    if (link === undefined) break;
    chain.push(link);
  }
  return chain;
}

function messageOf(error: unknown): string {
  const { originalMessage } = fieldsOf(error);
  return error instanceof Error ? error.message : typeof originalMessage === "string" ? originalMessage : String(error);
}

/** Prisma has one code for all statements that the database refused; the database's own is beside it. */
const REFUSED_STATEMENT = "P2010";

function codeOf(error: unknown): string {
  const { code, meta, originalCode } = fieldsOf(error);
  const own = code === REFUSED_STATEMENT ? meta?.code : (code ?? originalCode);
  return typeof own === "string" ? own : "";
}
