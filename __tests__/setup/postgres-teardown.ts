import builds from "./builds-teardown";
import { dropSchemas } from "../support/postgres/schemas";

/** After the suites on PostgreSQL: a server that isn't ours keeps nothing of the run. */
export default async function teardown(): Promise<void> {
  const { TURNS_PG_DIRECT_URL: url, TURNS_PG_RUN: run } = process.env;
  if (url !== undefined && run !== undefined) await dropSchemas(url, run);
  builds();
}
