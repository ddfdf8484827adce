import { TurnsError, type TurnsErrorCode } from "../../errors";

/** The connection is gone, or none could be had. The server has said nothing about it. */
export class ConnectionLost extends Error {
  constructor(override readonly cause: unknown) {
    super(messageOf(cause), { cause });
  }
}

/** Why a connection was given up: the server said nothing for too long. */
export class Silence extends Error {
  constructor() {
    super("the server didn't answer in time");
  }
}

/** Whether a connection fell silent. The server may be there on another one. */
export function isSilence(error: unknown): boolean {
  return error instanceof ConnectionLost && error.cause instanceof Silence;
}

/** Others have all connections of the pool. */
export class PoolCrowded extends Error {
  constructor(ms: number) {
    super(`none came for ${ms} ms`);
  }
}

/** Says a pool with a limit of its own (`connectionTimeoutMillis`) about the same. */
const LEFT_WAITING = "timeout exceeded when trying to connect";

/** The server didn't accept a connection in time. */
export class ConnectTimeout extends Error {
  constructor(ms: number) {
    super(`the server accepted no connection for ${ms} ms`);
  }
}

/** No connection can be had, and trying again changes nothing. */
export class ConnectionRefused extends Error {
  constructor(
    override readonly cause: unknown,
    readonly reason: Reason,
  ) {
    super(messageOf(cause), { cause });
  }
}

type Reason = "login" | "encryption" | "ended" | "url" | "native" | "closed";
/** The driver has no codes for these. */
const REASONS: readonly (readonly [says: RegExp, reason: Reason])[] = [
  [/calling end on the pool/, "ended"],
  [/SASL|SCRAM|password must be/, "login"],
  [/not support SSL|certificate|CERT_|ERR_TLS|ERR_SSL|ERR_OSSL|EPROTO|no such file/, "encryption"],
  [/ERR_INVALID_URL|URI malformed/, "url"],
];

/** @returns what it means that no connection could be had */
export function meaningOfRefusal(error: unknown): unknown {
  if (sqlState(error) !== "") return isPassing(error) ? error : new ConnectionRefused(error, "closed");
  const { code = "" } = error as { code?: string };
  const [, reason] = REASONS.find(([says]) => says.test(`${code} ${messageOf(error)}`)) ?? [];
  return reason === undefined ? new ConnectionLost(error) : new ConnectionRefused(error, reason);
}

function messageOf(error: unknown): string {
  // A host may have several addresses, and each was tried.
  if (error instanceof AggregateError && error.message === "") return error.errors.map(messageOf).join(", ");
  return error instanceof Error ? error.message : String(error);
}

const SQLSTATE = /^[0-9A-Z]{5}$/;

/** The SQLSTATE of a server's error; empty for anything else. The codes of Node's network errors are longer. */
export function sqlState(error: unknown): string {
  const { code, severity } = (error ?? {}) as { code?: unknown; severity?: unknown };
  return typeof code === "string" && SQLSTATE.test(code) && typeof severity === "string" ? code : "";
}

/** Another transaction got in the way, or the server can't answer at the moment: the same may succeed a moment later. */
const PASSING = /^(08...|53...|57P0[1235]|40001|40P01|55P03|25P0[34])$/;

/** A statement isn't there under its name any more, is there already, or its plan is for columns of other types. */
const OF_PREPARED = /^(26000|42P05|0A000)$/;

/** The server didn't keep a statement that it was to keep. Without a name, the same statement succeeds. */
export class PlanLost extends Error {
  constructor(override readonly cause: unknown) {
    super(messageOf(cause), { cause });
  }

  static isMeantBy(error: unknown): boolean {
    return OF_PREPARED.test(sqlState(error));
  }
}

/** The pool gave a connection in a transaction that its last user didn't end, and that had failed. Nothing was carried out on it. */
export class LeftAborted extends Error {
  constructor(override readonly cause: unknown) {
    super(messageOf(cause), { cause });
  }

  static isMeantBy(error: unknown): boolean {
    return sqlState(error) === "25P02";
  }
}

/** Whether an error says nothing about the statement that met it. */
export function isPassing(error: unknown): boolean {
  if (error instanceof ConnectionLost || error instanceof PlanLost || error instanceof LeftAborted) return true;
  return PASSING.test(sqlState(error));
}

