import { mkdtempSync, rmSync, statSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import Database from "better-sqlite3";

/** Bytes of the database file with its log. */
export function fileBytes(path: string): number {
  return ["", "-wal"].reduce((sum, suffix) => sum + (statSync(path + suffix, { throwIfNoEntry: false })?.size ?? 0), 0);
}

/** Bytes of the pages in use, those in the log included: grows with each commit, where the files grow in leaps. */
export function usedBytes(path: string): number {
  const db = new Database(path, { readonly: true });
  const pragma = (name: string): number => db.pragma(name, { simple: true }) as number;
  const bytes = (pragma("page_count") - pragma("freelist_count")) * pragma("page_size");
  db.close();
  return bytes;
}

/** Runs with a folder that is gone afterwards, also if the process exits in between: it may hold hundreds of megabytes. */
export async function withFolder<T>(work: (folder: string) => Promise<T>): Promise<T> {
  const folder = mkdtempSync(join(tmpdir(), "turns-bench-"));
  const remove = (): void => rmSync(folder, { recursive: true, force: true });
  process.once("exit", remove);
  try {
    return await work(folder);
  } finally {
    process.off("exit", remove);
    remove();
  }
}
