import { Client } from "pg";

/** Drops the schemas of test files that have finished: those whose name starts with `prefix`, and not with `except`. */
export async function dropSchemas(url: string, prefix: string, except = " "): Promise<void> {
  const client = new Client(url);
  await client.connect();
  try {
    const named = "SELECT nspname AS name FROM pg_namespace WHERE starts_with(nspname, $1) AND NOT starts_with(nspname, $2)";
    const { rows } = await client.query<{ name: string }>(named, [prefix, except]);
    for (const { name } of rows) await client.query(`DROP SCHEMA IF EXISTS ${client.escapeIdentifier(name)} CASCADE`);
  } finally {
    await client.end();
  }
}
