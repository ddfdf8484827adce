import { TurnsError } from "../../errors";

export function noBackupTarget(path: string, found: string): TurnsError {
  return new TurnsError("STORE_UNAVAILABLE", {
    what: `the backup to ${path}`,
    expected: "the path of a file in a folder that exists",
    found,
    remedy: "Create the folder first, or give another path. Nothing was written.",
    data: { path },
  });
}

export function sourceAsTarget(path: string): TurnsError {
  return new TurnsError("INVALID_OPTION", {
    what: "path",
    expected: "another file than the one that is backed up",
    found: `${path}, which is the open database or belongs to it`,
    remedy: "Give another path. Nothing was written.",
    data: { path },
  });
}

/** @param there what is in the way: the file itself, or a log beside it */
export function backupTargetExists(path: string, there: string): TurnsError {
  const isItself = there === path;
  return new TurnsError("BACKUP_TARGET_EXISTS", {
    what: `the backup to ${path}`,
    expected: isItself ? "a path where nothing is yet" : "no file of an open database beside it",
    found: isItself ? "a file" : there,
    remedy: isItself
      ? `Give another path, or replace it: saver.backup(path, { overwrite: true }). Nothing was changed.`
      : "Close what has that database open, or give another path. Nothing was changed.",
    data: { path, there },
  });
}

export function withoutBackup(path: string): TurnsError {
  return new TurnsError("DRIVER_UNAVAILABLE", {
    what: `the backup to ${path}`,
    expected: "a driver that can back up: better-sqlite3, or node:sqlite",
    found: "a database object without the method backup",
    remedy: 'Open the file by its path, TurnSaver.fromPath("agent.db"), and back up from there.',
    data: { path },
  });
}

export function unwritableTarget(path: string, found: string, cause: unknown): TurnsError {
  const isFull = found === "ENOSPC" || found === "EDQUOT" || found === "EIO";
  return new TurnsError(isFull ? "STORE_FAILED" : "STORE_UNAVAILABLE", {
    what: `the backup to ${path}`,
    expected: "a folder that this process may write to, on a disk with room",
    found,
    remedy: "Check the permissions of the folder and the room on the disk. Nothing was left at the destination.",
    data: { path },
    cause,
  });
}
