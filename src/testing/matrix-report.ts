import type { Failpoint } from "../failpoints";
import type { ReachedPoint } from "./child-protocol";
import { type BoundaryName, type FailpointMatch, inWords } from "./failpoint-actions";
import type { Finding, ProblemKind } from "./matrix-verdict";

/** LangGraph's durability modes. */
export type Durability = "async" | "sync" | "exit";

/** One kill of a matrix: where, and under which durability mode. */
export interface CrashCase {
  kill: FailpointMatch;
  durability: Durability;
}

/** Where a matrix kills by default: the boundaries of turns and effects. */
export const MATRIX_BOUNDARIES: readonly BoundaryName[] = [
  "thought",
  "action",
  "writes",
  "checkpoint",
  "effect-intent",
  "effect-body",
  "effect-outcome",
  "undo-mark",
  "undo-body",
  "rewind-intent",
  "rewind",
];

/**
 * Every time the undisturbed run was at one of these places, named so that another run finds it again: ids differ from run to
 * run.
 */
export function casesOf(
  reached: readonly ReachedPoint[],
  wanted: readonly (BoundaryName | Failpoint)[],
  durability: Durability,
): CrashCase[] {
  const isWanted = ({ point }: ReachedPoint): boolean =>
    wanted.some((name) => name === point || name === point.slice(0, point.lastIndexOf(".")));
  return reached.flatMap((at, index) => {
    if (!isWanted(at)) return [];
    const { point, node, effect } = at;
    const isSuch = (other: ReachedPoint): boolean =>
      other.point === point && (node === undefined || other.node === node) && (effect === undefined || other.effect === effect);
    const nth = reached.slice(0, index + 1).filter(isSuch).length;
    return [{ kill: { point, nth, node, effect }, durability }];
  });
}

/** A sample of this size, in order; the same for the same seed. */
export function sampled<T>(all: readonly T[], size: number | undefined, seed: number): T[] {
  if (size === undefined || size >= all.length) return [...all];
  const random = randomFrom(seed);
  const places = all.map((_, index) => index);
  for (let at = 0; at < size; at += 1) {
    const other = at + Math.floor(random() * (places.length - at));
    [places[at], places[other]] = [places[other] as number, places[at] as number];
  }
  return places
    .slice(0, size)
    .sort((left, right) => left - right)
    .map((place) => all[place] as T);
}

/** mulberry32: small, and the same everywhere. */
function randomFrom(seed: number): () => number {
  let state = seed >>> 0;
  return () => {
    state = (state + 0x6d2b79f5) >>> 0;
    let mixed = Math.imul(state ^ (state >>> 15), state | 1);
    mixed ^= mixed + Math.imul(mixed ^ (mixed >>> 7), mixed | 61);
    return ((mixed ^ (mixed >>> 14)) >>> 0) / 2 ** 32;
  };
}

/** A kill, its resume, and what they revealed. */
export interface CrashRun extends CrashCase {
  /** The outcome of the resume; `unfinished` if it did not finish. */
  outcome: "finished" | "waiting" | "in-doubt" | "failed" | "unfinished";
  /** False if the run finished without reaching the point: the graph doesn't do the same in every run. */
  killed: boolean;
  problems: readonly Finding[];
  /** The nodes that were running at the kill and ran again, as they must. */
  ranAgain: readonly string[];
  /** The resume's error, if it did not finish. */
  error: string | undefined;
}

/** A finding, with the kill that revealed it. */
export interface Problem extends Finding {
  kill: FailpointMatch;
  durability: Durability;
}

const LABELS: Readonly<Record<ProblemKind, string>> = {
  "repeated-node": "node tasks that ran twice although durable",
  "repeated-effect": "effects that ran twice although completed",
  "repeated-unknown": "effects in doubt that were silently repeated",
  "repeated-side-effect": "side effects in the ledger that were repeated",
  lost: "lost",
  different: "ends that differ from the uncrashed run",
  failed: "resumes that failed",
};
const LINES = 20;

