import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";

const folders: string[] = [];

/** A path in a fresh folder; the folder goes when the process of the tests ends. */
export function tempFile(name = "agent.db"): string {
  const folder = mkdtempSync(join(tmpdir(), "turns-"));
  folders.push(folder);
  return join(folder, name);
}

process.on("exit", () => {
  for (const folder of folders) rmSync(folder, { recursive: true, force: true });
});
