import { setImmediate } from "node:timers/promises";
import { wrongAfter, wrongWith } from "./judge";
import type { Random } from "./random";
import { Finding, type Session } from "./target";

export interface Found {
  what: string;
  input: Buffer;
}

export interface Tried {
  inputs: number;
  /** How many different answers there were. */
  answers: number;
  found: readonly Found[];
  /** The longest time that one input took, milliseconds of the processor's, and its length. */
  slowest: { ms: number; length: number };
  /** The most memory that the process ever had. */
  peakMb: number;
}

export interface Limits {
  inputs?: number | undefined;
  milliseconds?: number | undefined;
  /** An input that takes more of the processor's time is a finding; one that only waits shows as silence. Not in CI. */
  slowMs?: number;
  /** An input that takes more memory is a finding, unless it is as long as that itself. */
  memoryMb?: number;
  /** Called with each input before it is tried. */
  begin?: (input: Buffer) => void;
}

/** Some valid inputs check that the target accepts them; not all are needed. */
const SEEDS_FIRST = 10;
const POOL_MAX = 2_000;
const LONGEST = 400_000;
const FOUND_MAX = 20;
const MB = 2 ** 20;
/** How often the event loop gets a turn: only then are unhandled rejections reported. */
const TURN_EVERY = 50;
/** Memory that isn't freed between measurements: what an input of this length may take in addition. */
const BYTES_PER_BYTE = 200;

/**
 * Tries the seeds and then mutations of them. An input that gets an answer in new words is mutated further. That replaces counting
 * branches, which would need an instrumented engine.
 */
export async function tried(session: Session, random: Random, limits: Limits): Promise<Tried> {
  const pool = [...session.seeds];
  const answers = new Set<string>();
  const found = new Map<string, Found>();
  const slowest = { ms: 0, length: 0 };
  const end = performance.now() + (limits.milliseconds ?? Infinity);
  let inputs = 0;
  // Unhandled rejections count too. LangGraph doesn't handle rejections of its saves; those are named errors.
  const left: unknown[] = [];
  const leave = (reason: unknown): void => void left.push(reason);
  process.on("unhandledRejection", leave);
  while (inputs < (limits.inputs ?? Infinity) && performance.now() < end && found.size < FOUND_MAX) {
    const seed = inputs < Math.min(SEEDS_FIRST, (limits.inputs ?? Infinity) / 4) ? session.seeds[inputs] : undefined;
    const input = seed ?? session.mutate(random.of(pool), random.of(pool), random);
    if (input.length > LONGEST) continue;
    inputs += 1;
    limits.begin?.(input);
    const memory = memoryMb();
    const begun = process.cpuUsage();
    try {
      const answer = await fed(session, input, left);
      if (!answers.has(answer) && pool.length < POOL_MAX) pool.push(input);
      answers.add(answer);
    } catch (error) {
      if (!(error instanceof Finding)) throw error;
      if (!found.has(error.message)) found.set(error.message, { what: error.message, input });
    }
    const ms = cpuMs(begun);
    if (inputs % TURN_EVERY === 0) await setImmediate();
    if (ms > slowest.ms) Object.assign(slowest, { ms, length: input.length });
    const tooMuch = [
      ms > (limits.slowMs ?? Infinity) ? `${Math.round(ms)} ms` : undefined,
      taken(memory) - (input.length * BYTES_PER_BYTE) / MB > (limits.memoryMb ?? Infinity) ? `${taken(memory)} MB` : undefined,
    ].filter((words) => words !== undefined);
    for (const words of tooMuch) found.set(words, { what: `${words} for ${input.length} bytes`, input });
  }
  await setImmediate();
  const wrong = unhandled(left);
  if (wrong !== undefined) found.set(wrong, { what: wrong, input: Buffer.from("") });
  process.off("unhandledRejection", leave);
  return { inputs, answers: answers.size, found: [...found.values()], slowest, peakMb: Math.round(memoryMb().peak) };
}

/** @throws {Finding} */
async function fed(session: Session, input: Buffer, left: unknown[]): Promise<string> {
  const feed = async (): Promise<string> => session.feed(input);
  const outcome = await feed().then(
    (answer) => () => answer,
    (error: unknown) => () => {
      throw error;
    },
  );
  // No matter what the answer was.
  const changed = wrongAfter();
  if (changed !== undefined) throw new Finding(changed);
  const answer = outcome();
  const wrong = unhandled(left);
  if (wrong !== undefined) throw new Finding(wrong);
  return answer;
}

function unhandled(left: unknown[]): string | undefined {
  const wrong = left
    .splice(0)
    .map(wrongWith)
    .find((words) => words !== undefined);
  return wrong && `left unhandled: ${wrong}`;
}

/** Other work on the machine does not count. */
function cpuMs(since: NodeJS.CpuUsage): number {
  const { user, system } = process.cpuUsage(since);
  return (user + system) / 1_000;
}

interface Memory {
  /** The process's peak: shows memory that was freed again. */
  peak: number;
  /** Heap and buffers now: shows memory that is kept, below an earlier peak. */
  now: number;
}

function memoryMb(): Memory {
  const { heapUsed, external } = process.memoryUsage();
  return { peak: process.resourceUsage().maxRSS / 1_024, now: (heapUsed + external) / MB };
}

/** How much more it is than before, MB. */
function taken(before: Memory): number {
  const after = memoryMb();
  return Math.round(Math.max(after.peak - before.peak, after.now - before.now));
}
