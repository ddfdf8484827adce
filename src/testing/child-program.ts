import { existsSync } from "node:fs";
import { dirname, isAbsolute, join } from "node:path";
import { fileURLToPath } from "node:url";

/**
 * The program that children run, beside the file that asks for it: `testing-child` in the build, `child.ts` among the sources.
 * Neither the working folder nor a look-up by the package's name reliably leads there. If the program itself is a text
 * (`node -e`), ES modules see a global `__dirname` that isn't their path: `.`.
 *
 * @param type of the graph's module: ours must be of the same kind, so that both use the same copy of LangGraph and of this
 *   package
 */
export function childProgram(type: "module" | "commonjs"): string {
  const here = typeof __dirname === "string" && isAbsolute(__dirname) ? __dirname : dirname(fileURLToPath(import.meta.url));
  const built = join(here, type === "module" ? "testing-child.js" : "testing-child.cjs");
  return existsSync(built) ? built : join(here, "child.ts");
}
