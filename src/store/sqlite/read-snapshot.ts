import type { SqliteDatabase } from "./driver";
import { openBeside } from "./open-database";

/**
 * A connection that sees the database as it is now until it is closed. Writers, here and elsewhere, neither wait for it nor make it start
 * again; the write-ahead log grows meanwhile. A database in memory can only be read by its own connection, which is returned then.
 *
 * @throws untranslated, what the driver throws
 */
export function snapshotOf(db: SqliteDatabase): SqliteDatabase {
  if (db.memory) return db;
  const reader = openBeside(db, mainFileOf(db));
  try {
    reader.exec("BEGIN");
    reader.prepare("SELECT count(*) FROM sqlite_schema").get();
    return reader;
  } catch (error) {
    reader.close();
    throw error;
  }
}

export function mainFileOf(db: SqliteDatabase): string {
  const [main] = db.pragma("database_list") as { file: string | null }[];
  return main?.file ?? "";
}
