import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { parseArgs } from "node:util";
import { numberOf } from "../numbers";
import { turmoil, type Outcome } from "./crew";
import type { Spread } from "./measured";

const USAGE = `npm run torture -- concurrency [--seconds 60] [--processes 8] [--threads 50] [--seed n]

Each process runs its own threads on one file, and five threads that all of them want. Two more processes read, verify and open the file, one prunes. For a
third of the time, one reads in a transaction that it doesn't finish.`;

/** How long the event loop may sleep for a lock. */
const LONGEST_LOCK_MS = 50;
/** How large the write-ahead log may be without an endless read: SQLite's limit, and what is added between two resets. */
const LONGEST_LOG = 64 * 2 ** 20 + 16 * 2 ** 20;

export async function run(options: readonly string[]): Promise<boolean> {
  const text = { type: "string" } as const;
  const { values } = parseArgs({
    args: [...options],
    options: { seconds: text, processes: text, threads: text, seed: text, help: { type: "boolean" } },
  });
  if (values.help === true) {
    console.log(USAGE);
    return true;
  }
  const seed = numberOf("seed", values.seed ?? String(Date.now() % 100_000));
  const folder = mkdtempSync(join(tmpdir(), "turns-crowd-"));
  const plan = {
    processes: numberOf("processes", values.processes ?? "8", 1),
    threads: numberOf("threads", values.threads ?? "50", 1),
    seconds: numberOf("seconds", values.seconds ?? "60", 1),
    seed,
  };
  console.log(`${plan.processes} processes × ${plan.threads} threads for ${plan.seconds} s, seed ${seed}`);
  try {
    const outcome = await turmoil({ ...plan, path: join(folder, "crowd.db") });
    const failures = [...outcome.failures, ...tooLong(outcome)];
    tell(outcome);
    for (const failure of failures.slice(0, 20)) console.log(`BROKEN ${failure.slice(0, 1_000)}`);
    console.log(failures.length === 0 ? "held" : `${failures.length} times broken`);
    return failures.length === 0;
  } finally {
    rmSync(folder, { recursive: true, force: true });
  }
}

function worst({ reports }: Outcome, name: string, role?: string): Spread {
  const all = reports
    .filter((report) => role === undefined || report.role === role)
    .map(({ figures }) => figures[name] as Spread);
  const of = (key: keyof Spread): number => Math.max(0, ...all.map((one) => one[key]));
  return { count: all.reduce((sum, { count }) => sum + count, 0), p50: of("p50"), p99: of("p99"), max: of("max") };
}

function tooLong(outcome: Outcome): string[] {
  const slept = (["locked", "opening"] as const).map((name) => [name, worst(outcome, name).max] as const);
  const stalls = slept
    .filter(([, max]) => max > LONGEST_LOCK_MS)
    .map(([name, max]) => `${name}: slept ${max.toFixed(1)} ms for a lock`);
  const { beforeReader, afterReader } = outcome.log;
  const long = [beforeReader, afterReader].filter((bytes) => bytes > LONGEST_LOG);
  const idle = outcome.reports.every(({ runs }) => runs === 0) ? ["nothing ran"] : [];
  return [...idle, ...stalls, ...long.map((bytes) => `a write-ahead log of ${megabytes(bytes)}`)];
}

function tell(outcome: Outcome): void {
  const { reports, log } = outcome;
  const sum = (key: "runs" | "rewinds" | "refused" | "looks"): number =>
    reports.reduce((total, report) => total + report[key], 0);
  console.log(
    `${sum("runs")} runs, ${sum("rewinds")} rewinds, ${sum("refused")} refused (THREAD_RUNNING), ${sum("looks")} reads and prunes`,
  );
  const row = (name: string, { count, p50, p99, max }: Spread): void =>
    console.log(
      `${name.padEnd(44)}${String(count).padStart(8)}${[p50, p99, max].map((ms) => ms.toFixed(1).padStart(10)).join("")}`,
    );
  console.log(
    `${"milliseconds; the worst process".padEnd(44)}${"times".padStart(8)}${["p50", "p99", "max"].map((one) => one.padStart(10)).join("")}`,
  );
  row("event loop asleep for the write lock", worst(outcome, "locked"));
  row("event loop asleep in a read", worst(outcome, "reading"));
  row("event loop asleep while opening", worst(outcome, "opening"));
  row("COMMIT, its fsync included", worst(outcome, "committing"));
  row("a writer's commit, from first try to done", worst(outcome, "waiting", "writer"));
  const delays = reports.map(({ longestLoopDelay }) => longestLoopDelay);
  console.log(`longest delay of an event loop, for any reason: ${Math.max(...delays).toFixed(0)} ms`);
  console.log(
    `write-ahead log: ${megabytes(log.beforeReader)}; during a read without end ${megabytes(log.withReader)}; after it ${megabytes(log.afterReader)}`,
  );
}

const megabytes = (bytes: number): string => `${(bytes / 2 ** 20).toFixed(1)} MiB`;
