import { TurnsError } from "../../errors";
import { type Migration, migrationChecksum } from "../migration";
import type { Answer, Query } from "./batch";
import type { Connection } from "./driver";
import { OWN_PATH, quoted } from "./engine";
import { sqlState } from "./failures";
import { postgresMigrations } from "./migrations.generated";
import { checkSchemaName } from "./schema-name";

const newest = postgresMigrations.at(-1)?.version ?? 0;

/** Where the tables are, for statements and messages. */
interface Place {
  /** For messages. */
  database: string;
  /** Unquoted. */
  schema: string;
  /** Is sent before what is asked outside of a transaction: it limits how long that waits for a lock. */
  limit?: Query | undefined;
}

const BEGIN = { text: "BEGIN ISOLATION LEVEL READ COMMITTED" };
const COMMIT = { text: "COMMIT" };
const ROLLBACK = { text: "ROLLBACK" };
const HAS_SCHEMA = "SELECT 1 FROM pg_catalog.pg_namespace WHERE nspname = $1";
/** It reads pg_class, which makes the server notice what others have created since the transaction began. */
const LOOK = `SELECT (SELECT 1 FROM pg_catalog.pg_class WHERE oid = pg_catalog.to_regclass($1)::oid),
  pg_catalog.current_setting('server_encoding')`;
const TAKEN = `SELECT c.relname::text FROM pg_catalog.pg_class AS c JOIN pg_catalog.pg_namespace AS n ON n.oid = c.relnamespace
  WHERE n.nspname = $1 AND c.relname = ANY ($2::name[])`;
/**
 * For this transaction alone: on a huge table a migration takes longer than a role's limits, and so does waiting for the process that
 * migrates. A process that stops in the middle holds nobody up for more than a minute.
 */
const LIMITS = `SELECT pg_catalog.set_config(name, CASE name WHEN 'idle_in_transaction_session_timeout' THEN '60s' ELSE '0' END, true)
  FROM pg_catalog.pg_settings
  WHERE name IN ('statement_timeout', 'lock_timeout', 'transaction_timeout', 'idle_in_transaction_session_timeout')`;
const LOCK = "SELECT pg_catalog.pg_advisory_xact_lock(pg_catalog.hashtextextended($1, 0::bigint))";

function versionsTable(schema: string): string {
  return `CREATE TABLE IF NOT EXISTS ${quoted(schema)}.langgraph_migrations (
  version bigint PRIMARY KEY, name text NOT NULL, applied_at text NOT NULL, checksum text NOT NULL)`;
}

/**
 * Brings the schema to the newest version, or leaves it unchanged.
 *
 * Everything happens in one transaction, under an advisory lock that ends with it. Of several processes that start at once, one
 * migrates; the others wait, and then find nothing to do.
 *
 * @param migrations others than those of the package only in tests, which look ahead to the next one
 * @throws {TurnsError} SCHEMA_TOO_NEW, SCHEMA_CONFLICT; SCHEMA_OUTDATED if the role may not create tables; and the server's errors
 */
export async function migrate(
  connection: Connection,
  place: Place,
  migrations: readonly Migration[] = postgresMigrations,
): Promise<void> {
  for (let attempt = 1; (await currentVersion(connection, place, migrations)) < versionOf(migrations); attempt += 1) {
    try {
      await migrateOnce(connection, place, migrations);
    } catch (error) {
      if (sqlState(error) === MAY_NOT) throw outdated(place, await currentVersion(connection, place, migrations), error as Error);
      if (attempt > 1 || !hasClashed(error)) throw error;
    }
  }
}

async function migrateOnce(connection: Connection, place: Place, migrations: readonly Migration[]): Promise<void> {
  const lock = { text: LOCK, values: [`langgraph-checkpoint-turns ${place.schema}`] };
  try {
    await askAll(connection, [BEGIN, { text: OWN_PATH }, { text: LIMITS }, lock]);
    const applied = await checkedVersion(connection, { ...place, limit: undefined }, migrations);
    // Asking first, because CREATE SCHEMA IF NOT EXISTS needs the right to create schemas even where it does nothing.
    const hasSchema = (await ask(connection, { text: HAS_SCHEMA, values: [place.schema] })).length > 0;
    const outstanding = migrations.filter(({ version }) => version > applied);
    // In one piece: a server far away answers once instead of fifty times, and others wait that much shorter for the lock.
    await askAll(connection, [
      ...(hasSchema ? [] : [{ text: `CREATE SCHEMA ${quoted(place.schema)}` }]),
      ...(applied === 0 ? [{ text: versionsTable(place.schema) }] : []),
      ...outstanding.flatMap((migration) => [record(place.schema, migration), ...statementsOf(place.schema, migration)]),
      COMMIT,
    ]);
  } catch (error) {
    await connection.send([ROLLBACK]);
    throw error;
  }
}

