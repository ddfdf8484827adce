import type { TurnsErrorCode } from "../../errors";

/** What a result code of SQLite means to whoever uses a saver. */
export interface Meaning {
  code: TurnsErrorCode;
  expected: string;
  remedy: string;
}

/**
 * SQLite rolls a transaction back whose commit failed; but when the file could not be synced, what was written for it may still be
 * found, and counts then, if the process dies before anything else is written. So nobody may be told that it is surely gone.
 */
const UNKNOWN =
  "Take it for not saved, and do it again; should the process die before that, it may turn out to be saved. What was saved before is intact.";
const GOES_ON = "what was saved before is intact, and this saver goes on as soon as it can";

/** By the beginnings of the codes, the longer ones before the shorter. */
const MEANINGS: readonly (readonly [beginning: string, meaning: Meaning])[] = [
  [
    "SQLITE_NOTADB",
    {
      code: "NOT_A_DATABASE",
      expected: "a SQLite database file, or a path where none exists yet",
      remedy: "Give another path; the file was not changed.",
    },
  ],
  ...["SQLITE_BUSY", "SQLITE_LOCKED"].map((busy): readonly [string, Meaning] => [
    busy,
    {
      code: "STORE_BUSY",
      expected: "the write lock within busyTimeoutMs",
      remedy: "Nothing was saved. Find the process that holds the lock, or raise busyTimeoutMs.",
    },
  ]),
  [
    "SQLITE_CORRUPT",
    {
      code: "CHECKPOINT_CORRUPTED",
      expected: "an intact database file",
      remedy:
        "Check the disk: SQLite says the same of a page that cannot be read. If the file is damaged, restore it from a copy; saver.verify() and `PRAGMA integrity_check` name what is.",
    },
  ],
  [
    "SQLITE_READONLY_DBMOVED",
    {
      code: "STORE_UNAVAILABLE",
      expected: "the file that was opened, where it was opened",
      remedy: "The file was moved, replaced or deleted while it was open: nothing was saved. Put it back, or open a new saver.",
    },
  ],
  [
    "SQLITE_CANTOPEN",
    {
      code: "STORE_UNAVAILABLE",
      expected: "a file that this process may create, read and write",
      remedy:
        "Check the path, the permissions of the file and of its folder (SQLite writes -wal and -shm files beside it), and how many files the process has open.",
    },
  ],
  ...["SQLITE_READONLY", "SQLITE_PERM", "SQLITE_AUTH"].map((refused): readonly [string, Meaning] => [
    refused,
    {
      code: "STORE_UNAVAILABLE",
      expected: "a file that this process may create, read and write",
      remedy:
        "Nothing was saved. Check the permissions of the file and of its folder (SQLite writes -wal and -shm files beside it), and that the file system is not mounted read-only.",
    },
  ]),
  [
    "SQLITE_FULL",
    {
      code: "STORE_FAILED",
      expected: "room on the disk",
      remedy: `Nothing of it was saved. Free space on the disk (or under the quota) of the file, and of the folder for temporary files; ${GOES_ON}.`,
    },
  ],
  [
    "SQLITE_NOLFS",
    {
      code: "STORE_FAILED",
      expected: "a file system for files of this size",
      remedy: "Nothing of it was saved. Move the file to a file system that holds large files, or prune it.",
    },
  ],
  ...["SQLITE_IOERR_FSYNC", "SQLITE_IOERR_DIR_FSYNC", "SQLITE_IOERR_COMMIT_ATOMIC"].map((sync): readonly [string, Meaning] => [
    sync,
    {
      code: "STORE_FAILED",
      expected: "the disk to confirm what was written",
      remedy: `${UNKNOWN} Check the disk and its file system.`,
    },
  ]),
  ...["SQLITE_IOERR_NOMEM", "SQLITE_NOMEM"].map((memory): readonly [string, Meaning] => [
    memory,
    {
      code: "STORE_FAILED",
      expected: "enough memory",
      remedy: `Nothing of it was saved. Give the process more memory; ${GOES_ON}.`,
    },
  ]),
  [
    "SQLITE_IOERR_SHM",
    {
      code: "STORE_FAILED",
      expected: "a -shm file beside the database that can be made, locked and mapped",
      remedy: `Nothing of it was saved. Free space on the disk, and keep the file on a local file system; ${GOES_ON}.`,
    },
  ],
  ...[
    "SQLITE_IOERR_LOCK",
    "SQLITE_IOERR_UNLOCK",
    "SQLITE_IOERR_RDLOCK",
    "SQLITE_IOERR_CHECKRESERVEDLOCK",
    "SQLITE_IOERR_BLOCKED",
    "SQLITE_PROTOCOL",
  ].map((locks): readonly [string, Meaning] => [
    locks,
    {
      code: "STORE_FAILED",
      expected: "file locks that work",
      remedy: "Do it again. If it comes back: keep the file on a local file system; those of networks often cannot lock.",
    },
  ]),
  ...["SQLITE_IOERR_READ", "SQLITE_IOERR_SHORT_READ", "SQLITE_IOERR_CORRUPTFS", "SQLITE_IOERR_DATA", "SQLITE_IOERR_IN_PAGE"].map(
    (reading): readonly [string, Meaning] => [
      reading,
      {
        code: "STORE_FAILED",
        expected: "the disk to give back what is on it",
        remedy:
          "Nothing was changed. Check the disk and its file system, copy the file while that is possible, and look at saver.verify().",
      },
    ],
  ),
  ...["SQLITE_IOERR_GETTEMPPATH", "SQLITE_IOERR_CONVPATH", "SQLITE_IOERR_ACCESS", "SQLITE_IOERR_FSTAT", "SQLITE_IOERR_AUTH"].map(
    (paths): readonly [string, Meaning] => [
      paths,
      {
        code: "STORE_FAILED",
        expected: "the files beside the database, and a folder for temporary ones",
        remedy: `Nothing of it was saved. Check the folder of the file, the one for temporary files (SQLITE_TMPDIR, TMPDIR, /tmp), and the disk; ${GOES_ON}.`,
      },
    ],
  ),
  [
    "SQLITE_IOERR",
    {
      code: "STORE_FAILED",
      expected: "a disk that takes what is written",
      remedy: `${UNKNOWN} Check the disk, its file system, and the limits of the process (ulimit -f).`,
    },
  ],
  [
    "SQLITE_TOOBIG",
    {
      code: "STORE_FAILED",
      expected: "a value of less than 1,000,000,000 bytes",
      remedy: "Nothing of it was saved. Keep large data elsewhere, and what leads to it in the state.",
    },
  ],
  [
    "SQLITE_INTERRUPT",
    {
      code: "STORE_FAILED",
      expected: "a statement that runs to its end",
      remedy: "Nothing of it was saved: somebody interrupted the connection. Do it again.",
    },
  ],
  [
    "SQLITE_CONSTRAINT",
    {
      code: "STORE_FAILED",
      expected: "rows that fit those in the file",
      remedy: "Nothing of it was saved. Another row has this id, or a trigger that somebody added refuses it.",
    },
  ],
];

const OTHER: Meaning = {
  code: "STORE_FAILED",
  expected: "the operation to succeed",
  remedy: "Nothing of it was saved; what was saved before is intact. Check disk space and the file system, then go on.",
};

export function meaningOf(sqlite: string): Meaning {
  return MEANINGS.find(([beginning]) => sqlite.startsWith(beginning))?.[1] ?? OTHER;
}