/** The server's answer to COMMIT doesn't say whether it was carried out. */
const DOUBTFUL = /^(08...|57P..|58...|XX...|40003)$/;

export function isDoubtful(error: unknown): boolean {
  return error instanceof ConnectionLost || DOUBTFUL.test(sqlState(error));
}

/**
 * Whether a pooler says that it has lost its server. It answers the first statement that is unanswered, no matter what the server has done
 * meanwhile. The server itself says such things of a statement only before it ends the session. Only a server translates the severity.
 */
export function isLostBehind(error: unknown): boolean {
  const state = sqlState(error);
  return state.startsWith("08") || (/^(58|XX)/.test(state) && (error as { severity?: string }).severity === "FATAL");
}

const NOTHING = "Nothing of it was saved; what was saved before is intact.";
const RIGHTS =
  "Nothing of it was saved. Give the role USAGE on the schema, SELECT, INSERT, UPDATE and DELETE on its tables, and USAGE on its sequence.";

/** By the beginning of the SQLSTATE, longer ones before shorter ones. The problem is put after the name of the database. */
const MEANINGS: readonly (readonly [codes: string, code: TurnsErrorCode, problem: string, remedy: string])[] = [
  [
    "40001 40P01 55P03",
    "STORE_BUSY",
    "stayed locked for longer than busyTimeoutMs",
    "Nothing was saved. Find the transaction that holds the lock (pg_stat_activity), or raise busyTimeoutMs.",
  ],
  [
    "53300",
    "STORE_UNAVAILABLE",
    "has no connection left",
    "Nothing was saved. Give the pool a smaller `max`, use a pooler such as PgBouncer, or raise the server's max_connections.",
  ],
  ["53100", "STORE_FAILED", "has no room left on its disk", `${NOTHING} Free space on the server's disk.`],
  ["53", "STORE_FAILED", "lacks a resource", `${NOTHING} The server's log says which one.`],
  ["57014", "STORE_FAILED", "cancelled a statement", `${NOTHING} Raise statement_timeout, or find who cancelled it.`],
  [
    "08 57P",
    "STORE_UNAVAILABLE",
    "can't be reached",
    "Nothing was saved. Check that the server runs, and host and port; then do it again.",
  ],
  [
    "25P03 25P04",
    "STORE_BUSY",
    "aborted a transaction that took too long",
    "Nothing was saved. Find out what holds up the process or the network; a save has more time with a longer busyTimeoutMs.",
  ],
  [
    "28",
    "STORE_UNAVAILABLE",
    "refuses the login",
    "Nothing was saved. Check user, password and pg_hba.conf. If that asks for encryption, set sslmode in the connection string, or the option `ssl` of the pool.",
  ],
  [
    "encryption",
    "STORE_UNAVAILABLE",
    "can't be reached by an encrypted connection",
    "Nothing was saved. Check sslmode and sslrootcert in the connection string, or the option `ssl` of the pool.",
  ],
  [
    "url",
    "INVALID_OPTION",
    "has a connection string that can't be read",
    "Write postgresql://user:password@host:5432/database, with each part as encodeURIComponent(part) gives it.",
  ],
  [
    "native",
    "INVALID_OPTION",
    "can't be used through pg-native, which can't send statements in one piece",
    "Pass a Pool that pg exports itself, not one of its `native`.",
  ],
  [
    "ended",
    "STORE_UNAVAILABLE",
    "can't be reached, because the pool that was given is closed",
    "Nothing was saved. Close the saver before its pool.",
  ],
  [
    "crowded",
    "STORE_UNAVAILABLE",
    "can't be reached, because no connection of the pool was released",
    "Nothing was saved. Give the pool a larger `max`, or find out who keeps its connections.",
  ],
  ["3D000", "STORE_UNAVAILABLE", "doesn't exist", "Nothing was saved. Create it, or correct the connection string."],
  ["42501", "STORE_UNAVAILABLE", "refuses it for lack of rights", RIGHTS],
  [
    "policy",
    "STORE_UNAVAILABLE",
    "refuses it by row-level security",
    "Nothing was saved. For the owner: ALTER TABLE name NO FORCE ROW LEVEL SECURITY; for other roles: CREATE POLICY saver ON name USING (true);",
  ],
  [
    "55000",
    "STORE_UNAVAILABLE",
    "doesn't allow it",
    "Nothing was saved. For a replica identity: ALTER TABLE name REPLICA IDENTITY DEFAULT; for connections: ALTER DATABASE name ALLOW_CONNECTIONS true;",
  ],
  [
    "42P01 3F000",
    "STORE_UNAVAILABLE",
    "doesn't have the tables of this package",
    "Nothing was saved. Somebody has removed them, or the schema is another one; the option `schema` names it.",
  ],
  [
    "25006",
    "STORE_UNAVAILABLE",
    "is read-only",
    "Nothing was saved. Connect to the primary, or turn default_transaction_read_only off.",
  ],
  [
    "54000",
    "STORE_FAILED",
    "can't index a name of more than about 2,700 bytes",
    `${NOTHING} Use shorter thread ids, checkpoint namespaces and names.`,
  ],
  [
    "23502 42703 42P10",
    "STORE_FAILED",
    "doesn't have its tables as this package made them",
    `${NOTHING} npx turns doctor --db URL --schema NAME compares them.`,
  ],
  ["23", "STORE_FAILED", "refused a row that conflicts with another, or with a trigger", NOTHING],
  [
    "XX001 XX002",
    "CHECKPOINT_CORRUPTED",
    "is damaged",
    "Check the server's disk. Restore the database from a backup; saver.verify() names what is damaged.",
  ],
];
const OTHER = ["", "STORE_FAILED", "reported an error", `${NOTHING} The server's log says more.`] as const;
const CLOSED = ["", "STORE_UNAVAILABLE", "closed the connection", "Nothing was saved. The server's log says more."] as const;
/** A policy refuses a row, or `row_security` is off. The message may be in any language. */
const BY_POLICY = /^(ExecWithCheckOptions|check_enable_rls)$/;

