import { statSync } from "node:fs";
import { TurnsError, type TurnsErrorCode } from "../../errors";
import { sqliteCodeName } from "./node-failures";

/** What a result code of SQLite means to the user of a saver. */
interface Meaning {
  code: TurnsErrorCode;
  /** The problem, to be put after the name of the database. */
  problem: string;
  remedy: string;
}

/**
 * SQLite rolls back a transaction whose commit failed. But if the file couldn't be synced, the written data may still be found,
 * and counts if the process dies before anything else is written. So no message may claim that it is gone.
 */
const UNKNOWN =
  "Take it for not saved, and do it again; should the process die before that, it may turn out to be saved. What was saved before is intact.";
const GOES_ON = "what was saved before is intact, and this saver continues as soon as it can";
const PERMISSIONS = "the permissions of the file and of its folder (SQLite writes -wal and -shm files beside it)";

/** By prefix of the code, longer prefixes before shorter ones. */
const MEANINGS: readonly (readonly [codes: string, code: TurnsErrorCode, problem: string, remedy: string])[] = [
  ["NOTADB", "NOT_A_DATABASE", "isn't a SQLite database", "Give another path; the file was not changed."],
  [
    "BUSY LOCKED",
    "STORE_BUSY",
    "stayed locked for longer than busyTimeoutMs",
    "Nothing was saved. Find the process that holds the lock, or raise busyTimeoutMs.",
  ],
  [
    "CORRUPT",
    "CHECKPOINT_CORRUPTED",
    "is damaged",
    "Check the disk: SQLite says the same of a page that cannot be read. If the file is damaged, restore it from a copy; saver.verify() and `PRAGMA integrity_check` name what is.",
  ],
  [
    "READONLY_DBMOVED",
    "STORE_UNAVAILABLE",
    "was moved, replaced or deleted while it was open",
    "Nothing was saved. Put it back, or open a new saver.",
  ],
  [
    "CANTOPEN",
    "STORE_UNAVAILABLE",
    "can't be opened",
    `Check the path, ${PERMISSIONS}, and how many files the process has open.`,
  ],
  [
    "READONLY PERM AUTH",
    "STORE_UNAVAILABLE",
    "can't be written to",
    `Nothing was saved. Check ${PERMISSIONS}, and that the file system is not mounted read-only.`,
  ],
  [
    "FULL",
    "STORE_FAILED",
    "has no room left on its disk",
    `Nothing of it was saved. Free space on the disk (or under the quota) of the file, and of the folder for temporary files; ${GOES_ON}.`,
  ],
  [
    "NOLFS",
    "STORE_FAILED",
    "is too large for its file system",
    "Nothing of it was saved. Move the file to a file system that holds large files, or prune it.",
  ],
  [
    "IOERR_FSYNC IOERR_DIR_FSYNC IOERR_COMMIT_ATOMIC",
    "STORE_FAILED",
    "may not have reached the disk, which didn't confirm the write",
    `${UNKNOWN} Check the disk and its file system.`,
  ],
  [
    "IOERR_NOMEM NOMEM",
    "STORE_FAILED",
    "needs more memory than there is",
    `Nothing of it was saved. Give the process more memory; ${GOES_ON}.`,
  ],
  [
    "IOERR_SHM",
    "STORE_FAILED",
    "can't make, lock or map its -shm file",
    `Nothing of it was saved. Free space on the disk, and keep the file on a local file system; ${GOES_ON}.`,
  ],
  [
    "IOERR_LOCK IOERR_UNLOCK IOERR_RDLOCK IOERR_CHECKRESERVEDLOCK IOERR_BLOCKED PROTOCOL",
    "STORE_FAILED",
    "can't be locked reliably",
    "Do it again. If it happens again: keep the file on a local file system; those of networks often cannot lock.",
  ],
  [
    "IOERR_READ IOERR_SHORT_READ IOERR_CORRUPTFS IOERR_DATA IOERR_IN_PAGE",
    "STORE_FAILED",
    "can't be read from its disk",
    "Nothing was changed. Check the disk and its file system, copy the file while that is possible, and look at saver.verify().",
  ],
  [
    "IOERR_GETTEMPPATH IOERR_CONVPATH IOERR_ACCESS IOERR_FSTAT IOERR_AUTH",
    "STORE_FAILED",
    "can't use the files beside it, or the folder for temporary files",
    `Nothing of it was saved. Check the folder of the file, the one for temporary files (SQLITE_TMPDIR, TMPDIR, /tmp), and the disk; ${GOES_ON}.`,
  ],
  [
    "IOERR",
    "STORE_FAILED",
    "can't be written to its disk",
    `${UNKNOWN} Check the disk, its file system, and the limits of the process (ulimit -f).`,
  ],
  [
    "TOOBIG",
    "STORE_FAILED",
    "can't take a value of 1,000,000,000 bytes or more",
    "Nothing of it was saved. Keep large data elsewhere, and what leads to it in the state.",
  ],
  [
    "INTERRUPT",
    "STORE_FAILED",
    "was interrupted in a statement",
    "Nothing of it was saved: somebody interrupted the connection. Do it again.",
  ],
  [
    "CONSTRAINT",
    "STORE_FAILED",
    "refused a row that conflicts with another, or with a trigger",
    "Nothing of it was saved. Another row has this id, or a trigger that somebody added refuses it.",
  ],
];
const OTHER = [
  "",
  "STORE_FAILED",
  "reported an error",
  "Nothing of it was saved; what was saved before is intact. Check disk space and the file system, then try again.",
] as const;

