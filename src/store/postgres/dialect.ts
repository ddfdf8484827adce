import { type Dialect, undecoded } from "../dialect";
import { postgresMigrations } from "./migrations.generated";
import { toBound } from "./values";

const SETTINGS = [
  ...["server_version", "synchronous_commit", "fsync", "full_page_writes", "max_connections"],
  ...["autovacuum", "default_transaction_isolation", "server_encoding", "TimeZone", "default_transaction_read_only"],
  ...["transaction_timeout", "statement_timeout"],
];

/** @param schema quoted */
export function postgresDialect(schema: string): Dialect {
  const numbers = `${schema}.langgraph_thread_numbers`.replaceAll("'", "''");
  const lock = schema.replaceAll("'", "''");
  return {
    system: "postgresql",
    // A division by zero is the only way for a statement to fail unless a row is there. FOR UPDATE isn't allowed beside count().
    guards: {
      thread: `SELECT 1 / count(*) FROM (SELECT 1 FROM langgraph_threads WHERE thread = ? AND seq = ? AND generation = ? FOR NO KEY UPDATE) AS remembered`,
      effect: `SELECT 1 / count(*) FROM (SELECT 1 FROM langgraph_effects WHERE id = ? AND checksum = ? FOR NO KEY UPDATE) AS remembered`,
      setting: `SELECT 1 / count(*) FROM (SELECT 1 FROM langgraph_settings WHERE name = ? FOR KEY SHARE) AS remembered`,
    },
    guardsOfNew: {
      lease: `SELECT 1 / count(*) FROM (SELECT 1 FROM langgraph_runs WHERE run_id = ? AND thread_id = ? FOR KEY SHARE) AS remembered`,
      thread: `SELECT 1 / (CASE WHEN EXISTS (SELECT 1 FROM langgraph_threads WHERE thread_id = ?1 OR tag = ?2)
        OR EXISTS (SELECT 1 FROM langgraph_tombstones WHERE thread_id = ?1 OR tag = ?2) THEN 0 ELSE 1 END)`,
      unencrypted: `SELECT 1 / (CASE WHEN EXISTS (SELECT 1 FROM langgraph_settings WHERE name >= 'key:' AND name < 'key;') THEN 0 ELSE 1 END)`,
    },
    forUpdate: " FOR NO KEY UPDATE",
    skipLocked: " FOR NO KEY UPDATE SKIP LOCKED",
    forShare: " FOR KEY SHARE",
    lockText: `SELECT pg_catalog.pg_advisory_xact_lock(pg_catalog.hashtextextended('${lock}.' || ?, 0::bigint))`,
    // Logical replication leaves sequences out, so this one may be behind its threads. The role may use it, and not set it.
    takeNumber: `SELECT (SELECT max(pg_catalog.nextval('${numbers}')) FROM (SELECT coalesce(pg_catalog.pg_sequence_last_value('${numbers}'::regclass), 0::bigint) AS given) AS s
      CROSS JOIN LATERAL generate_series(given, greatest(given, (SELECT max(thread) FROM langgraph_threads), (SELECT max(thread) FROM langgraph_leftovers))) AS n) AS value`,
    clock: "SELECT pg_catalog.floor(extract(epoch FROM pg_catalog.clock_timestamp())::numeric * 1000::numeric)::bigint AS now",
    // The order is that of the subquery which gives the rows.
    listed: (column) => `'[' || string_agg(${column}, ',') || ']'`,
    // Bytes are marked: see values.ts.
    holds: (column, text) => `(starts_with(${column}, chr(1) || chr(4)) OR strpos(${column}, ${text}) > 0)`,
    version: (manifest, channel) =>
      ofManifest(manifest, channel, "CASE json_typeof(m.value) WHEN 'array' THEN m.value ->> 0 ELSE m.value #>> '{}' END"),
    entry: (manifest, channel) => ofManifest(manifest, channel, "CASE json_typeof(m.value) WHEN 'array' THEN m.value::text END"),
    wholes: (manifest) => `SELECT (m.value ->> 2) COLLATE "C" FROM json_each(${undecoded(manifest, "chr")}::json) AS m(key, value)
      WHERE json_typeof(m.value) = 'array' AND m.value ->> 1 = '1'`,
    json: undefined,
    settings: `SELECT name, reset_val FROM pg_catalog.pg_settings WHERE name IN (${SETTINGS.map((name) => `'${name}'`).join(", ")})
      UNION ALL SELECT 'connections of this database', count(*)::text FROM pg_catalog.pg_stat_activity WHERE datname = current_database()
      UNION ALL SELECT 'standby', pg_is_in_recovery()::text
      UNION ALL SELECT 'dead rows', coalesce(sum(n_dead_tup), 0)::text FROM pg_catalog.pg_stat_user_tables AS s
        JOIN pg_catalog.pg_class AS t ON t.oid = s.relid WHERE t.relnamespace = '${lock}'::regnamespace
      UNION ALL SELECT 'live rows', coalesce(sum(n_live_tup), 0)::text FROM pg_catalog.pg_stat_user_tables AS s
        JOIN pg_catalog.pg_class AS t ON t.oid = s.relid WHERE t.relnamespace = '${lock}'::regnamespace
      ORDER BY 1`,
    schema: {
      newest: postgresMigrations.at(-1)?.version ?? 0,
      sql: postgresMigrations.map(({ sql }) => sql).join("\n"),
      place: `${schema}.`,
      before: "SELECT pg_catalog.set_config('quote_all_identifiers', 'off', true)",
      parts: partsOf(lock),
    },
    rowsAtMost: () => "",
    rowid: undefined,
    elsewhere: { table: (name) => `${schema}.${name}`, value: (value) => toBound(value) as string, locks: true },
    texts: (parameter) => `SELECT value FROM json_array_elements_text(${parameter}::json) AS listed(value)`,
    // With LIMIT or OFFSET it isn't turned into a join, for which the planner reads all of a table with few threads.
    eachWith: (list, table, alias, condition, most) =>
      `${list} CROSS JOIN LATERAL (SELECT * FROM ${table} AS ${alias} WHERE ${condition}
        ${most === undefined ? "OFFSET 0" : `ORDER BY ${alias}.seq LIMIT ${most}`}) AS ${alias}`,
    // An IN with a query would be joined with the whole table while that is small: the planner expects a hundred texts.
    among: (parameter, type = "TEXT") =>
      `= ANY (ARRAY(SELECT value::${type} FROM json_array_elements_text(${parameter}::json) AS listed(value)))`,
  };
}

