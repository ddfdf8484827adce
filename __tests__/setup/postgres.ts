import { FILE, WORKER } from "../support/places";
import { dropSchemas } from "../support/postgres/schemas";

/** For the suites on PostgreSQL: see jest.postgres.config.mjs. Without a server all of them are skipped, and counted. */
if (process.env["TURNS_WITHOUT_POSTGRES"]) {
  const skipped = <T extends object>(skip: T): T => Object.assign(skip, { skip, only: skip, concurrent: skip });
  Object.assign(globalThis, { describe: skipped(describe.skip), test: skipped(test.skip), it: skipped(it.skip) });
} else {
  // What this worker's earlier files have left. After a file would be too early: its own hooks may still use them.
  beforeAll(() => dropSchemas(process.env["TURNS_PG_DIRECT_URL"]!, WORKER, FILE));
}
