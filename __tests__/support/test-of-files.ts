import { ON_POSTGRES } from "./open-saver";

/** A `test` of what only a database in a file has, or an engine with the clock of its machine. On PostgreSQL it's skipped, and counted. */
export const testOfFiles: typeof test = ON_POSTGRES ? (test.skip as typeof test) : test;
