import type { Dialect } from "../dialect";

const SETTINGS = [
  ...["server_version", "synchronous_commit", "fsync", "full_page_writes", "max_connections"],
  ...["autovacuum", "default_transaction_isolation", "server_encoding", "TimeZone"],
];

/** @param schema quoted */
export function postgresDialect(schema: string): Dialect {
  const numbers = `${schema}.langgraph_thread_numbers`.replaceAll("'", "''");
  const lock = schema.replaceAll("'", "''");
  return {
    // A division by zero is the only way for a statement to fail unless a row is there. FOR UPDATE isn't allowed beside count().
    guards: {
      thread: `SELECT 1 / count(*) FROM (SELECT 1 FROM langgraph_threads WHERE thread = ? AND seq = ? AND generation = ? FOR NO KEY UPDATE) AS remembered`,
      setting: `SELECT 1 / count(*) FROM (SELECT 1 FROM langgraph_settings WHERE name = ? FOR KEY SHARE) AS remembered`,
    },
    guardsOfNew: {
      lease: `SELECT 1 / count(*) FROM (SELECT 1 FROM langgraph_runs WHERE run_id = ? AND thread_id = ? FOR KEY SHARE) AS remembered`,
      thread: `SELECT 1 / (CASE WHEN EXISTS (SELECT 1 FROM langgraph_threads WHERE thread_id = ?1 OR tag = ?2)
        OR EXISTS (SELECT 1 FROM langgraph_tombstones WHERE thread_id = ?1 OR tag = ?2) THEN 0 ELSE 1 END)`,
      unencrypted: `SELECT 1 / (CASE WHEN EXISTS (SELECT 1 FROM langgraph_settings WHERE name >= 'key:' AND name < 'key;') THEN 0 ELSE 1 END)`,
    },
    forUpdate: " FOR NO KEY UPDATE",
    forShare: " FOR KEY SHARE",
    lockText: `SELECT pg_advisory_xact_lock(hashtextextended('${lock}.' || ?, 0))`,
    takeNumber: `SELECT nextval('${numbers}') AS value`,
    clock: "SELECT floor(extract(epoch FROM clock_timestamp()) * 1000)::bigint AS now",
    // The order is that of the subquery which gives the rows.
    joined: (column) => `string_agg(${column}, ',')`,
    // Bytes are marked: see values.ts.
    holds: (column, text) => `(starts_with(${column}, chr(1) || chr(4)) OR strpos(${column}, ${text}) > 0)`,
    version: (manifest, channel) =>
      ofManifest(manifest, channel, "CASE json_typeof(m.value) WHEN 'array' THEN m.value ->> 0 ELSE m.value #>> '{}' END"),
    entry: (manifest, channel) => ofManifest(manifest, channel, "CASE json_typeof(m.value) WHEN 'array' THEN m.value::text END"),
    wholes: (manifest) => `SELECT (m.value ->> 2) COLLATE "C" FROM json_each(${safeJson(manifest)}) AS m(key, value)
      WHERE json_typeof(m.value) = 'array' AND m.value ->> 1 = '1'`,
    json: undefined,
    settings: `SELECT name, setting FROM pg_catalog.pg_settings WHERE name IN (${SETTINGS.map((name) => `'${name}'`).join(", ")}) ORDER BY name`,
    rowsAtMost: () => "",
    rowid: undefined,
    texts: (parameter) => `SELECT value FROM json_array_elements_text(${parameter}::json) AS listed(value)`,
  };
}

/**
 * JSON of PostgreSQL knows neither U+0000 nor halves of surrogate pairs. They become other characters: no name or version that is
 * looked for has them. A backslash is `chr(92)`, because in a string it means what the role's `standard_conforming_strings` says.
 */
function safeJson(manifest: string): string {
  const nul = `replace(${manifest}, chr(92) || 'u0000', chr(92) || 'u0001')`;
  return `regexp_replace(${nul}, chr(92) || chr(92) || 'u[dD]([89a-fA-F])', chr(92) || chr(92) || 'ue' || chr(92) || '1', 'g')::json`;
}

function ofManifest(manifest: string, channel: string, value: string): string {
  return `(SELECT ${value} FROM json_each(${safeJson(manifest)}) AS m(key, value) WHERE m.key = ${channel}) COLLATE "C"`;
}
