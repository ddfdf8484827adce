import { lstatSync, rmSync, statSync } from "node:fs";
import { dirname, resolve } from "node:path";
import { TurnsError } from "../errors";

/** What SQLite puts beside a file. */
export const BESIDE = ["-wal", "-shm", "-journal"];

/**
 * Refuses a destination that isn't free, or that is the source itself.
 *
 * @param source the file that is copied, if it's one
 * @param overwrite whether a file at the destination may be replaced
 * @throws {TurnsError} STORE_UNAVAILABLE, INVALID_OPTION, BACKUP_TARGET_EXISTS
 */
export function refuseTarget(source: string | undefined, path: string, overwrite: boolean): void {
  if (statOf(dirname(path))?.isDirectory() !== true) throw noBackupTarget(path, "its folder doesn't exist");
  const target = statOf(path);
  const own = source === undefined ? [] : ["", ...BESIDE].map((suffix) => resolve(source) + suffix);
  const isSame = (file: string): boolean => {
    const found = statOf(file);
    return file === path || (target !== undefined && found?.ino === target.ino && found.dev === target.dev);
  };
  if (own.some(isSame)) throw sourceAsTarget(path);
  if (target?.isDirectory() === true) throw noBackupTarget(path, "it is a directory, not a file");
  refuseExisting(path, overwrite);
}

/** A log that is left beside the destination would be taken for the copy's own. @throws {TurnsError} BACKUP_TARGET_EXISTS */
export function refuseExisting(path: string, overwrite: boolean): void {
  const there = [...(overwrite ? [] : [path]), ...BESIDE.map((suffix) => path + suffix)].find(isThere);
  if (there !== undefined) throw backupTargetExists(path, there);
}

function statOf(path: string): ReturnType<typeof statSync> {
  try {
    return statSync(path, { throwIfNoEntry: false });
  } catch {
    return undefined;
  }
}

function isThere(path: string): boolean {
  try {
    return lstatSync(path, { throwIfNoEntry: false }) !== undefined;
  } catch {
    return false;
  }
}

/** Removes what was written beside a destination. Never throws. */
export function removed(partial: string): void {
  for (const suffix of ["", ...BESIDE]) {
    try {
      rmSync(partial + suffix, { force: true });
    } catch {
      // If it can't be removed, its name still keeps anyone from taking it for a backup.
    }
  }
}

function noBackupTarget(path: string, found: string): TurnsError {
  return new TurnsError("STORE_UNAVAILABLE", {
    problem: `The copy can't be written to ${path}: ${found}.`,
    remedy: "Create the folder first, or give another path. Nothing was written.",
    data: { path },
  });
}

function sourceAsTarget(path: string): TurnsError {
  return new TurnsError("INVALID_OPTION", {
    problem: `The copy can't be written to ${path}, which is the open database or belongs to it.`,
    remedy: "Give another path. Nothing was written.",
    data: { path },
  });
}

/** @param there the obstacle: the file itself, or a log beside it */
export function backupTargetExists(path: string, there: string): TurnsError {
  const isItself = there === path;
  return new TurnsError("BACKUP_TARGET_EXISTS", {
    problem: isItself
      ? `The copy can't be written to ${path}: the file exists.`
      : `The copy can't be written to ${path}: beside it is ${there}, of a database that is open or wasn't closed.`,
    remedy: isItself
      ? `Give another path, or replace it: saver.backup(path, { overwrite: true }). Nothing was changed.`
      : "Close what has that database open; if nothing has, remove that file. Or give another path. Nothing was changed.",
    data: { path, there },
  });
}

/** File system errors have codes that aren't SQLite's. */
export function failureOf(error: unknown, path: string): unknown {
  const { code, syscall } = (error ?? {}) as { code?: unknown; syscall?: unknown };
  if (TurnsError.is(error) || typeof code !== "string" || syscall === undefined) return error;
  return unwritableTarget(path, code, error);
}

function unwritableTarget(path: string, found: string, cause: unknown): TurnsError {
  const isFull = found === "ENOSPC" || found === "EDQUOT" || found === "EIO";
  return new TurnsError(isFull ? "STORE_FAILED" : "STORE_UNAVAILABLE", {
    problem: `The copy couldn't be written to ${path}: ${found}.`,
    remedy: "Check the permissions of the folder and the room on the disk. No copy was left there.",
    data: { path },
    cause,
  });
}
