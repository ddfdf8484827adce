import { TurnsError } from "../../errors";

/** The extended result code of a driver error, e.g. `SQLITE_BUSY_SNAPSHOT`; empty for anything else. */
export function sqliteCode(error: unknown): string {
  const code = (error as { code?: unknown } | null)?.code;
  return typeof code === "string" && code.startsWith("SQLITE_") ? code : "";
}

export function isBusy(error: unknown): boolean {
  const code = sqliteCode(error);
  return code.startsWith("SQLITE_BUSY") || code.startsWith("SQLITE_LOCKED");
}

/** Gives a driver error its place in our error family; everything else passes unchanged. */
export function translated(error: unknown, file: string): unknown {
  if (TurnsError.is(error)) return error;
  const code = sqliteCode(error);
  if (code === "") return error;
  const base = {
    what: `database ${file}`,
    found: `${code}: ${(error as Error).message}`,
    data: { file, sqlite: code },
    cause: error,
  };
  if (code === "SQLITE_NOTADB") {
    return new TurnsError("NOT_A_DATABASE", {
      ...base,
      expected: "a SQLite database file, or a path where none exists yet",
      remedy: "Give another path; the file was not changed.",
    });
  }
  if (isBusy(error)) {
    return new TurnsError("STORE_BUSY", {
      ...base,
      expected: "the write lock within busyTimeoutMs",
      remedy: "Nothing was saved. Find the process that holds the lock, or raise busyTimeoutMs.",
    });
  }
  if (code.startsWith("SQLITE_CORRUPT")) {
    return new TurnsError("CHECKPOINT_CORRUPTED", {
      ...base,
      expected: "an intact database file",
      remedy: "Restore the file from a copy; `PRAGMA integrity_check` in the sqlite3 shell names what is damaged.",
    });
  }
  if (code.startsWith("SQLITE_CANTOPEN") || code.startsWith("SQLITE_READONLY") || code === "SQLITE_PERM") {
    return new TurnsError("STORE_UNAVAILABLE", {
      ...base,
      expected: "a file that this process may create, read and write",
      remedy: "Check the path and the permissions of the file and of its folder (SQLite writes -wal and -shm files beside it).",
    });
  }
  return new TurnsError("STORE_FAILED", {
    ...base,
    expected: "the operation to succeed",
    remedy: "Nothing of it was saved; what was saved before is intact. Check disk space and the file system, then go on.",
  });
}
