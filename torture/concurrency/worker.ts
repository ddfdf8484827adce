import { vacuum } from "langgraph-checkpoint-turns/maintenance";
import { existsSync, writeFileSync } from "node:fs";
import { monitorEventLoopDelay } from "node:perf_hooks";
import Database from "better-sqlite3";
import { GraphRunner, TurnSaver } from "../../src/index";
import { Random } from "../fuzz/random";
import { noting, undos, valueOf } from "./graph";
import { measured, Nap, noFigures, type Spread, spread } from "./measured";
import { undosNamed } from "../../__tests__/support/undo-world";

/** One process's orders and its report: a line of JSON. */
export interface Task {
  role: "writer" | "reader" | "pruner";
  name: string;
  path: string;
  /** Own threads of a writer; threads that a reader looks at. */
  threadIds: string[];
  /** Threads that every writer wants to run. */
  shared: string[];
  /** How long to work, from the moment when the file `go` appears beside the database. */
  seconds: number;
  seed: number;
}

export interface Report {
  name: string;
  role: Task["role"];
  /** Broken promises. */
  errors: string[];
  runs: number;
  rewinds: number;
  refused: number;
  looks: number;
  /** By thread, what its log has to be. */
  expected: Record<string, string[]>;
  /** Values acknowledged on shared threads. */
  shared: Record<string, string[]>;
  figures: Record<string, Spread>;
  longestLoopDelay: number;
}

const task = JSON.parse(process.argv[2] ?? "{}") as Task;
const ledger = `${task.path}.${task.name}.ledger`;
const random = new Random(task.seed);
const figures = noFigures();
const logger = { debug() {}, info() {}, warn() {}, error() {} };
const report: Report = {
  ...{ name: task.name, role: task.role, errors: [], runs: 0, rewinds: 0, refused: 0, looks: 0 },
  ...{ expected: {}, shared: {}, figures: {}, longestLoopDelay: 0 },
};
const delays = monitorEventLoopDelay({ resolution: 5 });
const pause = (ms: number): Promise<void> => new Promise((resolve) => setTimeout(resolve, ms));
let until = Infinity;
const isOver = (): boolean => Date.now() >= until;
const codeOf = (error: unknown): string => (error as { code?: string }).code ?? "";

async function noted(work: () => Promise<void>, allowed: readonly string[] = []): Promise<void> {
  try {
    await work();
  } catch (error) {
    if (allowed.includes(codeOf(error))) report.refused += 1;
    else report.errors.push(`${codeOf(error)} ${String(error)}`.slice(0, 400));
  }
}

/** One thread, run again and again, each time with a value of its own; rewound now and then, and continued. */
async function keepsWriting(saver: TurnSaver, threadId: string, attached: boolean): Promise<void> {
  const graph = noting(saver, ledger);
  const runner = new GraphRunner(graph, { undos: undosNamed(undos(ledger)) });
  const log: string[] = [];
  report.expected[threadId] = log;
  for (let number = 1; !isOver(); number += 1) {
    const value = valueOf(threadId, number);
    await noted(async () => {
      const result = attached
        ? await graph.invoke({ next: value }, { configurable: { thread_id: threadId, task_id: value } })
        : await runner.invoke({ next: value }, { threadId, taskId: value });
      log.push(value);
      report.runs += 1;
      if (result.log.join() !== log.join()) throw new Error(`the log of ${threadId} is ${result.log.join()}, not ${log.join()}`);
    });
    const before = log.at(-2);
    if (before === undefined || !random.once(12)) continue;
    await noted(async () => {
      await runner.rewind({ threadId, toTask: before });
      log.pop();
      report.rewinds += 1;
    });
  }
}

