import { readdirSync, readFileSync } from "node:fs";
import { fileURLToPath } from "node:url";

/** Suites that the short lane leaves out: they prove what is shipped, or how things are after hours. Each of their requirements has another test. */
export const LONG_ONLY = ["crash/long-life", "docs/examples", "docs/nextjs", "docs/package", "docs/testing"];

/** Suites that run on PostgreSQL too: what they prove is no matter of a file. Those in `postgres/` run there alone. */
export const POSTGRES_SUITES = [
  "postgres/*",
  "cli/command-line",
  "crash/crash-matrix",
  "differential/*",
  "langgraph/conformance",
  "moving/*",
  "retention/tombstones",
  "runner/requirements-*",
  "transactions/*",
  "turns/follow",
];

const folder = new URL("./__tests__/", import.meta.url);
const tests = readdirSync(folder, { recursive: true, encoding: "utf8" }).filter((name) => name.endsWith(".test.ts"));
const asks = (name) => readFileSync(new URL(name.replaceAll("\\", "/"), folder), "utf8").includes('/lane"');

/** Suites with more to do in the long lane than in the short one: those above, and all that ask in which lane they are. */
export const longSuites = () =>
  tests
    .filter((name) => asks(name) || LONG_ONLY.some((one) => name === `${one}.test.ts`))
    .map((name) => fileURLToPath(new URL(name, folder)));
