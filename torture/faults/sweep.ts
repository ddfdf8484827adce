import { faultsAfter } from "./check";
import type { Ground, Grounds } from "./grounds";
import { type Fault, type Order, type Told, withFault, withoutFault } from "./run-child";

/** One workload under one kind of fault. The place of the fault moves call by call, until the workload no longer reaches it. */
export interface Scenario {
  workload: string;
  ground: Ground;
  calls: Fault["calls"];
  error: Fault["error"];
  /** How long the fault lasts: one call, a few calls, for ever. Or the process dies at the first refusal, to see whether that commit was made. */
  lasts: "once" | "a while" | "for good" | "to the death";
}

export interface Tally {
  runs: number;
  injected: number;
  /** Runs that met a fault and didn't report it, because nothing was lost by it. */
  unnoticed: number;
  refused: Map<string, number>;
  lostTurns: number;
  acknowledged: number;
  wrong: string[];
}

export interface SweepOptions {
  rounds: number;
  /** From which call on, and how far the place moves each time. */
  from: number;
  stride: number;
  /** The last place at most. */
  upto: number;
}

const WHILE_CALLS = 6;
const TRIES: Record<Scenario["lasts"], number> = { once: 3, "a while": WHILE_CALLS + 3, "for good": 1, "to the death": 0 };

export function newTally(): Tally {
  return { runs: 0, injected: 0, unnoticed: 0, refused: new Map(), lostTurns: 0, acknowledged: 0, wrong: [] };
}

/** @returns the sum of all its runs */
export async function sweep(child: string, grounds: Grounds, scenario: Scenario, options: SweepOptions): Promise<Tally> {
  const tally = newTally();
  const whole = await untroubled(child, grounds, scenario, options.rounds);
  for (let first = options.from; first <= options.upto; first += options.stride) {
    const { workload, ground, calls, error, lasts } = scenario;
    const last = lasts === "once" || lasts === "to the death" ? undefined : lasts === "a while" ? first + WHILE_CALLS - 1 : "+";
    const place = await grounds.laid(ground);
    const order: Order = { ...place, workload, tries: TRIES[lasts], rounds: options.rounds };
    const told = await withFault(child, order, { calls, error, first, last }, place.log);
    const wrong = await faultsAfter(order, told);
    if (lasts === "once" || lasts === "a while") wrong.push(...whatIsMissing(whole, told));
    wrong.push(...whatIsAltered(whole, told));
    add(tally, told, wrong, `${nameOf(scenario)}, at ${first}`);
    if (wrong.length === 0 || process.env["TORTURE_KEEP"] === undefined) place.remove();
    if (told.injected === 0) return tally;
  }
  return tally;
}

export function nameOf({ workload, ground, calls, error, lasts }: Scenario): string {
  return `${workload}${ground === "nothing" ? "" : ` on ${ground}`}: ${error} from ${calls}, ${lasts}`;
}

export function add(tally: Tally, told: Told, wrong: readonly string[], name: string): void {
  tally.runs += 1;
  tally.injected += told.injected;
  let noticed = false;
  for (const line of told.lines) {
    if (line.kind === "refused") {
      noticed = true;
      const key = `${line.code}${line.sqlite === undefined ? "" : ` ${line.sqlite}`}`;
      tally.refused.set(key, (tally.refused.get(key) ?? 0) + 1);
    }
    if (line.kind === "lost-turn") {
      noticed = true;
      tally.lostTurns += 1;
    }
    if (line.kind === "ack" || line.kind === "saw") tally.acknowledged += 1;
  }
  if (!noticed && told.injected > 0) tally.unnoticed += 1;
  tally.wrong.push(...wrong.map((what) => `${name}: ${what}`));
}

/** The same without any fault. */
async function untroubled(child: string, grounds: Grounds, { workload, ground }: Scenario, rounds: number): Promise<Told> {
  const name = `${workload} on ${ground}, ${rounds}`;
  const known = grounds.untroubled.get(name);
  if (known !== undefined) return known;
  const place = await grounds.laid(ground);
  const order = { ...place, workload, tries: 1, rounds };
  const told = await withoutFault(child, order);
  grounds.untroubled.set(name, told);
  const wrong = await faultsAfter(order, told);
  place.remove();
  const refused = told.lines.filter(({ kind }) => kind === "refused" || kind === "lost-turn");
  // A run that continues a killed one may have effects in doubt.
  if (wrong.length > 0 || (refused.length > 0 && !ground.startsWith("dead"))) {
    throw new Error(
      `${workload} fails without a fault: ${[...wrong, ...refused.map((line) => JSON.stringify(line))].join("; ")}`,
    );
  }
  return told;
}

/** Once the fault is over, the same saver does everything it is asked for. */
export function whatIsMissing(whole: Told, told: Told): string[] {
  const done = new Set(told.lines.filter(({ kind }) => kind === "ack").map((line) => JSON.stringify(line)));
  const wanted = whole.lines.filter(({ kind }) => kind === "ack").map((line) => JSON.stringify(line));
  return wanted.filter((line) => !done.has(line)).map((line) => `never done, though the fault was over: ${line}`);
}

/** Everything that could be read is the same as without a fault. */
function whatIsAltered(whole: Told, told: Told): string[] {
  const right = new Map(whole.lines.flatMap((line) => (line.kind === "saw" ? [[line.what, line.value] as const] : [])));
  return told.lines.flatMap((line) =>
    line.kind === "saw" && right.get(line.what) !== line.value ? [`read otherwise than it is: ${line.what}`] : [],
  );
}
