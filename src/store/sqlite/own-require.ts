import { createRequire } from "node:module";
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
  // eslint-disable-next-line no-restricted-globals, no-restricted-syntax -- each is asked for in the build that has it
  const here: string | undefined = typeof __filename === "string" && isAbsolute(__filename) ? __filename : import.meta.url;
  if (here === undefined) throw new Error("not found from a bundle without __filename and import.meta.url");
  return createRequire(here);
}
