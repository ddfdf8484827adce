import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";

const folders: string[] = [];

/** A path in a fresh folder; the folder goes when the tests of the file have ended, or the process where there are none. */
export function tempFile(name = "agent.db"): string {
  const folder = mkdtempSync(join(tmpdir(), "turns-"));
  folders.push(folder);
  return join(folder, name);
}

function removeAll(): void {
  for (const folder of folders.splice(0)) rmSync(folder, { recursive: true, force: true });
}

// Jest gives tests a `process` of their own, whose "exit" never comes.
if (typeof afterAll === "function") afterAll(removeAll);
else process.on("exit", removeAll);
