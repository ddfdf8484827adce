import { TurnsError } from "../../../errors";
import { sqliteMigrations } from "../migrations.generated";
import type { Pages } from "./pages";
import type { SourceRow } from "./tables";

/** @param applied rows of `langgraph_migrations`; one with the name of a migration that is known, and another number, is damaged */
export function refuseNewer(file: string, applied: readonly SourceRow[]): void {
  const newest = sqliteMigrations.at(-1)?.version ?? 0;
  const others = applied.filter((row) => sqliteMigrations.every(({ name }) => name !== row["name"]));
  const found = Math.max(0, ...others.map((row) => Number(row["version"])));
  if (found <= newest) return;
  throw new TurnsError("SCHEMA_TOO_NEW", {
    what: `database ${file}`,
    expected: `schema version ${newest} or older`,
    found: `schema version ${found}`,
    remedy: "Update langgraph-checkpoint-turns to the version that wrote this file, or newer. Nothing was changed.",
    data: { file, found, newest },
  });
}

export function targetExists(file: string): TurnsError {
  return new TurnsError("SALVAGE_TARGET_EXISTS", {
    what: `salvaging into ${file}`,
    expected: "a path where nothing is yet",
    found: "a file",
    remedy: "Give another path. Nothing was changed.",
    data: { file },
  });
}

export function notOurs(file: string, pages: Pages): TurnsError {
  return new TurnsError(pages.hasHeader ? "SCHEMA_CONFLICT" : "NOT_A_DATABASE", {
    what: `database ${file}`,
    expected: "a file that this package wrote, damaged or not",
    found: pages.hasHeader ? "a database without its tables" : "no database",
    remedy: "Give the path of the damaged file; this one was not changed.",
    data: { file },
  });
}

export function keysLost(file: string): TurnsError {
  return new TurnsError("UNKNOWN_KEY", {
    what: `database ${file}`,
    expected: "the secret of an encrypted database, wrapped under one of its keys",
    found: "none: it is damaged, or was never there",
    remedy: "Without it nothing opens. Restore the file from a copy.",
    data: { file },
  });
}

export function unavailable(file: string, cause: unknown): TurnsError {
  return new TurnsError("STORE_UNAVAILABLE", {
    what: `database ${file}`,
    expected: "a file that this process may read",
    found: codeOf(cause),
    remedy: "Check the path and the permissions.",
    data: { file },
    cause,
  });
}

function codeOf(error: unknown): string {
  const { code } = error as { code?: unknown };
  return typeof code === "string" ? code : "an error";
}

export function writtenMeanwhile(file: string): TurnsError {
  return new TurnsError("STORE_BUSY", {
    what: `database ${file}`,
    expected: "a file that nobody writes to",
    found: "one that changed while it was read",
    remedy: "Stop the writers, and salvage again. What had been rescued was removed.",
    data: { file },
  });
}
