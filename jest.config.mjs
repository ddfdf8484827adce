/** @type {import("jest").Config} */
export default {
  // Names the folder of the cache, which all lanes share: see __tests__/setup/swc.cjs.
  id: "turns",
  testEnvironment: "node",
  testMatch: ["<rootDir>/__tests__/**/*.test.ts"],
  // jest.postgres.config.mjs has these.
  testPathIgnorePatterns: ["/node_modules/", "/__tests__/postgres/"],
  modulePathIgnorePatterns: ["<rootDir>/dist/", "<rootDir>/.tmp/"],
  globalSetup: "<rootDir>/__tests__/setup/builds.ts",
  globalTeardown: "<rootDir>/__tests__/setup/builds-teardown.ts",
  setupFilesAfterEnv: ["<rootDir>/__tests__/setup/expect-soft.ts", "<rootDir>/__tests__/setup/seed.ts"],
  // Where a machine is busy, random runs and child processes take several times as long.
  testTimeout: 120_000,
  // One more than the two cores that everything is timed on: the tests wait for disks and child processes a third of their time.
  maxWorkers: 3,
  testSequencer: "<rootDir>/__tests__/setup/slow-first.mjs",

  transform: {
    "^.+\\.ts$": [
      "<rootDir>/__tests__/setup/swc.cjs",
      {
        swcrc: false,
        sourceMaps: "inline",
        module: { type: "commonjs" },
        jsc: { target: "es2022", parser: { syntax: "typescript" } },
      },
    ],
  },
  moduleNameMapper: {
    "^langgraph-checkpoint-turns$": "<rootDir>/src/index.ts",
    "^langgraph-checkpoint-turns/checkpoint-file$": "<rootDir>/src/report/index.ts",
    "^langgraph-checkpoint-turns/(import|maintenance|postgres|testing|transactions)$": "<rootDir>/src/$1/index.ts",
    // `./x.js` may name the source file `./x.ts`; a file that is really called `.js` comes first.
    "^(\\.{1,2}/.*)\\.js$": ["$1.js", "$1.ts"],
  },

  // Measured with --coverage only, so a single suite can be run by itself.
  // Without what runs on PostgreSQL, or in the program `turns` and its page alone: other lanes and other processes run it.
  collectCoverageFrom: ["src/**/*.ts", "!src/{cli,inspection,postgres,store/postgres,viewer}/**", "!src/store/ops/inspect.ts"],
  coveragePathIgnorePatterns: ["/node_modules/", "\\.generated\\.ts$", "\\.d\\.ts$"],
  coverageReporters: ["text", "lcov", "json-summary"],
  coverageThreshold: {
    global: { branches: 85 },
    "./src/turns/checkpoint-persister.ts": { branches: 90 },
    "./src/turns/logged-turns.ts": { branches: 90 },
  },
};
