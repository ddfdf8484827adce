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
  if (checkSchema(db) === newest || db.readonly) return;
  db.transaction(() => {
    const applied = checkSchema(db);
    db.exec(
      "CREATE TABLE IF NOT EXISTS langgraph_migrations (version INTEGER PRIMARY KEY, name TEXT NOT NULL, applied_at TEXT NOT NULL) STRICT",
    );
    const record = db.prepare("INSERT INTO langgraph_migrations (version, name, applied_at) VALUES (?, ?, ?)");
    for (const migration of sqliteMigrations) {
      if (migration.version <= applied) continue;
      record.run(migration.version, migration.name, new Date().toISOString());
      db.exec(migration.sql);
    }
  }).immediate();
}

/**
 * The version of the file's schema. Only looks, so that a file can be refused before anything about it has changed.
 *
 * @throws {TurnsError} SCHEMA_TOO_NEW, SCHEMA_CONFLICT if a name that the outstanding migrations need is taken
 */
export function checkSchema(db: SqliteDatabase): number {
  // In a transaction, because another process may be migrating between two looks.
  return db.transaction(() => look(db))() as number;
}

function look(db: SqliteDatabase): number {
  const applied = currentVersion(db);
  if (applied > newest) throw tooNew(db.name, applied);
  const own = new Set(sqliteMigrations.filter(({ version }) => version <= applied).flatMap(({ sql }) => namesIn(sql)));
  const taken = db.prepare("SELECT 1 FROM sqlite_schema WHERE name = ? COLLATE NOCASE");
  for (const { version, sql } of sqliteMigrations) {
    if (version <= applied) continue;
    for (const name of namesIn(sql)) if (!own.has(name) && taken.get(name) !== undefined) throw conflict(db.name, name);
  }
  return applied;
}

/** What a migration creates, by name. */
function namesIn(sql: string): string[] {
  return [...sql.matchAll(/^CREATE (?:UNIQUE )?(?:TABLE|INDEX|VIEW|TRIGGER) (\w+)/gm)].map(([, name]) => name as string);
}

function currentVersion(db: SqliteDatabase): number {
  const columns = db.prepare("SELECT name FROM pragma_table_info('langgraph_migrations') ORDER BY cid").all() as {
    name: string;
  }[];
  if (columns.length === 0) return 0;
  if (columns.map(({ name }) => name).join() !== "version,name,applied_at") throw conflict(db.name, "langgraph_migrations");
  const row = db.prepare("SELECT coalesce(max(version), 0) AS version FROM langgraph_migrations").get() as { version: number };
  return row.version;
}

function conflict(file: string, name: string): TurnsError {
  return new TurnsError("SCHEMA_CONFLICT", {
    what: `database ${file}`,
    expected: `nothing named ${name} but what this package's migrations created`,
    found: "a table, view or index of that name from elsewhere",
    remedy: "Use another file, or rename it. Nothing was changed.",
    data: { file, table: name },
  });
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
