import { randomBytes } from "node:crypto";
import { linkSync, renameSync, rmSync, statSync } from "node:fs";
import { open } from "node:fs/promises";
import { dirname, resolve } from "node:path";
import { TurnsError } from "../../errors";
import type { BackupOrder, UnpublishedBackup } from "../backup";
import type { Awaitable, Store } from "../store";
import type { SqliteDatabase } from "./driver";
import { backupTargetExists, failureOf, refuseExisting, refuseTarget, removed } from "../backup-target";
import { translated } from "./failures";
import { snapshotOf, pathOf } from "./open-database";

/** Pages per step: 1 MiB at SQLite's usual page size, some 2 ms. */
const PAGES_AT_ONCE = 256;
/**
 * After this many pages the copy is synchronised in the background, so that the last step, which waits for the disk, has little
 * left to write.
 */
const PAGES_PER_SYNC = 2_048;

interface BackupSource {
  db: SqliteDatabase;
  /** Runs work after everything that was handed in before it, unless the file was cut or is gone. */
  inTurn: <T>(work: () => T) => Awaitable<T>;
  openCopy: (path: string) => Store;
}

/**
 * Copies the database as it is at one moment, with everything that was handed in before. A separate connection reads it in one
 * transaction. So writers, in this process and in others, neither wait for it nor make it start again. The log grows while the
 * copy runs.
 *
 * @throws {TurnsError} INVALID_OPTION, BACKUP_TARGET_EXISTS, STORE_UNAVAILABLE, STORE_CLOSED, STORE_FAILED. Nothing is left then.
 */
export async function backUp(source: BackupSource, order: BackupOrder): Promise<UnpublishedBackup<Store>> {
  const { db, openCopy } = source;
  const path = resolve(order.path);
  const partial = `${path}.partial-${process.pid}-${randomBytes(4).toString("hex")}`;
  try {
    const from = await source.inTurn(() => {
      refuseTarget(db.memory ? undefined : pathOf(db), path, order.overwrite);
      return snapshotOf(db);
    });
    let pages: number;
    try {
      pages = await copied(from, db, partial, order);
    } finally {
      if (from !== db) from.close();
    }
    return {
      pages,
      open: () => openCopy(partial),
      publish: () => published(partial, path, order.overwrite),
      discard: () => removed(partial),
    };
  } catch (error) {
    removed(partial);
    throw translated(failureOf(error, path), path);
  }
}

/** @returns how many pages the copy has */
async function copied(from: SqliteDatabase, db: SqliteDatabase, partial: string, order: BackupOrder): Promise<number> {
  if (from.backup === undefined) throw withoutBackup(order.path);
  // In the background, without keeping the process alive.
  const sync = { running: undefined as Promise<void> | undefined, failure: undefined as { error: unknown } | undefined };
  let pages = 0;
  let synced = 0;
  await from.backup(partial, {
    progress: ({ totalPages, remainingPages }) => {
      order.signal?.throwIfAborted();
      if (!db.open) throw closedMeanwhile(order.path);
      if (sync.failure !== undefined) throw sync.failure.error;
      // A paused copy asks again in the next turn of the event loop.
      if (sync.running !== undefined) return 0;
      const done = totalPages - remainingPages;
      if (done !== pages) order.onCopied(done, totalPages);
      pages = done;
      if (done - synced < PAGES_PER_SYNC) return PAGES_AT_ONCE;
      synced = done;
      sync.running = synchronised(partial)
        .catch((error: unknown) => void (sync.failure = { error }))
        .finally(() => (sync.running = undefined));
      return 0;
    },
  });
  await sync.running;
  if (sync.failure !== undefined) throw sync.failure.error;
  pages = statSync(partial).size / Number(from.pragma("page_size", { simple: true }));
  order.onCopied(pages, pages);
  order.signal?.throwIfAborted();
  return pages;
}

async function published(partial: string, path: string, overwrite: boolean): Promise<number> {
  try {
    await synchronised(partial);
    const { size } = statSync(partial);
    refuseExisting(path, overwrite);
    if (overwrite || !linked(partial, path)) renameSync(partial, path);
    else rmSync(partial);
    // A reader that may not write leaves its log.
    removed(partial);
    await synchronised(dirname(path));
    return size;
  } catch (error) {
    throw failureOf(error, path);
  }
}

/**
 * Links instead of renaming, because a link never replaces a file that somebody put there meanwhile.
 * @returns false where there are no links
 */
function linked(from: string, to: string): boolean {
  try {
    linkSync(from, to);
    return true;
  } catch (error) {
    if ((error as { code?: unknown }).code === "EEXIST") throw backupTargetExists(to, to);
    return false;
  }
}

async function synchronised(path: string): Promise<void> {
  const handle = await open(path, "r");
  try {
    await handle.sync();
  } finally {
    await handle.close();
  }
}

function closedMeanwhile(path: string): TurnsError {
  return new TurnsError("STORE_CLOSED", {
    problem: `The saver was closed before its backup to ${path} was complete.`,
    remedy: "Await saver.backup() before saver.close(). Nothing was left at the destination.",
    data: { path },
  });
}

function withoutBackup(path: string): TurnsError {
  return new TurnsError("DRIVER_UNAVAILABLE", {
    problem: "This database object has no method backup.",
    remedy: 'Open the file by its path, TurnSaver.fromPath("agent.db"), and back up from there.',
    data: { path },
  });
}
