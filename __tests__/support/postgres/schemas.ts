import { Client } from "pg";

/** Drops the schemas that test files have left: those whose name starts with a prefix. */
export async function dropSchemas(url: string, prefix: string): Promise<void> {
  const client = new Client(url);
  await client.connect();
  try {
    const { rows } = await client.query<{ name: string }>(
      "SELECT nspname AS name FROM pg_namespace WHERE starts_with(nspname, $1)",
      [prefix],
    );
    for (const { name } of rows) await client.query(`DROP SCHEMA IF EXISTS ${client.escapeIdentifier(name)} CASCADE`);
  } finally {
    await client.end();
  }
}
