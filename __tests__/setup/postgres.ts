import { WORKER } from "../support/open-saver";
import { dropSchemas } from "../support/postgres/schemas";

/** For the suites on PostgreSQL: see jest.postgres.config.mjs. Without a server all of them are skipped, and counted. */
module.exports = async function setup(): Promise<void> {
  if (process.env["TURNS_WITHOUT_POSTGRES"]) {
    const skipped = <T extends object>(skip: T): T => Object.assign(skip, { skip, only: skip, concurrent: skip });
    Object.assign(globalThis, { describe: skipped(describe.skip), test: skipped(test.skip), it: skipped(it.skip) });
    return;
  }
  // What this worker's earlier files have left. After a file would be too early: its own hooks may still use them.
  await dropSchemas(process.env["TURNS_PG_DIRECT_URL"] ?? "", WORKER);
};
