/**
 * The result codes of SQLite (sqlite.org/rescode.html). Extended codes follow their primary one: the n-th is `PRIMARY | (n <<
 * 8)`, counted from 1. An empty name is an unused number.
 */
const CODES: readonly (readonly [code: number, name: string, extended?: string])[] = [
  [1, "ERROR", "MISSING_COLLSEQ RETRY SNAPSHOT RESERVESIZE KEY UNABLE"],
  [2, "INTERNAL"],
  [3, "PERM"],
  [4, "ABORT", "- ROLLBACK"],
  [5, "BUSY", "RECOVERY SNAPSHOT TIMEOUT"],
  [6, "LOCKED", "SHAREDCACHE VTAB"],
  [7, "NOMEM"],
  [8, "READONLY", "RECOVERY CANTLOCK ROLLBACK DBMOVED CANTINIT DIRECTORY"],
  [9, "INTERRUPT"],
  [
    10,
    "IOERR",
    "READ SHORT_READ WRITE FSYNC DIR_FSYNC TRUNCATE FSTAT UNLOCK RDLOCK DELETE BLOCKED NOMEM ACCESS CHECKRESERVEDLOCK LOCK CLOSE " +
      "DIR_CLOSE SHMOPEN SHMSIZE SHMLOCK SHMMAP SEEK DELETE_NOENT MMAP GETTEMPPATH CONVPATH VNODE AUTH BEGIN_ATOMIC COMMIT_ATOMIC " +
      "ROLLBACK_ATOMIC DATA CORRUPTFS IN_PAGE BADKEY CODEC",
  ],
  [11, "CORRUPT", "VTAB SEQUENCE INDEX"],
  [12, "NOTFOUND"],
  [13, "FULL"],
  [14, "CANTOPEN", "NOTEMPDIR ISDIR FULLPATH CONVPATH DIRTYWAL SYMLINK"],
  [15, "PROTOCOL"],
  [16, "EMPTY"],
  [17, "SCHEMA"],
  [18, "TOOBIG"],
  [19, "CONSTRAINT", "CHECK COMMITHOOK FOREIGNKEY FUNCTION NOTNULL PRIMARYKEY TRIGGER UNIQUE VTAB ROWID PINNED DATATYPE"],
  [20, "MISMATCH"],
  [21, "MISUSE"],
  [22, "NOLFS"],
  [23, "AUTH"],
  [24, "FORMAT"],
  [25, "RANGE"],
  [26, "NOTADB"],
  [27, "NOTICE", "RECOVER_WAL RECOVER_ROLLBACK RBU"],
  [28, "WARNING", "AUTOINDEX"],
];

const NAMES: ReadonlyMap<number, string> = new Map(
  CODES.flatMap(([code, name, extended]) => {
    const further = (extended?.split(" ") ?? []).map(
      (part, index) => [code | ((index + 1) << 8), `SQLITE_${name}_${part}`] as const,
    );
    return [[code, `SQLITE_${name}`] as const, ...further];
  }),
);

/** An SQLite error of `node:sqlite`, with the code that better-sqlite3 gives it. */
class NodeSqliteError extends Error {
  readonly code: string;

  constructor(code: string, cause: { message: string }) {
    super(cause.message, { cause });
    this.name = "SqliteError";
    this.code = code;
  }
}

/**
 * An error of `node:sqlite`, in the form that better-sqlite3 throws. Errors that don't come from SQLite (a wrong type, a closed
 * handle) are returned unchanged. Recognised by its properties: in another realm, such as jest's, Node's classes differ.
 */
export function sqliteFailure(error: unknown): unknown {
  const { errcode } = (error ?? {}) as { errcode?: unknown };
  return typeof errcode === "number" ? new NodeSqliteError(sqliteCodeName(errcode), error as { message: string }) : error;
}

/** The name of a result code. A code of a future SQLite gets the name of its primary code. */
export function sqliteCodeName(code: number): string {
  return NAMES.get(code) ?? NAMES.get(code & 0xff) ?? `UNKNOWN_SQLITE_ERROR_${code}`;
}