/** Threads that all writers want: the second one is refused. */
async function wantsShared(saver: TurnSaver): Promise<void> {
  const runner = new GraphRunner(noting(saver, ledger), { undos: undosNamed(undos(ledger)) });
  for (let number = 1; !isOver(); number += 1) {
    const threadId = task.shared[random.below(task.shared.length)] ?? "";
    const value = valueOf(`${threadId}-${task.name}`, number);
    await noted(async () => {
      await runner.invoke({ next: value }, { threadId, taskId: value });
      (report.shared[threadId] ??= []).push(value);
      report.runs += 1;
    }, ["THREAD_RUNNING"]);
    await pause(20 + random.below(60));
  }
}

function opened(): TurnSaver {
  const nap = new Nap();
  const saver = TurnSaver.fromPath(task.path, { logger });
  figures.opening.push(nap.slept);
  return saver;
}

/** What is read is complete: only the thread's own values, each once, in the order in which they were written. */
function refuseMixed(threadId: string, log: readonly string[] = []): void {
  const sorted = [...new Set(log)].sort();
  if (log.some((value) => !value.startsWith(`${threadId}#`)) || sorted.join() !== log.join())
    throw new Error(`${threadId} reads ${log.join()}`);
}

async function keepsReading(saver: TurnSaver): Promise<void> {
  const graph = noting(saver, ledger);
  while (!isOver()) {
    const threadId = task.threadIds[random.below(task.threadIds.length)] ?? "";
    const config = { configurable: { thread_id: threadId } };
    await noted(async () => {
      refuseMixed(threadId, ((await graph.getState(config)).values as { log?: string[] }).log);
      for await (const state of graph.getStateHistory(config, { limit: 5 })) {
        refuseMixed(threadId, (state.values as { log?: string[] }).log);
        await pause(1);
      }
      for await (const { config: at } of saver.list(config, { limit: 10 })) {
        if (at.configurable?.["thread_id"] !== threadId) throw new Error(`${threadId} lists ${JSON.stringify(at)}`);
      }
      for (const { threadId: id } of await saver.listThreads()) if (!/^[ps]\d/.test(id)) throw new Error(`a thread ${id}`);
      report.looks += 1;
    });
    await noted(async () => {
      const { ok, problems } = await saver.verify({ threadId });
      if (!ok) throw new Error(JSON.stringify(problems[0]));
    }, ["THREAD_NOT_FOUND"]);
    await pause(5);
  }
}

async function keepsOpening(): Promise<void> {
  while (!isOver()) {
    await noted(async () => {
      const saver = opened();
      await saver.getTuple({ configurable: { thread_id: task.threadIds[0] ?? "" } });
      saver.close();
    });
    await pause(300);
  }
}

async function keepsPruning(saver: TurnSaver): Promise<void> {
  for (let round = 0; !isOver(); round += 1) {
    await noted(async () => {
      await saver.prune({ keepLast: 30 });
      if (round % 4 === 3) await vacuum(saver);
      report.looks += 1;
    });
    await pause(1_000);
  }
}

async function main(): Promise<void> {
  writeFileSync(`${task.path}.${task.name}.ready`, "");
  while (!existsSync(`${task.path}.go`)) await pause(20);
  until = Date.now() + task.seconds * 1_000;
  delays.enable();
  opened().close();
  const saver = new TurnSaver(measured(new Database(task.path), figures), {
    logger,
    ...(task.role === "writer" && task.seed % 2 === 0 ? { retention: { keepLast: 30 } } : {}),
  });
  if (task.role === "writer") {
    const own = task.threadIds.map((threadId, index) => keepsWriting(saver, threadId, index % 2 === 1));
    await Promise.all([...own, wantsShared(saver)]);
  } else if (task.role === "reader") await Promise.all([keepsReading(saver), keepsOpening()]);
  else await Promise.all([keepsPruning(saver), keepsOpening()]);
  saver.close();
  report.figures = Object.fromEntries(Object.entries(figures).map(([name, values]) => [name, spread(values as number[])]));
  report.longestLoopDelay = delays.max / 1e6;
  process.stdout.write(`${JSON.stringify(report)}\n`);
}

process.on("unhandledRejection", (error) => report.errors.push(`unhandled ${String(error)}`));
await main();
