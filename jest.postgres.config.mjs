import base from "./jest.config.mjs";
import { POSTGRES_LONG_SUITES, POSTGRES_SUITES, VARIANTS } from "./jest.lanes.mjs";

const isLong = process.env.TURNS_LONG === "1";

process.env.TURNS_ENGINE = "postgres";

/**
 * `npm run test:postgres`: the suites that both engines must pass, and PostgreSQL's own, on a real server. See CONTRIBUTING.md.
 *
 * @type {import("jest").Config}
 */
export default {
  ...base,
  testMatch: [...POSTGRES_SUITES, ...(isLong ? POSTGRES_LONG_SUITES : [])].map((name) => `<rootDir>/__tests__/${name}.test.ts`),
  testPathIgnorePatterns: ["/node_modules/", ...(isLong ? [] : VARIANTS.map((name) => `/__tests__/${name}\\.test\\.ts$`))],
  resolver: "<rootDir>/__tests__/support/postgres/resolver.cjs",
  globalSetup: "<rootDir>/__tests__/setup/postgres-server.ts",
  globalTeardown: "<rootDir>/__tests__/setup/postgres-teardown.ts",
  setupFilesAfterEnv: [...base.setupFilesAfterEnv, "<rootDir>/__tests__/setup/postgres.ts"],
  reporters: ["default", "<rootDir>/__tests__/setup/postgres-skipped.cjs"],
  coverageThreshold: undefined,
  // Where the machine is busy, processes take long to start.
  testTimeout: 300_000,
};
