import { TurnsError } from "../../errors";
import { type Migration, migrationChecksum } from "../migration";
import type { SqliteDatabase } from "./driver";
import { sqliteCode } from "./failures";
import { sqliteMigrations } from "./migrations.generated";

export const newest = sqliteMigrations.at(-1)?.version ?? 0;
const VERSIONS = `CREATE TABLE IF NOT EXISTS langgraph_migrations (
  version INTEGER PRIMARY KEY, name TEXT NOT NULL, applied_at TEXT NOT NULL, checksum TEXT NOT NULL) STRICT`;
/** Without quotes, a missing column is an error. SQLite takes an unknown name in double quotes for a string. */
const NEWEST =
  "SELECT m.version, m.name, m.applied_at, m.checksum FROM langgraph_migrations AS m ORDER BY m.version DESC LIMIT 1";
const RECORD = "INSERT INTO langgraph_migrations (version, name, applied_at, checksum) VALUES (?, ?, ?, ?)";

/**
 * Brings the schema of an open database to the newest version, or leaves it unchanged.
 *
 * One IMMEDIATE transaction writes each version row before running its statements. A second process that opens the same new file
 * waits for the lock, then finds the rows and has nothing to do. A crash in the middle leaves the old schema.
 *
 * @param migrations others than those of the package only in tests, which look ahead to the next one
 */
export function migrate(db: SqliteDatabase, migrations: readonly Migration[] = sqliteMigrations): void {
  if (checkSchema(db, migrations) === versionOf(migrations) || db.readonly) return;
  db.transaction(() => {
    const applied = checkSchema(db, migrations);
    db.exec(VERSIONS);
    const record = db.prepare(RECORD);
    for (const migration of migrations) {
      if (migration.version <= applied) continue;
      const at = new Date().toISOString();
      record.run(migration.version, migration.name, at, migrationChecksum(migration, at));
      db.exec(migration.sql);
    }
  }).immediate();
}

function versionOf(migrations: readonly Migration[]): number {
  return migrations.at(-1)?.version ?? 0;
}

/** Whether the schema surely is the newest: one query, where {@link checkSchema} needs several. */
export function isNewest(db: SqliteDatabase): boolean {
  try {
    const row = db.prepare(NEWEST).get() as { version: unknown } | undefined;
    return row?.version === newest;
  } catch (error) {
    // The table doesn't exist, or isn't ours.
    if (sqliteCode(error) !== "SQLITE_ERROR") throw error;
    return false;
  }
}

/**
 * The version of the file's schema. Only reads, so that a file can be refused before anything in it has changed.
 *
 * @throws {TurnsError} SCHEMA_TOO_NEW, SCHEMA_CONFLICT if a name that the outstanding migrations need is taken
 */
export function checkSchema(db: SqliteDatabase, migrations: readonly Migration[] = sqliteMigrations): number {
  // In a transaction, because another process may migrate between two reads.
  return db.transaction(() => look(db, migrations))() as number;
}

function look(db: SqliteDatabase, migrations: readonly Migration[]): number {
  const applied = currentVersion(db);
  if (applied > versionOf(migrations)) throw tooNew(db.name, applied);
  const own = new Set(migrations.filter(({ version }) => version <= applied).flatMap(({ sql }) => namesIn(sql)));
  const taken = db.prepare("SELECT 1 FROM sqlite_schema WHERE name = ? COLLATE NOCASE");
  for (const { version, sql } of migrations) {
    if (version <= applied) continue;
    for (const name of namesIn(sql)) if (!own.has(name) && taken.get(name) !== undefined) throw conflict(db.name, name);
  }
  return applied;
}

function namesIn(sql: string): string[] {
  return [...sql.matchAll(/^CREATE (?:UNIQUE )?(?:TABLE|INDEX|VIEW|TRIGGER) (\w+)/gm)].map(([, name]) => name as string);
}

function currentVersion(db: SqliteDatabase): number {
  const columns = db.prepare("SELECT name FROM pragma_table_info('langgraph_migrations') ORDER BY cid").all() as {
    name: string;
  }[];
  if (columns.length === 0) return 0;
  if (columns.map(({ name }) => name).join() !== "version,name,applied_at,checksum")
    throw conflict(db.name, "langgraph_migrations");
  const row = db.prepare("SELECT coalesce(max(version), 0) AS version FROM langgraph_migrations").get() as { version: number };
  return row.version;
}

function conflict(file: string, name: string): TurnsError {
  return new TurnsError("SCHEMA_CONFLICT", {
    problem: `Database ${file} has a table, view or index named ${name} that this package didn't create.`,
    remedy: "Use another file, or rename it. Nothing was changed.",
    data: { file, table: name },
  });
}

export function tooNew(file: string, found: number): TurnsError {
  return new TurnsError("SCHEMA_TOO_NEW", {
    problem: `Database ${file} has schema version ${found}, and this version of the package knows versions up to ${newest}.`,
    remedy: "Update langgraph-checkpoint-turns to the version that wrote this file, or newer. Nothing was changed.",
    data: { file, found, newest },
  });
}
