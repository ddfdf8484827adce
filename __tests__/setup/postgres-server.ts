import builds from "./builds";
import { programs } from "../support/postgres/programs";
import { startPgBouncer } from "../support/postgres/pgbouncer";
import { startServer } from "../support/postgres/server";

const POOL_SIZE = 20;

/**
 * Before the suites on PostgreSQL: one server for all of them, TURNS_PG_URL's or one of our own. It stops with jest. Suites find it in
 * TURNS_PG_URL; with TURNS_PGBOUNCER=1 that is PgBouncer in front of it, and TURNS_PG_DIRECT_URL is the server. If there can be none,
 * TURNS_WITHOUT_POSTGRES says why.
 */
export default async function setup(): Promise<void> {
  builds();
  const { env } = process;
  if (env["TURNS_WITHOUT_POSTGRES"]) return;
  try {
    programs(true);
    const url = env["TURNS_PG_DIRECT_URL"] ?? env["TURNS_PG_URL"] ?? (await startServer()).url;
    env["TURNS_PG_DIRECT_URL"] = url;
    env["TURNS_PG_URL"] = env["TURNS_PGBOUNCER"] === "1" ? (await startPgBouncer(url, { poolSize: POOL_SIZE })).url : url;
    // Schemas of this run have names of their own: see support/places.ts.
    env["TURNS_PG_RUN"] = `turns_test_${Date.now().toString(36)}`;
  } catch (error) {
    env["TURNS_WITHOUT_POSTGRES"] = (error as Error).message;
  }
}
