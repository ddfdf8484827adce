import type { Pool } from "pg";

/** How many rows of a schema's tables the server has read, for everybody; what this pool's only connection read is counted already. */
export async function rowsRead(pool: Pool, schema: string): Promise<number> {
  await pool.query("SELECT pg_stat_force_next_flush()");
  const { rows } = await pool.query<{ read: string }>(
    "SELECT sum(seq_tup_read + coalesce(idx_tup_fetch, 0)) AS read FROM pg_stat_user_tables WHERE schemaname = $1",
    [schema],
  );
  return Number(rows[0]?.read);
}
