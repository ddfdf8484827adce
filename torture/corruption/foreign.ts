import { readFileSync, rmSync, truncateSync, writeFileSync } from "node:fs";
import Database from "better-sqlite3";
import { TurnsError, TurnSaver } from "../../src/index";
import { salvage } from "../../src/maintenance/index";
import type { Ground, Tally } from "./sweep";
import { quiet } from "./world";

/** Files of other programs or newer versions, with the codes that opening and salvaging them are refused with. */
const FILES: Record<string, { make: (ground: Ground, path: string) => void; opened: string; salvaged: string }> = {
  "a text": {
    make: (_, path) => writeFileSync(path, "Dear diary, this is no database.\n".repeat(400)),
    opened: "NOT_A_DATABASE",
    salvaged: "NOT_A_DATABASE",
  },
  noise: {
    make: ({ random }, path) => writeFileSync(path, Buffer.from(Array.from({ length: 40_000 }, () => random(256)))),
    opened: "NOT_A_DATABASE",
    salvaged: "NOT_A_DATABASE",
  },
  "a database with a table of our name": {
    make: (_, path) =>
      withDatabase(path, "CREATE TABLE langgraph_checkpoints (mine TEXT); INSERT INTO langgraph_checkpoints VALUES ('kept')"),
    opened: "SCHEMA_CONFLICT",
    salvaged: "SCHEMA_CONFLICT",
  },
  "a file of a newer version": {
    make: ({ folder, path: own }, path) => {
      const copy = folder.copy(own);
      withDatabase(copy, "INSERT INTO langgraph_migrations VALUES (999, 'later', '2040-01-01T00:00:00.000Z', '')");
      writeFileSync(path, readFileSync(copy));
      folder.forget(copy);
    },
    opened: "SCHEMA_TOO_NEW",
    salvaged: "SCHEMA_TOO_NEW",
  },
  "the first page alone": {
    make: ({ path: own }, path) => {
      writeFileSync(path, readFileSync(own));
      truncateSync(path, 4096);
    },
    opened: "CHECKPOINT_CORRUPTED",
    salvaged: "",
  },
};

/** A refused file isn't changed, and the error's code says why. */
export async function foreignFiles(ground: Ground, tally: Tally): Promise<void> {
  for (const [name, { make, opened, salvaged }] of Object.entries(FILES)) {
    const path = ground.folder.file();
    make(ground, path);
    const before = readFileSync(path);
    tally.damaged += 1;
    tally.calls += 2;
    const code = await codeOf(() => void TurnSaver.fromPath(path, { logger: quiet, ...ground.options }).close());
    if (code === opened) tally.refused += 1;
    else tally.wrong.push(`${name}: opened with ${code || "no error"}`);
    rmSync(`${path}-wal`, { force: true });
    rmSync(`${path}-shm`, { force: true });
    const target = ground.folder.file();
    const rescue = await codeOf(() => salvage(path, target, ground.options));
    // The keys of an encrypted file are after its first page.
    const expected = salvaged === "" && ground.plan.kind === "encrypted" ? "UNKNOWN_KEY" : salvaged;
    if (rescue === expected) tally.refused += expected === "" ? 0 : 1;
    else tally.wrong.push(`${name}: salvaged with ${rescue || "no error"}`);
    if (!readFileSync(path).equals(before)) tally.wrong.push(`${name}: it was changed`);
    ground.folder.forget(path);
    ground.folder.forget(target);
  }
}

function withDatabase(path: string, statements: string): void {
  const db = new Database(path);
  db.exec(statements);
  db.close();
}

async function codeOf(work: () => unknown): Promise<string> {
  try {
    await work();
    return "";
  } catch (error) {
    return TurnsError.is(error) ? error.code : String(error);
  }
}
