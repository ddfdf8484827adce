// With TURNS_SEED the property tests draw the same cases each time. CI sets it, so that what it says depends on the change alone.
const seed = process.env["TURNS_SEED"];
if (seed !== undefined) {
  // Loaded only then: most suites have no use for it.
  // eslint-disable-next-line @typescript-eslint/no-require-imports
  const fc = require("fast-check") as typeof import("fast-check");
  fc.configureGlobal({ ...fc.readConfigureGlobal(), seed: Number(seed) });
}
