// Not `createRequire` by its name: webpack takes calls of that away.
import module from "node:module";
import { isAbsolute } from "node:path";

/**
 * `require` from where this package lies, so that a driver which may not be there can be loaded when it is needed, synchronously, in
 * both builds, and found where the user's package manager put it for us.
 *
 * The one place that knows its own file: CommonJS has `__filename`, also where a bundler made CommonJS of our ES modules and left
 * `import.meta` empty; ES modules have `import.meta.url`. Where the program itself is a text (`node -e`, a worker of `eval: true`),
 * all its modules see a global `__filename` that is no path.
 *
 * @throws if a bundler made ES modules of our CommonJS and gave them no `__filename`
 */
export function ownRequire(): (id: string) => unknown {
  const here = ownFile();
  if (here === undefined) throw new Error("not found from a bundle without __filename and import.meta.url");
  return module.createRequire(here);
}

/** Each is asked for in a `try`: webpack takes `__filename` to be there in ES modules, and esbuild warns of an empty `import.meta` elsewhere. */
function ownFile(): string | undefined {
  try {
    // eslint-disable-next-line no-restricted-globals -- in CommonJS
    if (typeof __filename === "string" && isAbsolute(__filename)) return __filename;
  } catch {
    // It isn't there after all.
  }
  try {
    // eslint-disable-next-line no-restricted-syntax -- in ES modules
    return import.meta.url;
  } catch {
    return undefined;
  }
}
