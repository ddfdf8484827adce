/** What ./hook.mjs is to Node, for jest, which resolves modules itself. */
"use strict";
const path = require("node:path");
const { fileURLToPath } = require("node:url");
const { isOurs, STAND_IN } = require("./who.cjs");

module.exports = (request, options) => {
  if (request !== "better-sqlite3") return options.defaultResolver(request, options);
  if (!isOurs(options.basedir + path.sep)) return fileURLToPath(STAND_IN);
  throw Object.assign(new Error("Cannot find module 'better-sqlite3' (hidden)"), { code: "MODULE_NOT_FOUND" });
};
