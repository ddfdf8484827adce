/**
 * `node --import` this: who asks for better-sqlite3 gets the stand-in beside this file, except the package, which does not find it and so
 * has to take `node:sqlite`, as it does where better-sqlite3 is not installed. Needs module.registerHooks (Node 22.15).
 */
import { registerHooks } from "node:module";
import { isOurs, STAND_IN } from "./who.cjs";

registerHooks({
  resolve(specifier, context, next) {
    if (specifier !== "better-sqlite3") return next(specifier, context);
    if (!isOurs(context.parentURL)) return { url: STAND_IN.href, format: "commonjs", shortCircuit: true };
    throw Object.assign(new Error("Cannot find module 'better-sqlite3' (hidden)"), { code: "MODULE_NOT_FOUND" });
  },
});
