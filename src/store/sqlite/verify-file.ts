import { firstSeq, THREADS_MAX } from "../spans";
import { KEYED_BY_SEQ, REWINDS, SETTINGS, type Table, THREADS, TURNS } from "../tables";
import { sqliteMigrations } from "./migrations.generated";
import type { Program } from "../program";
import type { Session } from "../session";
import { type Owner, type Phase, type Stretch, stretchesOf, walk } from "../ops/verify-context";
import { wrappedKeys } from "../ops/verify-keys";
import { appliedMigrations } from "../ops/verify-migrations";

const TABLES = "SELECT name FROM sqlite_schema WHERE type = 'table' AND name LIKE 'langgraph\\_%' ESCAPE '\\' ORDER BY name";
const FINDINGS_MAX = 20;
const CHECKS_MAX = 8;
const THREAD_COUNT = `SELECT max(coalesce((SELECT max(thread) FROM langgraph_threads), 0),
    coalesce((SELECT max(thread) FROM langgraph_leftovers), 0)) AS greatest,
  (SELECT CASE typeof(value) WHEN 'integer' THEN value ELSE '' END FROM langgraph_settings WHERE name = 'threads') AS count`;
const INDEXES = `SELECT i.name, coalesce(s.sql, '') AS text FROM pragma_index_list(?) AS i JOIN sqlite_schema AS s ON s.name = i.name
  ORDER BY i.name`;
const COLUMNS = "SELECT name FROM pragma_index_info(?) ORDER BY seqno";

/** SQLite's part of `verify`: the file comes first, because pages that SQLite can't read explain the rest. */
export function* filePhases(session: Session, only: Owner | undefined): Program<Phase[]> {
  const ofFile = only === undefined ? [file(), appliedMigrations(sqliteMigrations), threadCount(), wrappedKeys()] : [];
  return [...ofFile, ...indexes(only, yield* tableIndexes(session))];
}

/**
 * SQLite's own check, table by table with its indexes, because it checks a whole table at once. For the schema's own table it
 * checks the list of free pages too.
 */
function file(): Phase {
  let tables: string[] | undefined;
  return {
    table: "sqlite_schema",
    *next(ctx) {
      tables ??= ["sqlite_schema", ...(yield* ctx.session.all<{ name: string }>(TABLES)).map(({ name }) => name)];
      const table = tables.shift();
      if (table === undefined) return false;
      ctx.table = table;
      for (const finding of (yield* ctx.at().attempted(integrityOf(ctx.session, table))) ?? []) {
        ctx.at().problem("unreadable", "a table that SQLite finds whole", finding);
      }
      return tables.length > 0;
    },
  };
}

/** SQLite's check also reports a page that the disk failed to return once. So every finding has to appear twice. */
function* integrityOf(session: Session, table: string): Program<string[]> {
  let findings = yield* integrityOnce(session, table);
  for (let again = 0; findings.length > 0 && again < CHECKS_MAX; again += 1) {
    const before = findings;
    findings = yield* integrityOnce(session, table);
    if (findings.join("\n") === before.join("\n")) break;
  }
  return findings;
}

/**
 * A pragma takes no parameters; the name comes from the schema. SQLite's messages name tables, rows and pages, never contents.
 */
function* integrityOnce(session: Session, table: string): Program<string[]> {
  const rows = yield* session.all<{ integrity_check: string }>(`PRAGMA integrity_check("${table.replaceAll('"', '""')}")`);
  const findings = rows.map(({ integrity_check: finding }) => finding).filter((finding) => finding !== "ok");
  return findings.slice(0, FINDINGS_MAX);
}

/** How many threads the file has had. A number below that of a thread would be used again. */
function threadCount(): Phase {
  return {
    table: SETTINGS.name,
    *next(ctx) {
      const { greatest = 0, count = null } = (yield* ctx.session.get<{ greatest: number; count: unknown }>(THREAD_COUNT)) ?? {};
      if (Number.isInteger(count) && Number(count) >= greatest && Number(count) <= THREADS_MAX) return false;
      const found = count === null ? "none" : typeof count === "number" ? String(count) : "no number";
      ctx.at().problem("sequence", `how many threads there were, from ${greatest} to ${THREADS_MAX}`, found);
      return false;
    },
  };
}

