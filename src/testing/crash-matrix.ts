import { randomInt } from "node:crypto";
import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { z } from "zod";
import { TurnsError } from "../errors";
import { BODY_NAMES, COMMIT_NAMES, type Failpoint } from "../failpoints";
import { checkedOptions, functionSchema } from "../options";
import { graphFile } from "./launch";
import { casesOf, type CrashCase, CrashMatrixReport, type CrashRun, MATRIX_BOUNDARIES, sampled } from "./matrix-report";
import { findings, ranAgain, same } from "./matrix-verdict";
import { type BoundaryName, FAILPOINTS } from "./failpoint-actions";
import {
  type ChildRun,
  clockOffset,
  durabilitySchema,
  runFields,
  runInProcess,
  type RunOptions,
  runUntilKilled,
} from "./run-until-killed";

/** Options of {@link crashMatrix}. */
export interface CrashMatrixOptions extends Pick<RunOptions, "threadId" | "args" | "timeoutMs" | "execArgv" | "env"> {
  /**
   * Where to kill: boundaries (`"effect-body"`) or single failpoints (`"thought.after"`). Default: the boundaries of turns and
   * effects.
   */
  points?: readonly (BoundaryName | Failpoint)[];
  /** LangGraph's durability modes to test; each is a matrix of its own. Default `["async"]`. */
  durabilities?: readonly ("async" | "sync" | "exit")[];
  /**
   * How wrong the wall clock is in the killed process and in the one that resumes, in milliseconds. `[0, -3_600_000]` is a clock
   * that was set back by an hour in between. Default `[0, 0]`.
   */
  clockOffsetsMs?: readonly [killed: number, resumed: number];
  /** Kill at only this many places, drawn with `seed`. Default: at all. */
  sample?: number;
  /** Default: a new one each time, which the report contains. */
  seed?: number;
  /** How many kills run at the same time. Default 2. */
  atOnce?: number;
  /** Whether two final states are the same. Default: equal in every part, types included. */
  compare?: (expected: unknown, found: unknown) => boolean;
  /** Called after each kill and its resume. */
  onRun?: (run: CrashRun, done: number, of: number) => void;
}

const isPlace = (value: unknown): boolean => ([...COMMIT_NAMES, ...BODY_NAMES, ...FAILPOINTS] as unknown[]).includes(value);
const place = z.custom<BoundaryName | Failpoint>(isPlace, "must be the name of a boundary or a failpoint");

const schema = z.strictObject({
  ...runFields,
  points: z
    .array(place)
    .min(1)
    .default([...MATRIX_BOUNDARIES]),
  durabilities: z.array(durabilitySchema).min(1).default(["async"]),
  clockOffsetsMs: z.tuple([clockOffset, clockOffset]).default([0, 0]),
  sample: z.number().int().min(1).optional(),
  seed: z.number().int().min(0).max(0xffff_ffff).optional(),
  atOnce: z.number().int().min(1).max(64).default(2),
  compare: functionSchema<NonNullable<CrashMatrixOptions["compare"]>>().default(() => same),
  onRun: functionSchema<NonNullable<CrashMatrixOptions["onRun"]>>().optional(),
});

/**
 * Runs a graph once undisturbed. Then, for every boundary of a turn or an effect it passed, runs it on a fresh database, kills it
 * there, resumes it in another process, and compares.
 *
 * @returns what was repeated, lost or different; an effect in doubt is reported, but is no problem
 * @throws {TurnsError} INVALID_OPTION; GRAPH_MODULE_INVALID; CHILD_TIMED_OUT and CHILD_FAILED from the undisturbed run;
 *   MATRIX_IMPOSSIBLE if that doesn't finish by itself, or passes none of the places
 */
export async function crashMatrix(graphModule: string | URL, options: CrashMatrixOptions = {}): Promise<CrashMatrixReport> {
  const checked = checkedOptions(schema, options);
  const { url } = graphFile(graphModule);
  const folder = mkdtempSync(join(tmpdir(), "turns-matrix-"));
  try {
    return await new Matrix(url, checked, folder).report();
  } finally {
    rmSync(folder, { recursive: true, force: true, maxRetries: 3 });
  }
}

class Matrix {
  #databases = 0;

  constructor(
    private readonly url: string,
    private readonly options: z.output<typeof schema>,
    private readonly folder: string,
  ) {}