/**
 * For roles that may not create tables: only looks.
 * @throws {TurnsError} SCHEMA_OUTDATED, SCHEMA_TOO_NEW
 */
export async function checkSchema(connection: Connection, place: Place): Promise<void> {
  const found = await currentVersion(connection, place);
  if (found < newest) throw outdated(place, found);
}

/**
 * The statements that `migrate` would run on an empty database, for people to run them by hand:
 * `psql -v ON_ERROR_STOP=1 -1 -f schema.sql`.
 *
 * @throws {TurnsError} INVALID_OPTION if no saver takes that schema
 */
export function migrationSql(schema: string): string {
  checkSchemaName(schema);
  const parts = postgresMigrations.map((migration) => {
    const { text, values } = record(schema, migration);
    const literals = values.map((value) => `'${value.replaceAll("'", "''")}'`);
    return `${text.replace(/\$1,[^)]*\)$/, () => `${literals.join(", ")})`)};\n\n${sqlIn(schema, migration)}`;
  });
  return `CREATE SCHEMA IF NOT EXISTS ${quoted(schema)};\n${versionsTable(schema)};\n${parts.join("\n")}`;
}

function record(schema: string, migration: Migration): { text: string; values: string[] } {
  const at = new Date().toISOString();
  return {
    text: `INSERT INTO ${quoted(schema)}.langgraph_migrations (version, name, applied_at, checksum) VALUES ($1, $2, $3, $4)`,
    values: [String(migration.version), migration.name, at, migrationChecksum(migration, at)],
  };
}

function sqlIn(schema: string, { sql }: Pick<Migration, "sql">): string {
  // What quotes a DO block mustn't stand in the schema's name.
  let tag = "$$";
  for (let number = 1; schema.includes(tag); number += 1) tag = `$turns${number}$`;
  return sql.replaceAll("$$", () => tag).replaceAll(':"schema"', () => quoted(schema));
}

/** The driver takes statements apart from each other. Each ends a line; those of a DO block are part of it. */
function statementsOf(schema: string, migration: Migration): Query[] {
  const code = migration.sql.replace(/^--.*$/gm, "");
  // Taken apart first: a schema's name may look like the end of a statement.
  return [...code.matchAll(/(?:\$\$[^]*?\$\$|[^$;])+;$/gm)].map(([sql]) => ({ text: sqlIn(schema, { sql: sql.trim() }) }));
}

function versionOf(migrations: readonly Migration[]): number {
  return migrations.at(-1)?.version ?? 0;
}

/** The version of the schema; 0 if there is none. @throws {TurnsError} SCHEMA_TOO_NEW, UNSUPPORTED */
async function currentVersion(
  connection: Connection,
  place: Place,
  migrations: readonly Migration[] = postgresMigrations,
): Promise<number> {
  const table = `${quoted(place.schema)}.langgraph_migrations`;
  const [[hasTable, encoding] = []] = await ask(connection, { text: LOOK, values: [table] });
  if (encoding !== "UTF8") throw notUnicode(place, String(encoding));
  if (hasTable !== 1) return 0;
  const look = { text: `SELECT coalesce(pg_catalog.max(version), 0) FROM ${table}` };
  const answer = (await connection.send(place.limit === undefined ? [look] : [place.limit, look])).at(-1) as Answer;
  if ("error" in answer) throw answer.error as Error;
  const [row] = answer.rows;
  const found = row?.[0] as number;
  if (found > versionOf(migrations)) throw tooNew(place, found);
  return found;
}

