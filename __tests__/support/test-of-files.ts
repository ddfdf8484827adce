import { ON_POSTGRES } from "./open-saver";

/**
 * A `test` of what only a database in a file has, or an engine with the clock of its machine; or of the command line's own, which is the same on
 * each database. On PostgreSQL it's skipped, and counted.
 */
export const testOfFiles: typeof test = ON_POSTGRES ? test.skip : test;
