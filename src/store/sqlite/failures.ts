import { TurnsError } from "../../errors";
import { meaningOf } from "./failure-meanings";

/** What a driver calls a result code that it has no name for. */
const UNNAMED = /^UNKNOWN_SQLITE_ERROR_(\d+)$/;
/** The primary result codes that may be meant then, by their numbers: an extended code has its primary code in its lowest byte. */
const PRIMARY: Readonly<Record<number, string>> = {
  3: "SQLITE_PERM",
  5: "SQLITE_BUSY",
  6: "SQLITE_LOCKED",
  7: "SQLITE_NOMEM",
  8: "SQLITE_READONLY",
  9: "SQLITE_INTERRUPT",
  10: "SQLITE_IOERR",
  11: "SQLITE_CORRUPT",
  13: "SQLITE_FULL",
  14: "SQLITE_CANTOPEN",
  15: "SQLITE_PROTOCOL",
  18: "SQLITE_TOOBIG",
  19: "SQLITE_CONSTRAINT",
  22: "SQLITE_NOLFS",
  23: "SQLITE_AUTH",
  26: "SQLITE_NOTADB",
};

/** The extended result code of a driver error, e.g. `SQLITE_BUSY_SNAPSHOT`; empty for anything else. */
export function sqliteCode(error: unknown): string {
  const code = (error as { code?: unknown } | null)?.code;
  if (typeof code !== "string") return "";
  if (code.startsWith("SQLITE_")) return code;
  const number = UNNAMED.exec(code)?.[1];
  return number === undefined ? "" : (PRIMARY[Number(number) & 0xff] ?? "SQLITE_ERROR");
}

export function isBusy(error: unknown): boolean {
  const code = sqliteCode(error);
  // The last: so many others came and went that no place to read was free.
  return code.startsWith("SQLITE_BUSY") || code.startsWith("SQLITE_LOCKED") || code === "SQLITE_PROTOCOL";
}

/** Gives a driver error its place in our error family; everything else passes unchanged. */
export function translated(error: unknown, file: string): unknown {
  if (TurnsError.is(error)) return error;
  const sqlite = sqliteCode(error);
  if (sqlite === "") return error;
  const { code, expected, remedy } = meaningOf(sqlite);
  return new TurnsError(code, {
    what: `database ${file}`,
    expected,
    found: `${sqlite}: ${(error as Error).message}`,
    remedy,
    data: { file, sqlite },
    cause: error,
  });
}