/**
 * Translates an error of the server or the connection into our error family. Everything else is returned unchanged.
 *
 * @param other for an error without a meaning of its own
 */
export function translated(error: unknown, database: string, other: (typeof MEANINGS)[number] = OTHER): unknown {
  if (TurnsError.is(error)) return error;
  if (error instanceof PlanLost || error instanceof LeftAborted) return translated(error.cause, database);
  if (error instanceof ConnectionRefused && error.reason === "closed") return translated(error.cause, database, CLOSED);
  const sqlstate = sqlState(error);
  const kind =
    sqlstate === "" ? kindOfLoss(error) : BY_POLICY.test((error as { routine?: string }).routine ?? "") ? "policy" : sqlstate;
  if (kind === undefined) return error;
  const [, code, problem, remedy] =
    MEANINGS.find(([codes]) => codes.split(" ").some((prefix) => kind.startsWith(prefix))) ??
    // Of a pooler, which doesn't translate it.
    ((error as { severity?: string }).severity === "FATAL" ? CLOSED : other);
  const { message, cause } = error as Error;
  return new TurnsError(code, {
    problem: `Database ${database} ${problem} (${sqlstate === "" ? message : `${sqlstate}: ${message}`}).`,
    remedy,
    data: sqlstate === "" ? { database } : { database, sqlstate },
    cause: sqlstate === "" ? cause : error,
  });
}

/** As {@link MEANINGS} has it. */
function kindOfLoss(error: unknown): string | undefined {
  if (error instanceof ConnectionRefused) return error.reason === "login" ? "28" : error.reason;
  if (!(error instanceof ConnectionLost)) return undefined;
  const { cause } = error;
  return cause instanceof PoolCrowded || messageOf(cause) === LEFT_WAITING ? "crowded" : "08";
}

/** The connection was lost after COMMIT was sent, and the database can't be asked what became of it. */
export function inDoubtError(error: unknown, database: string): TurnsError {
  const { message } = ((error as Error).cause ?? error) as Error;
  return new TurnsError("STORE_UNAVAILABLE", {
    problem: `The connection to database ${database} was lost during a commit, and the saver can't find out whether that commit succeeded (${message}).`,
    remedy: "When the server answers again, resume the run. It continues from what was saved, and repeats no side effect.",
    data: { database, inDoubt: true },
    cause: error,
  });
}

export function closedError(database: string): TurnsError {
  return new TurnsError("STORE_CLOSED", {
    problem: `The saver of database ${database} is closed.`,
    remedy:
      "Open a new saver to continue. Before you close one while runs may still be active, call await saver.drain(): it ends them at their node boundaries.",
    data: { database },
  });
}
