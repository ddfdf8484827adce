import base from "./jest.short.config.mjs";

process.env.TURNS_HOSTILE ??= "1";

/** `npm run test:hostile`: suites that must not notice on what kind of engine they run. @type {import("jest").Config} */
export default {
  ...base,
  setupFilesAfterEnv: [...base.setupFilesAfterEnv, "<rootDir>/__tests__/setup/hostile-engine.ts"],
  testTimeout: 120_000,
};
