/** `node --require` this: the drivers in HIDDEN_DRIVERS are not there. */
"use strict";
const Module = require("node:module");

const hidden = (process.env.HIDDEN_DRIVERS ?? "").split(",");
const resolve = Module._resolveFilename;
Module._resolveFilename = function (request, ...rest) {
  if (request !== "better-sqlite3" || !hidden.includes(request)) return resolve.call(this, request, ...rest);
  throw Object.assign(new Error("Cannot find module 'better-sqlite3'\nRequire stack:\n- somewhere"), {
    code: "MODULE_NOT_FOUND",
  });
};
const { getBuiltinModule } = process;
process.getBuiltinModule = (id) => (hidden.includes(id) ? undefined : getBuiltinModule?.(id));
