import { LONG } from "./lane";
import { ON_POSTGRES } from "./open-saver";
import { testOfFiles } from "./test-of-files";

/**
 * A `test` that has more to do in the long lane, in a suite whose other tests do the same in both. Those were in the short lane, so in the
 * long one only these run. On PostgreSQL some suites are in the long lane alone: there everything runs.
 */
export const laneTest: typeof test = LONG && !ON_POSTGRES ? test.only : test;

const leftOut = Object.assign(() => undefined, { each: () => () => undefined }) as unknown as typeof test;

/**
 * A `test` that takes long, and whose requirement other tests of the short lane prove too. It is in the long lane, and in those on
 * PostgreSQL.
 */
export const longTest: typeof test = LONG ? laneTest : ON_POSTGRES ? test : leftOut;

/** A {@link testOfFiles} of that kind. */
export const longTestOfFiles: typeof test = ON_POSTGRES ? testOfFiles : longTest;

/** A {@link testOfFiles} of the kind of {@link laneTest}. */
export const laneTestOfFiles: typeof test = ON_POSTGRES ? testOfFiles : laneTest;
