import type { Owner, Phase, VerifyContext } from "../ops/verify-context";
import { wrappedKeys } from "../ops/verify-keys";
import { appliedMigrations } from "../ops/verify-migrations";
import type { Program, Statement } from "../program";
import type { Session } from "../session";
import { ALL_TABLES } from "../tables";
import { postgresMigrations } from "./migrations.generated";

interface Index {
  readonly table: string;
  readonly name: string;
  readonly unique: boolean;
  /** SQL. */
  readonly columns: string;
  /** SQL: which rows are in it. */
  readonly where: string;
}

const MADE = /CREATE (UNIQUE )?INDEX (\w+) ON :"schema"\.(\w+) \(([^)]*)\)(?: WHERE ([^;]*))?;/g;
const VALID = `SELECT i.relname AS name, x.indisvalid AND x.indisready AND x.indislive AS valid, x.indisunique AS own
  FROM pg_catalog.pg_index AS x JOIN pg_catalog.pg_class AS i ON i.oid = x.indexrelid
  JOIN pg_catalog.pg_namespace AS n ON n.oid = i.relnamespace WHERE n.nspname = ?`;
const UNCHECKED = `SELECT c.conname AS name, t.relname AS on_table FROM pg_catalog.pg_constraint AS c
  JOIN pg_catalog.pg_class AS t ON t.oid = c.conrelid JOIN pg_catalog.pg_namespace AS n ON n.oid = t.relnamespace
  WHERE n.nspname = ? AND starts_with(t.relname::text, 'langgraph_') AND NOT c.convalidated`;
/** A role that may not use a sequence can't see where it is. Only turns without a thread are ordered by their row ids alone. */
const NUMBERS = `SELECT n.name, n.greatest, (SELECT CASE WHEN pg_catalog.has_sequence_privilege(c.oid, 'USAGE, SELECT')
      THEN coalesce(pg_catalog.pg_sequence_last_value(c.oid), 0::bigint) ELSE n.greatest END FROM pg_catalog.pg_class AS c
    JOIN pg_catalog.pg_namespace AS s ON s.oid = c.relnamespace WHERE s.nspname = ? AND c.relname = n.name AND c.relkind = 'S') AS given
  FROM (SELECT 'langgraph_thread_numbers' AS name, max(thread) AS greatest FROM langgraph_threads
    UNION ALL SELECT 'langgraph_checkpoints_rowid_seq', max(rowid) FROM langgraph_checkpoints WHERE thread IS NULL) AS n`;
/** The planner's settings for one transaction. */
const PLANNER = `SELECT pg_catalog.set_config('enable_seqscan', ?1, true), pg_catalog.set_config('enable_bitmapscan', ?1, true), pg_catalog.set_config('enable_sort', ?1, true),
  pg_catalog.set_config('enable_indexscan', ?2, true), pg_catalog.set_config('enable_indexonlyscan', ?2, true)`;

/**
 * What a server can say of its tables in SQL: that all indexes are there, valid, and have as many rows as their tables, that unique
 * keys are unique in the tables themselves, that constraints hold, and that sequences aren't behind their rows.
 *
 * @param schema unquoted
 */
export function schemaPhases(schema: string): (session: Session, only: Owner | undefined) => Program<Phase[]> {
  // eslint-disable-next-line require-yield -- there is nothing to ask yet
  return function* (_, only) {
    if (only !== undefined) return [];
    const indexes = allIndexes();
    return [catalog(schema, [...indexes, MARKS]), appliedMigrations(postgresMigrations), wrappedKeys(), ...indexes.map(counted)];
  };
}

/** Of the marks of transactions, which aren't rows of a store. */
const MARKS: Index = {
  table: "langgraph_commits",
  name: "langgraph_commits_pkey",
  unique: true,
  columns: "number",
  where: "true",
};

/** Those of the migrations, and the primary keys. */
function allIndexes(): Index[] {
  const made = postgresMigrations.flatMap(({ sql }) =>
    [...sql.matchAll(MADE)].map(([, unique, name = "", table = "", columns = "", where = "true"]) => ({
      ...{ table, name, unique: unique !== undefined, columns, where },
    })),
  );
  const keys = ALL_TABLES.map(({ name: table, key }) => ({
    ...{ table, name: `${table}_pkey`, unique: true, columns: key.join(", "), where: "true" },
  }));
  return [...keys, ...made];
}

function catalog(schema: string, indexes: readonly Index[]): Phase {
  return {
    table: "pg_index",
    *next(ctx) {
      const rows = yield* ctx.session.all<{ name: string; valid: number; own: number }>(VALID, schema);
      const found = new Map(rows.map((row) => [row.name, row]));
      for (const { name, table, unique } of indexes) {
        const row = found.get(name);
        if (row?.valid === 1 && (row.own === 1 || !unique)) continue;
        const what = row === undefined ? "none" : row.valid === 1 ? "one that isn't unique" : "one that the server doesn't use";
        problem(ctx, `index ${name} on ${table}`, what);
      }
      for (const { name, on_table: table } of yield* ctx.session.all<{ name: string; on_table: string }>(UNCHECKED, schema))
        problem(ctx, `constraint ${name} on ${table}, checked for all rows`, "one that wasn't checked");
      const numbers = yield* ctx.session.all<{ name: string; given: number | null; greatest: number | null }>(NUMBERS, schema);
      for (const { name, given, greatest } of numbers)
        if (greatest !== null && (given ?? 0) < greatest)
          ctx.at().problem("sequence", `sequence ${name} at ${greatest} at least`, String(given));
      return false;
    },
  };
}

/** Counts the rows of a table and of one of its indexes, and looks for keys that are there twice. It reads all of both at once. */
function counted({ table, name, unique, columns, where }: Index): Phase {
  const rows = `SELECT count(*) AS n FROM ${table} WHERE ${where}`;
  const listed = `SELECT count(*) AS n FROM (SELECT ${columns} FROM ${table} WHERE ${where} ORDER BY ${columns} OFFSET 0) AS listed`;
  const twice = `SELECT count(*) AS n FROM (SELECT 1 FROM ${table} WHERE ${where} GROUP BY ${columns} HAVING count(*) > 1) AS twice`;
  return {
    table,
    *next(ctx) {
      const planner = (scans: string, indexScans: string) => asked(PLANNER, scans, indexScans);
      const [, there] = (yield* ctx.session.together([planner("on", "off"), counting(rows)])).map(countOf);
      const [repeated = 0] = unique ? (yield* ctx.session.together([counting(twice)])).map(countOf) : [];
      const [, inIndex] = (yield* ctx.session.together([planner("off", "on"), counting(listed), planner("on", "on")])).map(
        countOf,
      );
      if (inIndex !== there) problem(ctx, `${there} rows of ${table} in index ${name}`, String(inIndex));
      if (repeated > 0) problem(ctx, `each key of ${name} once`, `${repeated} keys of several rows`);
      return false;
    },
  };
}

function asked(text: string, ...values: string[]): Statement {
  return { text, values, returns: "one" };
}

/** However long it takes: a table may have many millions of rows. */
function counting(text: string): Statement {
  return { ...asked(text), isPatient: true };
}

function countOf(row: unknown): number {
  return (row as { n: number } | undefined)?.n ?? 0;
}

function problem(ctx: VerifyContext, expected: string, found: string): void {
  ctx.at().problem("unreadable", expected, found);
}
