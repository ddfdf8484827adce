import base from "./jest.config.mjs";
import { longSuites } from "./jest.lanes.mjs";

process.env.TURNS_LONG = "1";

/** `npm run test:long`: the suites that have more to do than in the short lane. See __tests__/support/lane.ts. @type {import("jest").Config} */
export default {
  ...base,
  testMatch: longSuites(),
  coverageThreshold: undefined,
  // Whole matrices and many runs take minutes where other work is beside them.
  testTimeout: 300_000,
};
