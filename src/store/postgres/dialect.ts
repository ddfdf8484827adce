import type { Dialect } from "../dialect";

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
    forUpdate: " FOR NO KEY UPDATE",
    forShare: " FOR KEY SHARE",
    lockText: `SELECT pg_advisory_xact_lock(hashtextextended('${lock}.' || ?, 0))`,
    takeNumber: `SELECT nextval('${numbers}') AS value`,
    clock: "SELECT floor(extract(epoch FROM clock_timestamp()) * 1000)::bigint AS now",
    texts: (parameter) => `SELECT value FROM json_array_elements_text(${parameter}::json) AS listed(value)`,
  };
}
