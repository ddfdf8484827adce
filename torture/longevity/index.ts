import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { parseArgs } from "node:util";
import { TurnSaver, type TurnSaverOptions } from "langgraph-checkpoint-turns";
import { numberOf } from "../numbers";
import { type Life, live, threadId, WINDOW } from "./lives";
import { early, growth, late, megabytes, weigh } from "./measure";

const USAGE = `npm run torture -- longevity [--steps 100000] [--threads 2000]

All steps run in one process: a tenth on one thread whose log only grows, four tenths on one whose log keeps its last ${WINDOW} lines, with retention,
and half of them over all the threads.`;

/** What may be added between the second and the last fifth of a phase. */
const MEMORY_SLACK = 16e6;
const FILE_SLACK = 1.25;
/** So that it is full of threads long before the first fifth of their lives is over. */
const SMALL_CACHE = 1_000_000;

export async function run(options: readonly string[]): Promise<boolean> {
  const text = { type: "string" } as const;
  const { values } = parseArgs({ args: [...options], options: { steps: text, threads: text, help: { type: "boolean" } } });
  if (values.help === true) {
    console.log(USAGE);
    return true;
  }
  const steps = numberOf("steps", values.steps ?? "100000", 1_000);
  const threads = numberOf("threads", values.threads ?? "2000", 1);
  const folder = mkdtempSync(join(tmpdir(), "turns-long-"));
  try {
    const begun = weigh("", 0).memory;
    const verdicts = [
      ...(await growing(join(folder, "growing.db"), steps / 10)),
      ...(await windowed(join(folder, "windowed.db"), (4 * steps) / 10)),
      ...(await many(join(folder, "many.db"), steps / 2, threads)),
    ];
    const after = weigh("", steps).memory;
    verdicts.push(
      verdict("memory after all savers were closed", after - begun < MEMORY_SLACK, `${megabytes(begun)} → ${megabytes(after)}`),
    );
    return verdicts.every((held) => held);
  } finally {
    rmSync(folder, { recursive: true, force: true });
  }
}

/** One thread, nothing deleted: what a step adds to the file does not depend on how long the thread is. */
async function growing(path: string, steps: number): Promise<boolean[]> {
  return withSaver(path, {}, async (saver) => {
    const life = await live("growing", { saver, path, steps, window: undefined, threads: 1 });
    const [then, now] = [growth(life.weights, 0.2, 0.5), growth(life.weights, 0.7, 1)];
    return [
      memoryIsFlat(life, 2 * life.made),
      verdict("growing: bytes a step adds to the file", now <= FILE_SLACK * then, `${then.toFixed(0)} → ${now.toFixed(0)}`),
      ...(await historyPages(saver, threadId("growing", 0))),
    ];
  });
}

/** One thread with a sliding window and retention: the file keeps its size. */
async function windowed(path: string, steps: number): Promise<boolean[]> {
  return withSaver(path, { retention: { keepLast: 50 } }, async (saver) => {
    const life = await live("windowed", { saver, path, steps, window: WINDOW, threads: 1 });
    const [then, now] = [early(life.weights, ({ file }) => file), late(life.weights, ({ file }) => file)];
    return [
      memoryIsFlat(life, 0),
      verdict("windowed: the file", now <= FILE_SLACK * then + 1e6, `${megabytes(then)} → ${megabytes(now)}`),
    ];
  });
}

/** Thousands of threads in turn: what a run adds does not depend on how many there are, nor does memory. */
async function many(path: string, steps: number, threads: number): Promise<boolean[]> {
  return withSaver(path, { cacheSize: SMALL_CACHE }, async (saver) => {
    const life = await live("many", { saver, path, steps, window: WINDOW, threads });
    const [then, now] = [growth(life.weights, 0.2, 0.5), growth(life.weights, 0.7, 1)];
    return [
      memoryIsFlat(life, 0),
      verdict("many: bytes a step adds to the file", now <= FILE_SLACK * then, `${then.toFixed(0)} → ${now.toFixed(0)}`),
      await threadPages(saver, Math.min(threads, life.steps / 25)),
    ];
  });
}

/** @param state what the thread's state itself may take more */
function memoryIsFlat({ name, weights }: Life, state: number): boolean {
  const [then, now] = [early(weights, ({ memory }) => memory), late(weights, ({ memory }) => memory)];
  const rss = `resident ${megabytes(early(weights, (at) => at.rss))} → ${megabytes(late(weights, (at) => at.rss))}`;
  return verdict(`${name}: memory`, now - then < MEMORY_SLACK + state, `${megabytes(then)} → ${megabytes(now)}, ${rss}`);
}

/** The history of a thread is read page by page: all of it, in order, and never all in memory. */
async function historyPages(saver: TurnSaver, thread: string): Promise<boolean[]> {
  const before = weigh("", 0).memory;
  const ids: string[] = [];
  let peak = 0;
  for await (const { checkpoint } of saver.list({ configurable: { thread_id: thread } })) {
    ids.push(checkpoint.id);
    if (ids.length % 2_000 === 0) peak = Math.max(peak, weigh("", 0).memory - before);
  }
  const paged: string[] = [];
  for (let last: string | undefined; ; last = paged.at(-1)) {
    const options = { limit: 100, before: last === undefined ? undefined : { configurable: { checkpoint_id: last } } };
    let count = 0;
    for await (const { checkpoint } of saver.list({ configurable: { thread_id: thread } }, options)) {
      paged.push(checkpoint.id);
      count += 1;
    }
    if (count < 100) break;
  }
  const same = paged.length === ids.length && paged.every((id, index) => id === ids[index]);
  return [
    verdict("growing: history by pages of 100 is the history", same, `${paged.length} of ${ids.length} checkpoints`),
    verdict("growing: memory while the history is read", peak < 4 * MEMORY_SLACK, `+${megabytes(peak)}`),
  ];
}

async function threadPages(saver: TurnSaver, expected: number): Promise<boolean> {
  const ids: string[] = [];
  for (const { threadId: id } of await saver.listThreads()) ids.push(id);
  const isWhole =
    new Set(ids).size === expected && ids.length === expected && ids.every((id, at) => at === 0 || id > (ids[at - 1] ?? ""));
  return verdict("many: listThreads has each thread once, in order", isWhole, `${ids.length} of ${expected}`);
}

async function withSaver<T>(path: string, options: TurnSaverOptions, work: (saver: TurnSaver) => Promise<T>): Promise<T> {
  const saver = TurnSaver.fromPath(path, { synchronous: "normal", ...options });
  try {
    return await work(saver);
  } finally {
    saver.close();
  }
}

function verdict(what: string, held: boolean, seen: string): boolean {
  console.log(`${held ? "held  " : "BROKEN"}  ${what}: ${seen}`);
  return held;
}
