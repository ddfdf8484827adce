import type { Phase } from "./verify-walk";

const TABLES = "SELECT name FROM sqlite_schema WHERE type = 'table' AND name LIKE 'langgraph\\_%' ESCAPE '\\' ORDER BY name";
const FINDINGS_MAX = 20;

/**
 * SQLite's own check, table by table with its indexes, since it looks at a whole table at once. For the schema's own table it looks
 * at the list of free pages too.
 */
export function file(): Phase {
  let tables: string[] | undefined;
  return {
    table: "sqlite_schema",
    next(ctx) {
      tables ??= ["sqlite_schema", ...ctx.sql.all<{ name: string }>(TABLES).map(({ name }) => name)];
      const table = tables.shift();
      if (table === undefined) return false;
      ctx.table = table;
      for (const finding of ctx.attempt(undefined, {}, () => integrityOf(ctx.sql.db, table)) ?? []) {
        ctx.problem("unreadable", undefined, {}, "a table that SQLite finds whole", finding);
      }
      return tables.length > 0;
    },
  };
}

/** A pragma takes no parameters; the name comes from the schema. What SQLite says names tables, rows and pages, never contents. */
function integrityOf(db: { pragma(text: string): unknown }, table: string): string[] {
  const rows = db.pragma(`integrity_check("${table.replaceAll('"', '""')}")`) as { integrity_check: string }[];
  return rows
    .map(({ integrity_check: finding }) => finding)
    .filter((finding) => finding !== "ok")
    .slice(0, FINDINGS_MAX);
}
