import { readdirSync, readFileSync } from "node:fs";
import { fileURLToPath } from "node:url";

/**
 * Random runs and many cases of rules that know no engine, and of which other suites prove a few cases. The long lanes have them, on
 * either engine.
 */
export const VARIANTS = [
  ...["effects/effects-abandoned-attempts", "effects/effects-retried-tasks", "langgraph/stable-subgraph-resume"],
  ...["moving/copies.property", "runner/breakpoints", "runner/lives.property", "runner/runner-answers-retried"],
];

/** Suites that the short lane leaves out: they prove what is shipped, or take minutes. Each of their requirements has another test there. */
export const LONG_ONLY = [
  ...[
    "crash/answers-crash",
    "crash/io-faults",
    "crash/long-life",
    "crash/power-loss",
    "crash/recover-storm",
    "crash/torture-crash",
    "crash/clock.property",
  ],
  ...["concurrency/concurrency", "differential/differential-repairs", "drain/drain-processes", "effects/define-crash"],
  ...["docs/examples", "docs/nextjs", "docs/package", "docs/servers", "docs/testing"],
  ...[
    "langgraph/debug-streams",
    "langgraph/nested-siblings",
    "moving/export.property",
    "moving/move-crash",
    "moving/moving.property",
  ],
  ...["cli/command-line", "cli/large-file", "cli/moving-commands", "cli/program", "cli/running-commands", "cli/terminal"],
  ...[
    "integrity/corruption",
    "integrity/hostile",
    "integrity/hostile-judge",
    "langgraph/time-travel",
    "transactions/transactions-crash",
  ],
  ...["concurrency/starting-runs", "crash/cut-file", "runner/drift-effects"],
  ...["viewer/journeys", "viewer/hostile-content", "viewer/open-page"],
  ...["effects/effects-tries", "langgraph/parallel-visits", "runner/fingerprint-builds", "turns/run-marks", "viewer/page-size"],
  ...["integrity/replaced.property", "integrity/salvage-moved", "retention/large-copies", "store/driver", "cli/shell-words"],
  ...["codec/codec.property", "values/values.property", "encryption/sealing", "integrity/bad-input"],
  ...["crash/faults", "differential/differential", "transactions/database-failures"],
  ...["effects/effects-cache", "effects/effects-edits", "effects/effects-identity"],
  ...["langgraph/delta-channel", "langgraph/delta-updates", "langgraph/other-savers"],
  ...["rewind/compensation-gates", "rewind/compensation-unfinished", "rewind/rewind-dry-run.property"],
  ...["runner/runner-call", "runner/runner-due-nodes.property", "runner/runner-exit", "runner/runner-streams"],
  ...["turns/handoffs", "turns/log-lines", "turns/ownership", "turns/refusals", "turns/tokens", "turns/tracing"],
  "viewer/answers",
  ...VARIANTS,
];

/** Suites that run on PostgreSQL too: what they prove is no matter of a file. Those in `postgres/` run there alone. */
export const POSTGRES_SUITES = [
  "postgres/*",
  "cli/command-line",
  "cli/moving-commands",
  "concurrency/lease",
  "concurrency/{rewound-runs.property,starting-runs}",
  "crash/clock",
  "crash/crash-matrix",
  "crash/recover-storm",
  "differential/*",
  "drain/*",
  "effects/*",
  "integrity/verify",
  "langgraph/conformance",
  "langgraph/d*",
  "langgraph/langgraph-newest",
  "langgraph/nested-siblings",
  "langgraph/other-savers",
  "langgraph/stable-subgraph-resume",
  "langgraph/task-path",
  "moving/*",
  "retention/{keep-tasks,retention,tombstones}",
  "rewind/*",
  "runner/breakpoints",
  "runner/drift-effects",
  "store/put-again",
  "runner/fingerprint-drift",
  "runner/{lives.property,recover}",
  "runner/requirements-*",
  "runner/runner-*",
  "runner/ways-on",
  "s1/*",
  "transactions/*",
  "turns/{attempts,follow,handoffs,lost-runs,other-threads,ownership,redaction,refusals,run-starts,seen-checkpoints,run-marks,tokens,tracing,turns}",
  "viewer/{api,live,nested-state,security,writes}",
];

/** They run there only in the long lane, because they take minutes. */
export const POSTGRES_LONG_SUITES = [
  "cli/running-commands",
  "concurrency/stale-facts.property",
  "crash/answers-crash",
  "crash/clock.property",
  "crash/torture-crash",
  "encryption/*",
  "langgraph/repairs",
  "langgraph/time-travel",
  "report/*",
  "retention/large-{copies,threads}",
  "store/threads",
  "values/*",
];

/** Suites that take a minute or more in one of the lanes, the slowest first. */
export const SLOW = [
  ...["cli/command-line", "docs/package", "cli/running-commands", "cli/moving-commands", "viewer/journeys", "docs/testing"],
  ...["docs/examples", "cli/terminal", "transactions/transactions-crash", "cli/large-file", "viewer/open-page"],
  ...["langgraph/delta-order", "differential/differential", "concurrency/stale-facts.property", "crash/recover-storm"],
  ...["crash/crash-matrix", "postgres/postgres-machines", "postgres/postgres-storms", "retention/retention", "integrity/verify"],
  ...[
    "moving/moving",
    "rewind/rewind",
    "integrity/corruption",
    "integrity/hostile",
    "effects/effects-crash",
    "moving/move-crash",
  ],
  ...["store/hostile-engine", "store/threads", "viewer/hostile-content", "langgraph/repairs", "rewind/compensation-crash"],
  "values/values.property",
];

const folder = new URL("./__tests__/", import.meta.url);
const tests = readdirSync(folder, { recursive: true, encoding: "utf8" }).filter((name) => name.endsWith(".test.ts"));

/** Whether a suite asks in which lane it is. In CI (`TURNS_TIMES` below 1) one that only draws as many random cases as in the short lane doesn't. */
function asks(name) {
  const text = readFileSync(new URL(name.replaceAll("\\", "/"), folder), "utf8");
  if (/\blongTest(OfFiles)?\b/.test(text)) return true;
  const names = /import \{([^}]*)\} from "[./]*support\/lane"/.exec(text)?.[1];
  if (names === undefined) return false;
  const calls = text.match(/\bruns\(/g) ?? [];
  const [times, numbers] = [Number(process.env.TURNS_TIMES ?? 1), [...text.matchAll(/\bruns\((\d[\d_]*), (\d[\d_]*)\)/g)]];
  const count = (digits) => Number(digits.replaceAll("_", ""));
  const drawsNoMore = numbers.every(([, short, long]) => Math.ceil(count(long) * times) <= count(short));
  return names.trim() !== "runs" || calls.length > numbers.length || !drawsNoMore;
}

/** Suites with more to do in the long lane than in the short one: those above, and all that ask in which lane they are. */
export const longSuites = () =>
  tests
    .filter((name) => asks(name) || LONG_ONLY.some((one) => name === `${one}.test.ts`))
    .map((name) => fileURLToPath(new URL(name, folder)));