/** The result of a crash matrix. `String(report)` is a readable summary. */
export class CrashMatrixReport {
  constructor(
    /** The module's URL. */
    readonly module: string,
    /** The seed of the sample, if there was a `sample`. */
    readonly seed: number,
    /** How many places to kill at there were. */
    readonly places: number,
    readonly runs: readonly CrashRun[],
    /**
     * False if a final state differed and another undisturbed run differs too. Then `different` says nothing, and the module
     * needs a `normalise`.
     */
    readonly stable: boolean,
    /** How many side effects the undisturbed run recorded in the ledger. With none, only journaled effects were checked. */
    readonly ledgerEntries: number,
  ) {}

  /** How many runs were killed. */
  get kills(): number {
    return this.runs.filter(({ killed }) => killed).length;
  }

  /** All problems of all kills. */
  get problems(): Problem[] {
    return this.runs.flatMap(({ kill, durability, problems }) => problems.map((found) => ({ ...found, kill, durability })));
  }

  /** Kills after which an effect is in doubt, and a person must say what happened. That is no problem: it's what is promised. */
  get inDoubt(): CrashRun[] {
    return this.runs.filter(({ outcome }) => outcome === "in-doubt");
  }

  /** Places that the undisturbed run reached and a later one didn't. */
  get unreached(): CrashRun[] {
    return this.runs.filter(({ killed }) => !killed);
  }

  /**
   * After how many kills each node was running and ran again. That is no problem by itself: it's what a crash does. But what such
   * a node does outside of `effect()`, without recording it in the ledger, was repeated unseen.
   */
  get ranAgain(): ReadonlyMap<string, number> {
    const kills = new Map<string, number>();
    for (const node of this.runs.flatMap((run) => run.ranAgain)) kills.set(node, (kills.get(node) ?? 0) + 1);
    return kills;
  }

  /** Whether there are no problems. */
  get ok(): boolean {
    return this.problems.length === 0;
  }

  /** The problems of one kind. */
  of(kind: ProblemKind): Problem[] {
    return this.problems.filter((problem) => problem.kind === kind);
  }

  toString(): string {
    const drawn = this.runs.length < this.places ? ` of ${this.places} places, drawn with seed ${this.seed}` : "";
    const rows: [string, number][] = Object.entries(LABELS).map(([kind, label]) => [label, this.of(kind as ProblemKind).length]);
    rows.push(["left in doubt, as promised", this.inDoubt.length]);
    if (this.unreached.length > 0) rows.push(["places not reached again", this.unreached.length]);
    const width = Math.max(...rows.map(([label]) => label.length));
    return [
      `crash matrix of ${this.module.slice(this.module.lastIndexOf("/") + 1)}: ${this.kills} ${this.kills === 1 ? "kill" : "kills"}${drawn}`,
      ...rows.map(([label, count]) => `  ${label.padEnd(width)}  ${count}`),
      ...(this.ledgerEntries > 0 ? [] : ["  the ledger is empty: what nodes do outside of effect() was not watched"]),
      ...(this.stable ? [] : ["  two uncrashed runs end differently: give the module a `normalise`"]),
      ...listed(
        "problems",
        this.problems.map((problem) => `${where(problem)}: ${problem.what}`),
      ),
      ...listed("in doubt", this.inDoubt.map(where)),
      ...listed(
        "ran again, and with it what it does outside of effect()",
        [...this.ranAgain].map(
          ([node, kills]) => `node ${JSON.stringify(node)} after ${kills} ${kills === 1 ? "kill" : "kills"}`,
        ),
      ),
    ].join("\n");
  }
}

const where = ({ kill, durability }: CrashCase): string => `killed at ${inWords(kill)} (${durability})`;

function listed(title: string, lines: readonly string[]): string[] {
  if (lines.length === 0) return [];
  const more = lines.length > LINES ? [`  … and ${lines.length - LINES} more`] : [];
  return [`${title}:`, ...lines.slice(0, LINES).map((line) => `  ${line}`), ...more];
}
