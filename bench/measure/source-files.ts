import { readdirSync, readFileSync } from "node:fs";
import type { Profiler } from "node:inspector";
import { join } from "node:path";

/** The scripts below a URL in which at least one function was called, by a precise coverage of V8. */
export function scriptsRun(coverage: readonly Profiler.ScriptCoverage[], below: string): string[] {
  const ran = coverage.filter(({ functions }) => functions.some(({ ranges }) => (ranges[0]?.count ?? 0) > 0));
  return [...new Set(ran.map(({ url }) => url.replace(/\?.*$/, "")))].filter((url) => url.startsWith(below)).sort();
}

/** Lines of all TypeScript files of a folder and those below it, empty ones and comments included. */
export function linesOf(folder: string): number {
  const files = readdirSync(folder, { recursive: true, encoding: "utf8" }).filter((name) => name.endsWith(".ts"));
  return files.reduce((sum, name) => sum + readFileSync(join(folder, name), "utf8").split("\n").length - 1, 0);
}
