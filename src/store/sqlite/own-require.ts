// Not `createRequire` by its name, because webpack rewrites calls to that.
import module from "node:module";
import { isAbsolute } from "node:path";

/**
 * `require` from the location of this package. An optional driver can so be loaded on demand, synchronously, in both builds, and
 * is found where the user's package manager put it for us.
 *
 * This is the only place that knows its own file. CommonJS has `__filename`, even if a bundler made CommonJS of our ES modules
 * and left `import.meta` empty. ES modules have `import.meta.url`. If the program itself is a text (`node -e`, a worker with
 * `eval: true`), all its modules see a global `__filename` that isn't a path.
 *
 * @throws if a bundler made ES modules of our CommonJS and gave them no `__filename`
 */
export function ownRequire(): (id: string) => unknown {
  const here = ownFile();
  if (here === undefined) throw new Error("not found from a bundle without __filename and import.meta.url");
  return module.createRequire(here);
}

/** Each is read in a `try`: webpack assumes `__filename` in ES modules, and esbuild warns of an empty `import.meta` elsewhere. */
function ownFile(): string | undefined {
  try {
    // eslint-disable-next-line no-restricted-globals -- in CommonJS
    if (typeof __filename === "string" && isAbsolute(__filename)) return __filename;
  } catch {
    // It doesn't exist after all.
  }
  try {
    // eslint-disable-next-line no-restricted-syntax -- in ES modules
    return import.meta.url;
  } catch {
    return undefined;
  }
}
