import { mkdtempSync, rmSync, statfsSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";

const MEMORY = "/dev/shm";
const ROOM_NEEDED = 4 * 2 ** 30;
const folders: string[] = [];

/**
 * Files of tests are kept in memory where there is room: a disk takes milliseconds for each sync, and most tests commit hundreds of times.
 * `TMPDIR` chooses another place: `TMPDIR=/tmp npm test` runs on a disk.
 */
export function tempPlace(): string {
  if (process.env["TMPDIR"]) return tmpdir();
  try {
    const { bavail, bsize } = statfsSync(MEMORY);
    return bavail * bsize >= ROOM_NEEDED ? MEMORY : tmpdir();
  } catch {
    return tmpdir();
  }
}

/** A path in a fresh folder; the folder goes when the tests of the file have ended, or the process where there are none. */
export function tempFile(name = "agent.db"): string {
  const folder = mkdtempSync(join(tempPlace(), "turns-"));
  folders.push(folder);
  return join(folder, name);
}

function removeAll(): void {
  for (const folder of folders.splice(0)) rmSync(folder, { recursive: true, force: true });
}

// Jest gives tests a `process` of their own, whose "exit" never comes.
if (typeof afterAll === "function") afterAll(removeAll);
else process.on("exit", removeAll);
