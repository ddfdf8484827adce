import type Database from "better-sqlite3";
import { CheckpointPersister } from "../../src/index";
import { PostgresCheckpointPersister } from "../../src/postgres/index";
import { ON_POSTGRES, schemaAt } from "./open-saver";

/** On SQLite its methods answer at once. */
export type Persister = CheckpointPersister | PostgresCheckpointPersister;

const opened: PostgresCheckpointPersister[] = [];

/** A persister on the store at a path: on a handle of that file, or on PostgreSQL on its schema, over connections of its own. */
export function openPersister(path: string, db: Database.Database | undefined): Persister {
  if (!ON_POSTGRES) return new CheckpointPersister(db as Database.Database);
  const options = { schema: schemaAt(path), busyTimeoutMs: 1_000 };
  const persister = PostgresCheckpointPersister.fromConnString(process.env["TURNS_PG_URL"] ?? "", options);
  opened.push(persister);
  return persister;
}

// A test on SQLite may load this, where no hook can be added.
if (ON_POSTGRES && typeof afterEach === "function")
  afterEach(async () => {
    for (const persister of opened.splice(0)) await persister.close();
  });
