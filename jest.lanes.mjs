import { readdirSync, readFileSync } from "node:fs";
import { fileURLToPath } from "node:url";

/** Suites that the short lane leaves out: they prove what is shipped, or how things are after hours. Each of their requirements has another test. */
export const LONG_ONLY = ["crash/long-life", "docs/examples", "docs/nextjs", "docs/package", "docs/testing"];

/** Suites that run on PostgreSQL too: what they prove is no matter of a file. Those in `postgres/` run there alone. */
export const POSTGRES_SUITES = [
  "postgres/*",
  "cli/command-line",
  "concurrency/lease",
  "concurrency/rewound-runs.property",
  "crash/crash-matrix",
  "crash/recover-storm",
  "differential/*",
  "drain/drain",
  "effects/*",
  "langgraph/conformance",
  "langgraph/d*",
  "langgraph/langgraph-newest",
  "langgraph/nested-siblings",
  "langgraph/other-savers",
  "langgraph/stable-subgraph-resume",
  "langgraph/task-path",
  "moving/*",
  "retention/tombstones",
  "rewind/*",
  "runner/fingerprint-drift",
  "runner/recover",
  "runner/requirements-*",
  "runner/runner-*",
  "runner/ways-on",
  "s1/*",
  "transactions/*",
  "turns/{attempts,follow,handoffs,lost-runs,other-threads,ownership,redaction,run-starts,seen-checkpoints,tokens,tracing,turns}",
];

/** They run there only in the long lane, because they take minutes. */
export const POSTGRES_LONG_SUITES = [
  "concurrency/stale-facts.property",
  "crash/clock.property",
  "crash/torture-crash",
  "langgraph/time-travel",
  "report/*",
  "retention/large-threads",
  "values/*",
];

const folder = new URL("./__tests__/", import.meta.url);
const tests = readdirSync(folder, { recursive: true, encoding: "utf8" }).filter((name) => name.endsWith(".test.ts"));
const asks = (name) => readFileSync(new URL(name.replaceAll("\\", "/"), folder), "utf8").includes('/lane"');

/** Suites with more to do in the long lane than in the short one: those above, and all that ask in which lane they are. */
export const longSuites = () =>
  tests
    .filter((name) => asks(name) || LONG_ONLY.some((one) => name === `${one}.test.ts`))
    .map((name) => fileURLToPath(new URL(name, folder)));
