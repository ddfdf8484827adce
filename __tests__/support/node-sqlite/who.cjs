"use strict";
const path = require("node:path");
const { pathToFileURL } = require("node:url");

const standIn = require.resolve("./better-sqlite3.cjs");
const src = path.resolve(standIn, "..", "..", "..", "..", "src") + path.sep;

/** What stands in for better-sqlite3. */
exports.STAND_IN = pathToFileURL(standIn);

/** Whether a module of the package asks, by its path or its file URL. */
exports.isOurs = (asker) => {
  const from = String(asker ?? "");
  return from.startsWith(src) || from.startsWith(pathToFileURL(src).href);
};
