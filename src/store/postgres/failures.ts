import { TurnsError, type TurnsErrorCode } from "../../errors";

/** The connection is gone, or none could be had. The server has said nothing about it. */
export class ConnectionLost extends Error {
  constructor(override readonly cause: unknown) {
    super(cause instanceof Error ? cause.message : String(cause), { cause });
  }
}

const SQLSTATE = /^[0-9A-Z]{5}$/;

/** The SQLSTATE of a server's error; empty for anything else. The codes of Node's network errors are longer. */
export function sqlState(error: unknown): string {
  const { code, severity } = (error ?? {}) as { code?: unknown; severity?: unknown };
  return typeof code === "string" && SQLSTATE.test(code) && typeof severity === "string" ? code : "";
}

/** Another transaction got in the way, or the server can't answer at the moment: the same may succeed a moment later. */
const PASSING = /^(08...|53...|57P0[123]|40001|40P01|55P03|25P03)$/;

/** Whether an error says nothing about the statement that met it. */
export function isPassing(error: unknown): boolean {
  return error instanceof ConnectionLost || PASSING.test(sqlState(error));
}

/** The server's answer to COMMIT doesn't say whether it was carried out. */
const DOUBTFUL = /^(08...|57P..|58...|XX...|40003)$/;

export function isDoubtful(error: unknown): boolean {
  return error instanceof ConnectionLost || DOUBTFUL.test(sqlState(error));
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
  ["08 57P", "STORE_UNAVAILABLE", "can't be reached", "Nothing was saved. Check that the server runs, and do it again."],
  ["28", "STORE_UNAVAILABLE", "refuses the login", "Nothing was saved. Check user, password and pg_hba.conf."],
  ["3D000", "STORE_UNAVAILABLE", "doesn't exist", "Nothing was saved. Create it, or correct the connection string."],
  ["42501", "STORE_UNAVAILABLE", "refuses it for lack of rights", RIGHTS],
  [
    "42P01 3F000",
    "STORE_UNAVAILABLE",
    "doesn't have the tables of this package",
    "Nothing was saved. Somebody has removed them, or the schema is another one; the option `schema` names it.",
  ],
  ["25006", "STORE_UNAVAILABLE", "is read-only, as a replica is", "Nothing was saved. Connect to the primary."],
  [
    "54000",
    "STORE_FAILED",
    "can't index a name of more than about 2,700 bytes",
    `${NOTHING} Use shorter thread ids, checkpoint namespaces and names.`,
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

/** Translates an error of the server or the connection into our error family. Everything else is returned unchanged. */
export function translated(error: unknown, database: string): unknown {
  if (TurnsError.is(error)) return error;
  const isLost = error instanceof ConnectionLost;
  const sqlstate = isLost ? "08" : sqlState(error);
  if (sqlstate === "") return error;
  const [, code, problem, remedy] =
    MEANINGS.find(([codes]) => codes.split(" ").some((prefix) => sqlstate.startsWith(prefix))) ?? OTHER;
  const { message } = error as Error;
  return new TurnsError(code, {
    problem: `Database ${database} ${problem} (${isLost ? message : `${sqlstate}: ${message}`}).`,
    remedy,
    data: isLost ? { database } : { database, sqlstate },
    cause: isLost ? error.cause : error,
  });
}

/** The connection was lost after COMMIT was sent, and the database can't be asked what became of it. */
export function inDoubtError(error: unknown, database: string): TurnsError {
  const { message } = ((error as Error).cause ?? error) as Error;
  return new TurnsError("STORE_UNAVAILABLE", {
    problem: `The connection to database ${database} was lost during a commit, and whether it was carried out can't be found out (${message}).`,
    remedy:
      "It may have been saved or not. When the server answers again, resume the run: it continues from what was saved, and repeats no side effect.",
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
