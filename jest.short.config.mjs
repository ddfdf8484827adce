import base from "./jest.config.mjs";
import { LONG_ONLY } from "./jest.lanes.mjs";

/** `npm test`: every requirement, in minutes. See __tests__/support/lane.ts. @type {import("jest").Config} */
export default {
  ...base,
  testPathIgnorePatterns: [...base.testPathIgnorePatterns, ...LONG_ONLY.map((name) => `/__tests__/${name}\\.test\\.ts$`)],
};
