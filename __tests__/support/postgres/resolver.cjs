/** For jest on PostgreSQL: tests that look into a store with better-sqlite3 get the stand-in beside this file; the package gets the real one. */
"use strict";
const path = require("node:path");

const here = path.dirname(require.resolve("./resolver.cjs"));
const tests = path.resolve(here, "..", "..");
/** It damages stores for tests. */
const torture = path.resolve(tests, "..", "torture");

module.exports = (request, options) => {
  const asker = options.basedir + path.sep;
  const isTest = [tests, torture].some((one) => asker.startsWith(one + path.sep)) && !asker.startsWith(here + path.sep);
  return request === "better-sqlite3" && isTest ? path.join(here, "look-inside.ts") : options.defaultResolver(request, options);
};