  async report(): Promise<CrashMatrixReport> {
    const { durabilities, points, sample, seed = randomInt(2 ** 32) } = this.options;
    const whole = new Map<CrashCase["durability"], ChildRun>();
    for (const durability of durabilities) whole.set(durability, await this.#undisturbed(durability));
    const places = [...whole].flatMap(([durability, { points: reached }]) => casesOf(reached, points, durability));
    if (places.length === 0) throw impossible("a run that passes the places asked for", `none of ${points.join(", ")}`);
    const runs = await this.#all(sampled(places, sample, seed), whole);
    const stable = await this.#isStable(runs, whole);
    const most = Math.max(...[...whole.values()].map((run) => run.ledgerEntries.length));
    return new CrashMatrixReport(this.url, seed, places.length, runs, stable, most);
  }

  /** Whether another undisturbed run finishes like the first one. Asked when a final state differed. */
  async #isStable(runs: readonly CrashRun[], whole: ReadonlyMap<string, ChildRun>): Promise<boolean> {
    const odd = runs.find(({ problems }) => problems.some(({ kind }) => kind === "different"));
    if (odd === undefined) return true;
    const again = await this.#undisturbed(odd.durability);
    return this.options.compare(whole.get(odd.durability)?.final, again.final);
  }

  async #all(cases: readonly CrashCase[], whole: ReadonlyMap<string, ChildRun>): Promise<CrashRun[]> {
    const { atOnce, onRun } = this.options;
    const runs: CrashRun[] = [];
    let next = 0;
    let done = 0;
    const worker = async (): Promise<void> => {
      for (let at = next++; at < cases.length; at = next++) {
        const one = cases[at] as CrashCase;
        const run = await this.#crash(one, whole.get(one.durability) as ChildRun);
        runs[at] = run;
        onRun?.(run, ++done, cases.length);
      }
    };
    await Promise.all(Array.from({ length: atOnce }, worker));
    return runs;
  }

  async #undisturbed(durability: CrashCase["durability"]): Promise<ChildRun> {
    const run = await this.#apart((path) => runInProcess(this.url, { ...this.#common(), path, durability }));
    if (run.outcome === "finished" || run.outcome === "waiting") return run;
    const found = `one that is ${run.outcome}${run.error === undefined ? "" : `: ${run.error.message}`}`;
    throw impossible("an undisturbed run that comes to an end", found, run.error);
  }

  async #crash(one: CrashCase, whole: ChildRun): Promise<CrashRun> {
    const { kill, durability } = one;
    let wasKilled = false;
    try {
      return await this.#apart(async (path) => {
        const options = { ...this.#common(), path, durability };
        const [before, behind] = this.options.clockOffsetsMs;
        const killed = await runUntilKilled(this.url, kill, { ...options, clockOffsetMs: before });
        wasKilled = killed.killed;
        const resumed = await runInProcess(this.url, { ...options, clockOffsetMs: behind });
        const pair = { killed, resumed };
        const problems = findings(whole, pair, this.options.compare);
        const outcome = resumed.outcome as CrashRun["outcome"];
        return { ...one, outcome, killed: wasKilled, problems, ranAgain: ranAgain(pair), error: resumed.error?.message };
      });
    } catch (error) {
      if (!TurnsError.is(error, "CHILD_TIMED_OUT") && !TurnsError.is(error, "CHILD_FAILED")) throw error;
      const { message } = error;
      const problems = [{ kind: "failed", what: message }] as const;
      return { ...one, outcome: "unfinished", killed: wasKilled, problems, ranAgain: [], error: message };
    }
  }

  #common(): RunOptions {
    const { threadId, args, timeoutMs, execArgv, env } = this.options;
    return { threadId, args, timeoutMs, execArgv, env };
  }

  /** Uses a database and a folder of its own, which is then removed: a matrix is long, and disk space isn't. */
  async #apart<T>(work: (path: string) => Promise<T>): Promise<T> {
    const folder = mkdtempSync(join(this.folder, `${++this.#databases}-`));
    try {
      return await work(join(folder, "agent.db"));
    } finally {
      rmSync(folder, { recursive: true, force: true, maxRetries: 3 });
    }
  }
}

const impossible = (expected: string, found: string, cause?: unknown): TurnsError =>
  new TurnsError("MATRIX_IMPOSSIBLE", {
    problem: `The crash matrix can't run: it needs ${expected}, and found ${found}.`,
    remedy: "runInProcess(graphModule) shows how the run goes; a matrix compares with it.",
    cause,
  });
