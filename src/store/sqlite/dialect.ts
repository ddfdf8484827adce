import { type Dialect, undecoded } from "../dialect";
import { THREADS_MAX } from "../spans";
import { sqliteMigrations } from "./migrations.generated";

const SETTINGS = ["journal_mode", "auto_vacuum", "page_size", "page_count", "freelist_count", "encoding"];

/** {@link undecoded}, of a column. Most manifests have nothing to decode, and replacing takes as long as reading them. */
const ofNames = (manifest: string): string =>
  `CASE WHEN instr(${manifest}, char(92)) = 0 THEN ${manifest} ELSE ${undecoded(manifest, "char")} END`;

/** One connection writes at a time, and `PRAGMA data_version` tells whether another one has. */
export const SQLITE: Dialect = {
  system: "sqlite",
  guards: undefined,
  guardsOfNew: undefined,
  wholes: undefined,
  forUpdate: "",
  skipLocked: undefined,
  forShare: "",
  lockText: undefined,
  takeNumber: `UPDATE langgraph_settings SET value = 1 + max(value, coalesce((SELECT max(thread) FROM langgraph_threads), 0),
    coalesce((SELECT max(thread) FROM langgraph_leftovers), 0))
    WHERE name = 'threads' AND typeof(value) = 'integer' AND value BETWEEN 0 AND ${THREADS_MAX - 1} RETURNING value`,
  clock: undefined,
  texts: (parameter) => `SELECT value FROM json_each(${parameter})`,
  eachWith: (list, table, alias, condition) => `${list} CROSS JOIN ${table} AS ${alias} WHERE ${condition}`,
  among: (parameter, type = "TEXT") => `IN (SELECT CAST(value AS ${type}) FROM json_each(${parameter}))`,
  // As bytes: making a long text of them takes a third of the time that V8 needs for the same text from a driver.
  listed: (column) => `CAST('[' || group_concat(${column}, ',') || ']' AS BLOB)`,
  holds: (column, text) => `typeof(${column}) = 'blob' OR instr(${column}, ${text}) > 0`,
  version: (manifest, channel) =>
    `(SELECT CASE m.type WHEN 'array' THEN json_extract(m.value, '$[0]') ELSE m.value END FROM json_each(${ofNames(manifest)}) AS m WHERE m.key = ${channel})`,
  entry: (manifest, channel) =>
    `(SELECT m.value FROM json_each(${ofNames(manifest)}) AS m WHERE m.key = ${channel} AND m.type = 'array')`,
  json: {
    row: (columns) => {
      const pairs = columns.map(
        (column) =>
          `'${column}', CASE typeof("${column}") WHEN 'blob' THEN json_object('hex', hex("${column}")) ELSE "${column}" END`,
      );
      return `json_object(${pairs.join(", ")})`;
    },
    value: (json, column) =>
      `CASE json_type(${json}, '$.${column}') WHEN 'object' THEN unhex(json_extract(${json}, '$.${column}.hex'))
      ELSE json_extract(${json}, '$.${column}') END`,
  },
  settings: `SELECT 'sqlite version', sqlite_version() ${SETTINGS.map((name) => `UNION ALL SELECT '${name}', (SELECT ${name} FROM pragma_${name})`).join(" ")}`,
  schema: {
    newest: sqliteMigrations.at(-1)?.version ?? 0,
    sql: sqliteMigrations.map(({ sql }) => sql).join("\n"),
    place: "",
    before: undefined,
    parts: `SELECT type, tbl_name, name, sql FROM sqlite_schema WHERE tbl_name LIKE 'langgraph\\_%' ESCAPE '\\' AND sql IS NOT NULL
      UNION ALL SELECT 'column', m.name, p.name, p.type FROM sqlite_schema AS m JOIN pragma_table_info(m.name) AS p
        WHERE m.type = 'table' AND m.name LIKE 'langgraph\\_%' ESCAPE '\\'`,
  },
  rowsAtMost: (rows) => `LIMIT ${rows}`,
  rowid: "rowid",
  elsewhere: { table: (name) => name, value: (value) => value, locks: false },
};