export function meaningOf(sqlite: string): Meaning {
  const found = MEANINGS.find(([codes]) => codes.split(" ").some((code) => sqlite.startsWith(`SQLITE_${code}`)));
  const [, code, problem, remedy] = found ?? OTHER;
  return { code, problem, remedy };
}

/** The name that a driver gives to an unknown result code. An extended code has its primary code in its lowest byte. */
const UNNAMED = /^UNKNOWN_SQLITE_ERROR_(\d+)$/;

/** What better-sqlite3 says, without a code, of a value that SQLite doesn't take. */
const TOO_BIG = "The bound string, buffer, or bigint is too big";

/** The extended result code of a driver error, e.g. `SQLITE_BUSY_SNAPSHOT`; empty for anything else. */
export function sqliteCode(error: unknown): string {
  const { code, message } = (error ?? {}) as { code?: unknown; message?: unknown };
  if (message === TOO_BIG) return "SQLITE_TOOBIG";
  if (typeof code !== "string") return "";
  if (code.startsWith("SQLITE_")) return code;
  const number = UNNAMED.exec(code)?.[1];
  if (number === undefined) return "";
  const primary = sqliteCodeName(Number(number) & 0xff);
  return UNNAMED.test(primary) ? "SQLITE_ERROR" : primary;
}

export function isBusy(error: unknown): boolean {
  const code = sqliteCode(error);
  // SQLITE_PROTOCOL: so many other connections came and went that no place to read was free.
  return code.startsWith("SQLITE_BUSY") || code.startsWith("SQLITE_LOCKED") || code === "SQLITE_PROTOCOL";
}

/** Translates a driver error into our error family. Everything else is returned unchanged. */
export function translated(error: unknown, file: string): unknown {
  if (TurnsError.is(error)) return error;
  const sqlite = sqliteCode(error);
  if (sqlite === "") return error;
  const { code, problem, remedy } = meaningOf(sqlite);
  return new TurnsError(code, {
    problem: `Database ${file} ${problem} (${sqlite}: ${(error as Error).message}).`,
    remedy,
    data: { file, sqlite },
    cause: error,
  });
}

/**
 * For a directory, SQLite only says that it can't open it.
 * @returns undefined if the path isn't a directory
 */
export function directoryGiven(path: string, cause: unknown): TurnsError | undefined {
  try {
    if (!statSync(path).isDirectory()) return undefined;
  } catch {
    return undefined;
  }
  return new TurnsError("STORE_UNAVAILABLE", {
    problem: `${path} is a directory, not a database file.`,
    remedy: "Give the path of a file in it. Nothing was changed.",
    data: { file: path },
    cause,
  });
}
