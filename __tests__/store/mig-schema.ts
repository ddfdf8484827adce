import Database from "better-sqlite3";

/** The schema of a file as SQLite keeps it, one statement after the other, in a stable order. */
export function schemaOf(path: string): string {
  const db = new Database(path, { readonly: true });
  try {
    const statements = db
      .prepare(
        "SELECT sql FROM sqlite_schema WHERE sql IS NOT NULL ORDER BY CASE type WHEN 'table' THEN 1 ELSE 2 END, tbl_name, name",
      )
      .pluck()
      .all() as string[];
    return statements.map((statement) => `${statement};\n`).join("\n");
  } finally {
    db.close();
  }
}
