import { type Migration, migrationChecksum } from "./migrate";
import { sqliteMigrations } from "./migrations.generated";
import type { Program } from "../program";
import type { Sql } from "../session";
import type { Phase } from "./verify-walk";

const TABLES = "SELECT name FROM sqlite_schema WHERE type = 'table' AND name LIKE 'langgraph\\_%' ESCAPE '\\' ORDER BY name";
const VERSIONS = "SELECT version, name, applied_at, checksum FROM langgraph_migrations ORDER BY version";
const FINDINGS_MAX = 20;
const CHECKS_MAX = 8;

interface Applied {
  version: number;
  name: string;
  applied_at: string;
  checksum: string;
}

/**
 * SQLite's own check, table by table with its indexes, since it looks at a whole table at once. For the schema's own table it looks
 * at the list of free pages too.
 */
export function file(): Phase {
  let tables: string[] | undefined;
  return {
    table: "sqlite_schema",
    *next(ctx) {
      tables ??= ["sqlite_schema", ...(yield* ctx.sql.all<{ name: string }>(TABLES)).map(({ name }) => name)];
      const table = tables.shift();
      if (table === undefined) return false;
      ctx.table = table;
      for (const finding of (yield* ctx.attempted(undefined, {}, integrityOf(ctx.sql, table))) ?? []) {
        ctx.problem("unreadable", undefined, {}, "a table that SQLite finds whole", finding);
      }
      return tables.length > 0;
    },
  };
}

/** Migrations are known by number and name, and by what they did: one that was edited after it was applied left another schema. */
export function versions(): Phase {
  return {
    table: "langgraph_migrations",
    *next(ctx) {
      const rows = yield* ctx.sql.all<Applied>(VERSIONS);
      const isKnown = rows.every((row, at) => isOurs(row, sqliteMigrations[at]));
      const expected = `the migrations 1 to ${sqliteMigrations.length} as this package has them`;
      if (!isKnown || rows.length !== sqliteMigrations.length) ctx.problem("format", undefined, {}, expected, "others");
      return false;
    },
  };
}

function isOurs(row: Applied, migration: Migration | undefined): boolean {
  return (
    row.version === migration?.version &&
    row.name === migration.name &&
    row.checksum === migrationChecksum(migration, row.applied_at)
  );
}

/** A page that the disk does not give in one moment is damage too, to SQLite's check; so what it finds has to be found twice. */
function* integrityOf(sql: Sql, table: string): Program<string[]> {
  let findings = yield* integrityOnce(sql, table);
  for (let again = 0; findings.length > 0 && again < CHECKS_MAX; again += 1) {
    const before = findings;
    findings = yield* integrityOnce(sql, table);
    if (findings.join("\n") === before.join("\n")) break;
  }
  return findings;
}

/** A pragma takes no parameters; the name comes from the schema. What SQLite says names tables, rows and pages, never contents. */
function* integrityOnce(sql: Sql, table: string): Program<string[]> {
  const rows = yield* sql.all<{ integrity_check: string }>(`PRAGMA integrity_check("${table.replaceAll('"', '""')}")`);
  return rows
    .map(({ integrity_check: finding }) => finding)
    .filter((finding) => finding !== "ok")
    .slice(0, FINDINGS_MAX);
}
