import { PROMISES, type Promised } from "./checks";
import { featuresOf } from "./features";
import { type Draw, drawn, killsOf } from "./generate";
import type { Case, ClockPlan, Plan } from "./plan";
import { crashed, type Course, type Result, uncrashed } from "./trial";
import { Worker } from "./workers";

/** The counts of many trials. */
export interface Tally {
  plans: number;
  /** Plans that pass more points than a trial has time for. */
  tooLong: number;
  trials: number;
  kills: number;
  /** Trials in which a resuming process was killed too. */
  compound: number;
  /** What was counted in the runs that were killed: bodies and effects begun, doubts settled by probe, by key, by a person. */
  bodies: number;
  effects: number;
  probed: number;
  repeatedByKey: number;
  settled: number;
  /** By the name of the commit or place. */
  killedAt: Map<string, number>;
  /** The number of kills in programs with each feature. */
  features: Map<string, number>;
  /** How often each promise was broken. */
  broken: Record<Promised, number>;
  failures: Failure[];
}

export interface Failure {
  /** Which plan of the seed, from 0. */
  index: number;
  case: Case;
  result: Result;
}

export interface MatrixOptions {
  seed: number;
  kills: number;
  jobs: number;
  /** Trials of each plan, at most 8. */
  trialsPerPlan: number;
  /** Kills of each trial; as many as are drawn, unless said. */
  deaths?: number | undefined;
  /** What the wall clock does in the trials: it is right, it goes back by an hour from process to process, or it jumps both ways. Default: right. */
  clock?: ClockKind | undefined;
  /** Only this plan of the seed. */
  only?: number | undefined;
  child: string;
  root: string;
  onPlan?: (tally: Tally) => void;
  onFailure?: (failure: Failure) => void;
}

/** Ways for a wall clock to be wrong. */
export const CLOCKS = ["right", "back", "jumps"] as const;
export type ClockKind = (typeof CLOCKS)[number];
const SECOND = 1_000;
const HOUR = 3_600_000;
const JUMPS = [0, -HOUR, 10 * SECOND, -24 * HOUR, HOUR, -10 * SECOND, 24 * HOUR, 1, -1];

/** @param draw which of the ways in which it jumps */
function clockPlan(kind: ClockKind | undefined, draw: number): ClockPlan | undefined {
  if (kind === "back") return { offsets: [0, 1, 2, 3, 4, 5, 6, 7].map((hours) => -hours * HOUR), every: 0 };
  const first = draw % JUMPS.length;
  // A run asks for the time once or twice for each thing that it saves.
  if (kind === "jumps") return { offsets: [...JUMPS.slice(first), ...JUMPS.slice(0, first)], every: (draw * 7) % 40 };
  return undefined;
}

/** As they were drawn, or each with the given number of kills. */
function trialsOf<T>(trials: readonly (readonly T[])[], { deaths, trialsPerPlan }: MatrixOptions): (readonly T[])[] {
  if (deaths === undefined) return trials.slice(0, trialsPerPlan);
  const all = trials.flat();
  const count = Math.min(trialsPerPlan, Math.floor(all.length / deaths));
  return Array.from({ length: count }, (_, at) => all.slice(at * deaths, (at + 1) * deaths));
}

/** A plan beyond this takes seconds for each trial, and finds nothing that smaller ones don't. */
const POINTS_MAX = 600;
const PLANS_MAX = 2_000;
/** After this many failures, the rest would say the same. */
const FAILURES_MAX = 20;

/** Plans of a seed, one after the other, each killed in several trials, until enough processes have died. */
export async function crashMatrix(options: MatrixOptions): Promise<Tally> {
  const { seed, kills, jobs, only } = options;
  const tally = emptyTally();
  const draws = [...drawn(seed, PLANS_MAX).entries()].filter(([index]) => only === undefined || index === only);
  let next = 0;
  const work = async (worker: Worker): Promise<void> => {
    while (tally.kills < kills && tally.failures.length < FAILURES_MAX) {
      const [index, draw] = draws[next++] ?? [];
      if (index === undefined || draw === undefined) return;
      await plan(options, tally, worker, index, draw);
    }
  };
  const workers = Array.from({ length: jobs }, () => new Worker(options.child, options.root));
  try {
    await Promise.all(workers.map(work));
  } finally {
    for (const worker of workers) worker.close();
  }
  return tally;
}

async function plan(options: MatrixOptions, tally: Tally, worker: Worker, index: number, { plan, trials }: Draw): Promise<void> {
  const fail = (one: Case, result: Result): void => {
    const failure = { index, case: one, result };
    tally.failures.push(failure);
    for (const { promise } of result.faults) tally.broken[promise] += 1;
    options.onFailure?.(failure);
  };
  let whole: Course;
  try {
    whole = await uncrashed(worker, plan);
  } catch (error) {
    fail(
      { plan, kills: [] },
      { deaths: [], faults: [{ promise: "state", text: `without a crash: ${String(error)}` }], lines: [] },
    );
    return;
  }
  const { points: passed, tookMs } = whole.answer;
  const points = passed.length;
  if (points > POINTS_MAX) {
    tally.tooLong += 1;
    return;
  }
  tally.plans += 1;
  for (const [number, trial] of trialsOf(trials, options).entries()) {
    if (tally.kills >= options.kills) break;
    const one = { plan, kills: killsOf(trial, points, tookMs), clock: clockPlan(options.clock, index + number) };
    const result = await crashed(worker, one, whole);
    count(tally, plan, result);
    if (result.faults.length > 0) fail(one, result);
  }
  options.onPlan?.(tally);
}

function count(tally: Tally, plan: Plan, { deaths, lines }: Result): void {
  tally.trials += 1;
  tally.kills += deaths.length;
  if (deaths.length > 1) tally.compound += 1;
  for (const { point } of deaths) add(tally.killedAt, point.split(" ")[0] ?? "", 1);
  for (const feature of featuresOf(plan)) add(tally.features, feature, deaths.length);
  const deeds = new Map<string, number>();
  for (const line of lines) {
    if (line.t === "start") tally.bodies += 1;
    else if (line.t === "probe") tally.probed += 1;
    else if (line.t === "settled") tally.settled += 1;
    else if (line.t === "deed") deeds.set(line.key, (deeds.get(line.key) ?? 0) + 1);
  }
  tally.effects += deeds.size;
  tally.repeatedByKey += [...deeds.values()].filter((times) => times > 1).length;
}

function add(to: Map<string, number>, name: string, times: number): void {
  to.set(name, (to.get(name) ?? 0) + times);
}

function emptyTally(): Tally {
  const counts = {
    plans: 0,
    tooLong: 0,
    trials: 0,
    kills: 0,
    compound: 0,
    bodies: 0,
    effects: 0,
    probed: 0,
    repeatedByKey: 0,
    settled: 0,
  };
  const broken = Object.fromEntries(Object.keys(PROMISES).map((promise) => [promise, 0])) as Record<Promised, number>;
  return { ...counts, killedAt: new Map(), features: new Map(), broken, failures: [] };
}
