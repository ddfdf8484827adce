import { isDeepStrictEqual } from "node:util";
import type { Finish } from "./drive";
import type { Line } from "./ledger";
import type { Plan } from "./plan";
import type { Course } from "./trial";

/** The promises that the matrix checks. `state`: the run finishes, and everything visible of it is as without a crash. */
export const PROMISES = {
  tasks: "completed node tasks repeated",
  effects: "completed effects repeated",
  doubts: "unknown effects repeated silently",
  state: "states different from the uncrashed run",
} as const;
export type Promised = keyof typeof PROMISES;

export interface Fault {
  promise: Promised;
  text: string;
}

/** Everything that a killed run did and shouldn't have done. */
export function faultsOf(plan: Plan, whole: Course, course: Course): Fault[] {
  // LangGraph keeps nothing of a run that is lost: there only effects and the result count.
  const isKept = plan.durability !== "exit";
  return [
    ...differences(whole.answer.finish, course.answer.finish, isKept),
    ...(isKept ? [...repeatedBodies(course.lines), ...otherVisits(whole.lines, course.lines)] : []),
    ...wrongEffects(course.lines),
    ...otherEffects(whole.lines, course.lines),
  ];
}

const KEPT: readonly (keyof Finish)[] = ["history", "tasks", "ended", "effects"];

function differences(wanted: Finish, found: Finish, isKept: boolean): Fault[] {
  const parts: readonly (keyof Finish)[] = ["values", "next", ...(isKept ? KEPT : [])];
  const faults = parts.flatMap((part) =>
    isDeepStrictEqual(wanted[part], found[part])
      ? []
      : [`${part}: without a crash ${JSON.stringify(wanted[part])}, now ${JSON.stringify(found[part])}`],
  );
  if (isKept && found.inFlight.length > 0) faults.push(`in flight at the end: ${found.inFlight.join(", ")}`);
  if (found.problems.length > 0) faults.push(`verify found ${JSON.stringify(found.problems)}`);
  if (found.integrity !== "ok") faults.push(`integrity_check: ${found.integrity}`);
  return faults.map((text) => ({ promise: "state", text }));
}

/** Bodies that began again although their Action was durable when a process had died, or continued. */
function repeatedBodies(lines: readonly Line[]): Fault[] {
  const durable = new Set<string>();
  const faults: Fault[] = [];
  for (const line of lines) {
    if (line.t === "woke" || line.t === "round") for (const id of line.durable) durable.add(id);
    if (line.t === "start" && durable.has(line.id))
      faults.push({ promise: "tasks", text: `a completed body ran again: ${line.l}` });
  }
  return faults;
}

/** Each visit is the same node task, however often it is begun: under another id nothing would know that it had finished. */
function otherVisits(wanted: readonly Line[], found: readonly Line[]): Fault[] {
  return unequal("tasks", idsByVisit(wanted), idsByVisit(found), "node tasks of the visit");
}

function idsByVisit(lines: readonly Line[]): Map<string, number> {
  return countedBy(lines, (line) => (line.t === "start" && !line.unsaved ? [line.l, line.id] : undefined));
}

/** How many keys an effect had. */
function otherEffects(wanted: readonly Line[], found: readonly Line[]): Fault[] {
  const keys = (lines: readonly Line[]) => countedBy(lines, (line) => (line.t === "deed" ? [line.e, line.key] : undefined));
  return unequal("effects", keys(wanted), keys(found), "keys of the effect");
}

function countedBy(lines: readonly Line[], of: (line: Line) => [string, string] | undefined): Map<string, number> {
  const sets = new Map<string, Set<string>>();
  for (const line of lines) {
    const [name, id] = of(line) ?? [];
    if (name !== undefined && id !== undefined) sets.set(name, (sets.get(name) ?? new Set()).add(id));
  }
  return new Map([...sets].map(([name, ids]) => [name, ids.size]));
}

/** @param promise the promise that is broken if there are more; if there are fewer, something is lost */
function unequal(promise: Promised, wanted: Map<string, number>, found: Map<string, number>, what: string): Fault[] {
  return [...new Set([...wanted.keys(), ...found.keys()])].flatMap((name) => {
    const [should, is] = [wanted.get(name) ?? 0, found.get(name) ?? 0];
    if (should === is) return [];
    return [{ promise: is > should ? promise : "state", text: `${what} ${name}: without a crash ${should}, now ${is}` }];
  });
}

/** Follows each effect through the ledger: when its function may be called depends on what was known of the call before. */
function wrongEffects(lines: readonly Line[]): Fault[] {
  const effects = new Map<string, EffectCourse>();
  const faults: Fault[] = [];
  const courseOf = (key: string): EffectCourse => {
    const known = effects.get(key) ?? new EffectCourse();
    effects.set(key, known);
    return known;
  };
  for (const line of lines) {
    if (line.t === "woke") {
      for (const [key, effect] of effects) effect.died(line.effects[key]);
      for (const [key, status] of Object.entries(line.effects)) if (!effects.has(key)) courseOf(key).died(status);
    } else if ("key" in line) {
      const fault = courseOf(line.key).next(line);
      if (fault !== undefined) faults.push({ ...fault, text: `${fault.text}: ${"e" in line ? line.e : ""} (${line.key})` });
    }
  }
  const keys = (name: string): number => [...effects.values()].filter(({ e }) => e === name).length;
  for (const [key, { deeds, kind, e }] of effects) {
    if (deeds === 0 && kind !== undefined && keys(e) > 1) {
      faults.push({ promise: "doubts", text: `left in doubt, and begun under another key: ${e} (${key})` });
      continue;
    }
    if (deeds !== 1 && kind !== undefined && !(kind === "idempotent" && deeds > 1))
      faults.push({ promise: deeds > 1 ? "effects" : "state", text: `done ${deeds} times: ${e} (${key})` });
  }
  return faults;
}

class EffectCourse {
  deeds = 0;
  kind: string | undefined;
  e = "";
  /** `done` and `in-doubt` as the journal said after a death; `may-run` if nobody has begun it, or it is known not to have happened. */
  #known: "may-run" | "begun" | "in-doubt" | "done" = "may-run";

  died(status: string | undefined): void {
    if (status === "done" || status === "in-doubt") this.#known = status;
    else this.#known = "may-run";
  }

  /** @returns what is wrong with it */
  next(line: Line & { key: string }): Fault | undefined {
    switch (line.t) {
      case "call":
        return this.#called(line);
      case "deed":
        this.deeds += 1;
        return undefined;
      case "threw":
        this.#known = "may-run";
        return undefined;
      case "probe":
        return this.#settled(line.found);
      case "settled":
        return this.#settled(line.outcome === "done");
      default:
        return undefined;
    }
  }

  #called({ kind, e }: Line & { t: "call" }): Fault | undefined {
    const was = this.#known;
    this.#known = "begun";
    this.kind = kind;
    this.e = e;
    if (was === "done") return { promise: "effects", text: "a completed effect ran again" };
    if (was === "in-doubt" && kind !== "idempotent") return { promise: "doubts", text: "an effect in doubt ran again silently" };
    return was === "begun" ? { promise: "effects", text: "an effect ran again in one process" } : undefined;
  }

  #settled(isDone: boolean): Fault | undefined {
    const was = this.#known;
    this.#known = isDone ? "done" : "may-run";
    return was === "in-doubt" ? undefined : { promise: "state", text: `it was asked for although it was ${was}` };
  }
}
