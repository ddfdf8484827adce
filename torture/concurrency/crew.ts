import { spawn } from "node:child_process";
import { existsSync, readFileSync, statSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import Database from "better-sqlite3";
import { TurnSaver } from "../../src/index";
import type { Report, Task } from "./worker";

export interface Plan {
  path: string;
  /** How many writers; two readers and one that prunes come with them. */
  processes: number;
  /** Per writer. */
  threads: number;
  seconds: number;
  seed: number;
}

export interface Outcome {
  reports: Report[];
  /** What broke a promise. */
  failures: string[];
  /** Bytes of the write-ahead log. */
  log: { beforeReader: number; withReader: number; afterReader: number };
}

const ROOT = process.cwd();

/** Runs all processes on one file, with a read without end for a third of the time, and then checks the file. */
export async function turmoil(plan: Plan): Promise<Outcome> {
  const { path, processes, threads, seconds, seed } = plan;
  TurnSaver.fromPath(path).close();
  const common = { path, shared: Array.from({ length: 5 }, (_, index) => `s${index}`), seconds };
  const writers = Array.from({ length: processes }, (_, index): Task => {
    const threadIds = Array.from({ length: threads }, (__, thread) => `p${index}-t${thread}`);
    return { ...common, role: "writer", name: `writer${index}`, threadIds, seed: seed + index };
  });
  const all = writers.flatMap(({ threadIds }) => threadIds);
  const others = (["reader", "reader", "pruner"] as const).map((role, index): Task => ({
    ...common,
    role,
    name: `${role}${index}`,
    threadIds: all,
    seed: seed + 100 + index,
  }));
  const crew = [...writers, ...others];
  const working = Promise.all(crew.map(child));
  const isReady = ({ name }: Task): boolean => existsSync(`${path}.${name}.ready`);
  while (!crew.every(isReady)) await Promise.race([working, new Promise((resolve) => setTimeout(resolve, 50))]);
  writeFileSync(`${path}.go`, "");
  const log = await longReader(path, seconds);
  const reports = await working;
  return {
    reports,
    failures: [
      ...reports.flatMap(({ name, errors }) => errors.map((error) => `${name}: ${error}`)),
      ...(await judged(path, reports)),
    ],
    log,
  };
}

function child(task: Task): Promise<Report> {
  // If helper threads got no processor, the collector's pauses would look like sleep.
  const script = join(ROOT, "torture/concurrency/worker.ts");
  return new Promise((resolve, reject) => {
    const running = spawn(process.execPath, ["--single-threaded-gc", "--import", "tsx", script, JSON.stringify(task)], {
      env: { ...process.env, NODE_OPTIONS: process.env.TURNS_TEST_NODE_OPTIONS ?? "" },
      stdio: ["ignore", "pipe", "pipe"],
    });
    let out = "";
    let err = "";
    running.stdout.on("data", (text) => (out += String(text)));
    running.stderr.on("data", (text) => (err += String(text)));
    running.on("error", reject);
    running.on("close", (code) => {
      if (code === 0) resolve(JSON.parse(out) as Report);
      else reject(new Error(`${task.name} exited with ${code}: ${err.slice(0, 2_000)}`));
    });
  });
}

/** Another program's transaction that stays open: the log cannot get shorter while it reads. */
async function longReader(path: string, seconds: number): Promise<Outcome["log"]> {
  const size = (): number => statSync(`${path}-wal`, { throwIfNoEntry: false })?.size ?? 0;
  const begun = Date.now();
  const until = (share: number): Promise<void> =>
    new Promise((resolve) => setTimeout(resolve, Math.max(0, begun + share * seconds * 1_000 - Date.now())));
  await until(1 / 3);
  const beforeReader = size();
  const db = new Database(path, { readonly: true });
  db.exec("BEGIN");
  db.prepare("SELECT count(*) FROM langgraph_threads").get();
  await until(2 / 3);
  const withReader = size();
  db.exec("COMMIT");
  db.close();
  await until(0.98);
  return { beforeReader, withReader, afterReader: size() };
}

async function judged(path: string, reports: readonly Report[]): Promise<string[]> {
  const failures: string[] = [];
  const saver = TurnSaver.fromPath(path);
  const logOf = async (threadId: string): Promise<string[]> => {
    const tuple = await saver.getTuple({ configurable: { thread_id: threadId } });
    return (tuple?.checkpoint.channel_values["log"] ?? []) as string[];
  };
  const written = ledgerOf(path, reports);
  for (const { expected } of reports) {
    for (const [threadId, log] of Object.entries(expected)) {
      const found = await logOf(threadId);
      if (found.join() !== log.join()) failures.push(`${threadId} holds ${found.join()}, not ${log.join()}`);
    }
  }
  for (const threadId of new Set(reports.flatMap(({ shared }) => Object.keys(shared)))) {
    const found = await logOf(threadId);
    const told = reports.flatMap(({ shared }) => shared[threadId] ?? []);
    if ([...found].sort().join() !== [...told].sort().join())
      failures.push(`${threadId} holds ${found.join()}, not ${told.join()}`);
    if (found.some((value, at) => found.slice(0, at).some((one) => sameWriter(one, value) && one >= value)))
      failures.push(`${threadId} is out of order: ${found.join()}`);
  }
  for (const [value, times] of written) if (times !== 1) failures.push(`the side effect ${value} was done ${times} times`);
  const kept = reports.flatMap(({ expected, shared }) => [...Object.values(expected), ...Object.values(shared)].flat());
  for (const value of kept) if (!written.has(value)) failures.push(`the side effect ${value} is missing`);
  const { ok, problems } = await saver.verify();
  if (!ok) failures.push(...problems.map((problem) => JSON.stringify(problem)));
  saver.close();
  return failures;
}

const sameWriter = (one: string, other: string): boolean => one.split("#")[0] === other.split("#")[0];

/** How often each value was noted. */
function ledgerOf(path: string, reports: readonly Report[]): Map<string, number> {
  const times = new Map<string, number>();
  for (const { name } of reports) {
    const file = `${path}.${name}.ledger`;
    const lines = existsSync(file) ? readFileSync(file, "utf8").trim().split("\n") : [];
    for (const line of lines) if (line.startsWith("+")) times.set(line.slice(1), (times.get(line.slice(1)) ?? 0) + 1);
  }
  return times;
}