/** {@link currentVersion}, if no name that the outstanding migrations need is taken. @throws {TurnsError} SCHEMA_CONFLICT */
async function checkedVersion(connection: Connection, place: Place, migrations: readonly Migration[]): Promise<number> {
  const applied = await currentVersion(connection, place, migrations);
  const names = migrations
    .filter(({ version }) => version > applied)
    .flatMap(({ sql }) => [...sql.matchAll(/^CREATE (?:UNIQUE )?(?:TABLE|INDEX|SEQUENCE) (?::"schema"\.)?(\w+)/gm)])
    .map(([, name]) => name as string);
  const taken = new Set((await ask(connection, { text: TAKEN, values: [place.schema, `{${names.join(",")}}`] })).flat());
  const first = names.find((name) => taken.has(name));
  if (first !== undefined)
    throw applied === 0 && names.every((name) => taken.has(name)) ? unrecorded(place) : conflict(place, first);
  return applied;
}

/** @throws the server's error */
async function ask(connection: Connection, query: Query): Promise<readonly unknown[][]> {
  const [answer] = await connection.send([query]);
  if (answer === undefined || "error" in answer) throw answer?.error as Error;
  return answer.rows;
}

/** All in one piece, for which the server may take as long as it wants. @throws the server's first error; what is behind it was left out */
async function askAll(connection: Connection, queries: readonly Query[]): Promise<void> {
  for (const answer of await connection.send(queries, true)) if ("error" in answer) throw answer.error as Error;
}

/** Somebody who doesn't take the lock has created the same at the same moment. The next attempt finds it. */
const CLASHES = /^(23505|42P06|42P07|42710)$/;

/** insufficient_privilege */
const MAY_NOT = "42501";

function hasClashed(error: unknown): boolean {
  return CLASHES.test(sqlState(error));
}

function conflict({ database, schema }: Place, table: string): TurnsError {
  return new TurnsError("SCHEMA_CONFLICT", {
    problem: `Schema ${quoted(schema)} of database ${database} has a table, index or sequence named ${table} that this package didn't create.`,
    remedy: "Give another schema with the option `schema`, or rename it. Nothing was changed.",
    data: { database, schema, table },
  });
}

function unrecorded({ database, schema }: Place): TurnsError {
  return new TurnsError("SCHEMA_CONFLICT", {
    problem: `Schema ${quoted(schema)} of database ${database} has the tables of this package, but langgraph_migrations, which says so, is missing or empty.`,
    remedy: `Bring that table back from a backup, or run its CREATE TABLE and INSERT from the text of migrationSql(${JSON.stringify(schema)}). Nothing was changed.`,
    data: { database, schema, table: "langgraph_migrations" },
  });
}

function notUnicode({ database }: Place, encoding: string): TurnsError {
  return new TurnsError("UNSUPPORTED", {
    problem: `Database ${database} has the encoding ${encoding}, which can't hold every text. This package needs UTF8.`,
    remedy: "Create another database: CREATE DATABASE name ENCODING 'UTF8' TEMPLATE template0. Nothing was changed.",
    data: { database, encoding },
  });
}

function tooNew({ database, schema }: Place, found: number): TurnsError {
  return new TurnsError("SCHEMA_TOO_NEW", {
    problem: `Schema ${quoted(schema)} of database ${database} has version ${found}, and this version of the package knows versions up to ${newest}.`,
    remedy: "Update langgraph-checkpoint-turns to the version that migrated it, or newer. Nothing was changed.",
    data: { database, schema, found, newest },
  });
}

/** @param refusal the server's error, if the saver has tried to migrate */
function outdated({ database, schema }: Place, found: number, refusal?: Error): TurnsError {
  const state =
    found === 0 ? "doesn't have the tables of this package" : `has version ${found} of the tables, and ${newest} is needed`;
  const reason =
    refusal === undefined ? "the saver was told not to migrate" : `the role may not create them (${refusal.message})`;
  const flag = schema === "turns" ? "" : ` --schema '${schema.replaceAll("'", String.raw`'\''`)}'`;
  return new TurnsError("SCHEMA_OUTDATED", {
    problem: `Schema ${quoted(schema)} of database ${database} ${state}, and ${reason}.`,
    remedy: `With a role that may create tables, run: npx turns migrate --db URL${flag} --yes. Or print the SQL with --print-sql in place of --yes, or with migrationSql(), and run it with psql.`,
    data: { database, schema, found, newest },
    ...(refusal === undefined ? {} : { cause: refusal }),
  });
}