interface TableIndex {
  table: string;
  name: string;
  columns: readonly string[];
  condition: string;
}

/** The tables with seq as their key that also have an index. */
const KEYED: readonly Table[] = KEYED_BY_SEQ.filter((table) => "byThread" in table);
/** These and others. An index tells which of their rows belong to a thread; the recorded counts tell that none is missing. */
const INDEXED: readonly Table[] = [...KEYED, THREADS, TURNS, REWINDS];

function* tableIndexes(session: Session): Program<TableIndex[]> {
  const found: TableIndex[] = [];
  for (const { name: table } of INDEXED) {
    for (const { name, text } of yield* session.all<{ name: string; text: string }>(INDEXES, table)) {
      const columns = (yield* session.all<{ name: string }>(COLUMNS, name)).map((column) => column.name);
      found.push({ table, name, columns, condition: / WHERE (.*)$/s.exec(text)?.[1] ?? "TRUE" });
    }
  }
  return found;
}

/**
 * Whether every index has exactly the rows of its table: a row that an index lacks is never found. For the whole file, SQLite's
 * own check covers that, except for surplus entries in a partial index.
 */
function indexes(only: Owner | undefined, all: readonly TableIndex[]): Phase[] {
  if (only === undefined) return all.filter(({ condition }) => condition !== "TRUE").map((index) => surplus(index, undefined));
  return [
    ...INDEXED.map((table) => missing(only, table, all)),
    ...all.filter(({ columns }) => columns[0] === "thread").map((index) => surplus(index, only)),
  ];
}

/** Looks up each row by every index. */
function missing(only: Owner, described: Table, all: readonly TableIndex[]): Phase {
  const table = described.name;
  const own = all.filter((index) => index.table === table);
  const lookups = own.map(({ name, columns, condition }) => {
    const same = columns.map((column) => `x."${column}" IS ${table}."${column}"`).join(" AND ");
    return `NOT (${condition}) OR EXISTS (SELECT 1 FROM ${table} AS x INDEXED BY "${name}"
      WHERE ${condition} AND ${same} AND x.rowid = ${table}.rowid) AS "${name}"`;
  });
  const [stretch] = stretchesOf(described, only) as [Stretch];
  return walk<Record<string, number>>({
    table,
    columns: [...stretch.keys.filter((key) => key !== "rowid"), ...lookups].join(", "),
    ...stretch,
    limit: 50,
    // eslint-disable-next-line require-yield -- the walk's own query has the answers
    *check(ctx, row) {
      const at = ctx.at(only.threadId, row["seq"] === undefined ? {} : { seq: row["seq"] });
      for (const { name } of own) if (row[name] === 0) at.problem("unreadable", `a row that ${name} has`, "one that it lacks");
    },
  });
}

/** For one thread, it uses an index that begins with the thread. A row in another thread's range is checked with its table. */
function surplus({ table, name, condition }: TableIndex, only: Owner | undefined): Phase {
  const which = only === undefined ? condition : `seq >= ?1 AND seq < ?2 AND thread = ?3 AND ${condition}`;
  const by = only === undefined || table !== TURNS.name ? "NOT INDEXED" : `INDEXED BY ${TURNS.byThread}`;
  const count = `SELECT (SELECT count(*) FROM ${table} INDEXED BY "${name}" WHERE ${which}) AS listed,
    (SELECT count(*) FROM ${table} ${by} WHERE ${which}) AS stored`;
  const bound = only === undefined ? [] : [firstSeq(only.thread), firstSeq(only.thread + 1), only.thread];
  return {
    table,
    *next(ctx) {
      const { listed = 0, stored = 0 } = (yield* ctx.session.get<{ listed: number; stored: number }>(count, ...bound)) ?? {};
      if (listed !== stored) ctx.at(only?.threadId).problem("unreadable", `${stored} rows in ${name}`, String(listed));
      return false;
    },
  };
}
