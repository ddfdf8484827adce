"use strict";

/** Says at the end how many tests on PostgreSQL were left out, and why. A reporter of jest. */
module.exports = class {
  onRunComplete(_contexts, { numPendingTests }) {
    const why = process.env.TURNS_WITHOUT_POSTGRES;
    if (why) console.log(`PostgreSQL: ${numPendingTests} tests skipped: ${why === "1" ? "TURNS_WITHOUT_POSTGRES=1" : why}`);
  }
};
