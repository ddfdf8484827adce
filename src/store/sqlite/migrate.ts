import { TurnsError } from "../../errors";
import type { SqliteDatabase } from "./driver";
import { sqliteMigrations } from "./migrations.generated";

const newest = sqliteMigrations.at(-1)?.version ?? 0;

/**
 * Brings the schema of an open database to the newest version, or leaves it as it is.
 *
 * One IMMEDIATE transaction, and in it each version row before its statements: a second process that opens the same new file waits
 * for the lock, then finds the rows and has nothing to do. A crash in the middle leaves the old schema.
 */
export function migrate(db: SqliteDatabase): void {
  const found = currentVersion(db);
  if (found > newest) throw tooNew(db.name, found);
  if (found === newest || db.readonly) return;
  db.transaction(() => {
    db.exec(
      "CREATE TABLE IF NOT EXISTS langgraph_migrations (version INTEGER PRIMARY KEY, name TEXT NOT NULL, applied_at TEXT NOT NULL) STRICT",
    );
    const applied = currentVersion(db);
    if (applied > newest) throw tooNew(db.name, applied);
    const record = db.prepare("INSERT INTO langgraph_migrations (version, name, applied_at) VALUES (?, ?, ?)");
    for (const migration of sqliteMigrations) {
      if (migration.version <= applied) continue;
      record.run(migration.version, migration.name, new Date().toISOString());
      refuseForeignTables(db, migration.sql);
      db.exec(migration.sql);
    }
  }).immediate();
}

function currentVersion(db: SqliteDatabase): number {
  const table = db.prepare("SELECT 1 FROM sqlite_schema WHERE type = 'table' AND name = 'langgraph_migrations'").get();
  if (table === undefined) return 0;
  const row = db.prepare("SELECT coalesce(max(version), 0) AS version FROM langgraph_migrations").get() as { version: number };
  return row.version;
}

function refuseForeignTables(db: SqliteDatabase, sql: string): void {
  const taken = db.prepare("SELECT 1 FROM sqlite_schema WHERE name = ?");
  for (const [, name] of sql.matchAll(/^CREATE TABLE (\w+)/gm)) {
    if (taken.get(name) === undefined) continue;
    throw new TurnsError("SCHEMA_CONFLICT", {
      what: `database ${db.name}`,
      expected: `no table named ${name}, or one that this package's migrations created`,
      found: "a table of that name from elsewhere",
      remedy: "Use another file, or rename that table. Nothing was changed.",
      data: { file: db.name, table: name },
    });
  }
}

function tooNew(file: string, found: number): TurnsError {
  return new TurnsError("SCHEMA_TOO_NEW", {
    what: `database ${file}`,
    expected: `schema version ${newest} or older`,
    found: `schema version ${found}`,
    remedy: "Update langgraph-checkpoint-turns to the version that wrote this file, or newer. Nothing was changed.",
    data: { file, found, newest },
  });
}