/** @param schema quoted, for a string */
function partsOf(schema: string): string {
  const ours = `t.relnamespace = '${schema}'::regnamespace AND starts_with(t.relname, 'langgraph_')`;
  const index = "JOIN pg_catalog.pg_index AS x ON x.indrelid = t.oid JOIN pg_catalog.pg_class AS i ON i.oid = x.indexrelid";
  return `SELECT 'table', t.relname::text, t.relname::text, '' FROM pg_catalog.pg_class AS t WHERE ${ours} AND t.relkind IN ('r', 'p')
    UNION ALL SELECT 'column', t.relname::text, a.attname::text, format_type(a.atttypid, a.atttypmod) FROM pg_catalog.pg_class AS t
      JOIN pg_catalog.pg_attribute AS a ON a.attrelid = t.oid WHERE ${ours} AND t.relkind IN ('r', 'p') AND a.attnum > 0 AND NOT a.attisdropped
    UNION ALL SELECT 'index', t.relname::text, i.relname::text, pg_get_indexdef(i.oid) FROM pg_catalog.pg_class AS t ${index} WHERE ${ours}
    UNION ALL SELECT 'invalid', t.relname::text, i.relname::text, '' FROM pg_catalog.pg_class AS t ${index}
      WHERE ${ours} AND NOT (x.indisvalid AND x.indisready AND x.indislive)
    UNION ALL SELECT 'trigger', t.relname::text, g.tgname::text, '' FROM pg_catalog.pg_class AS t
      JOIN pg_catalog.pg_trigger AS g ON g.tgrelid = t.oid WHERE ${ours} AND NOT g.tgisinternal`;
}

function ofManifest(manifest: string, channel: string, value: string): string {
  return `(SELECT ${value} FROM json_each(${undecoded(manifest, "chr")}::json) AS m(key, value) WHERE m.key = ${channel}) COLLATE "C"`;
}
