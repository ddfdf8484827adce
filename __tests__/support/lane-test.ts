import { LONG } from "./lane";
import { ON_POSTGRES } from "./open-saver";
import { testOfFiles } from "./test-of-files";

/**
 * A `test` that has more to do in the long lane, in a suite whose other tests do the same in both. Those were in the short lane, so in the
 * long one only these run. On PostgreSQL some suites are in the long lane alone: there everything runs.
 */
export const laneTest: typeof test = LONG && !ON_POSTGRES ? test.only : test;

/** A {@link testOfFiles} of that kind. */
export const laneTestOfFiles: typeof test = ON_POSTGRES ? testOfFiles : laneTest;
