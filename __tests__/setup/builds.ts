import { mkdirSync, mkdtempSync } from "node:fs";
import path from "node:path";

/** Before all suites: a folder of this run, where the program `turns` is built once, by the first suite that needs it. See cli/built.ts. */
export default function setup(): void {
  mkdirSync(".tmp", { recursive: true });
  process.env["TURNS_BUILDS"] = mkdtempSync(path.resolve(".tmp", "cli-"));
}
