import { fileURLToPath } from "node:url";
import base from "./jest.config.mjs";

/**
 * The same tests with `node:sqlite` as the driver, for a Node that better-sqlite3 was not compiled for: the package does not find
 * better-sqlite3, and tests that look into a file with it get a stand-in. See CONTRIBUTING.md.
 */
const hook = `--import=${new URL("./__tests__/support/node-sqlite/hook.mjs", import.meta.url).href}`;
// For the processes that tests start, those too that are started without the options of this one.
process.env.NODE_OPTIONS = hook;
process.env.TURNS_TEST_NODE_OPTIONS = hook;

/** @type {import("jest").Config} */
export default {
  ...base,
  resolver: fileURLToPath(new URL("./__tests__/support/node-sqlite/resolver.cjs", import.meta.url)),
  // A run of its own beside the main one, which measures the coverage. Each process that a test starts loads the hook first.
  coverageThreshold: undefined,
  testTimeout: 120_000,
};
