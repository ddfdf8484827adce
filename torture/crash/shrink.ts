import type { Case, Plan } from "./plan";
import { crashed, type Result, uncrashed } from "./trial";
import type { Worker } from "./workers";

/**
 * Looks for a smaller case that fails too: fewer kills, then fewer layers, nodes, steps. A smaller plan passes fewer points, so each
 * process is killed at places of the name at which it died.
 *
 * @param triesMax how many trials it may take
 */
export async function shrunk(
  worker: Worker,
  found: Case,
  result: Result,
  triesMax: number,
): Promise<{ case: Case; result: Result }> {
  let best = { case: found, result };
  let tries = 0;
  for (let isSmaller = true; isSmaller && tries < triesMax;) {
    isSmaller = false;
    for (const candidate of smaller(best.case)) {
      if ((tries += 1) > triesMax) break;
      const failing = await failingOf(worker, candidate, best.result);
      if (failing === undefined) continue;
      best = failing;
      isSmaller = true;
      break;
    }
  }
  return best;
}

async function failingOf(worker: Worker, one: Case, { deaths }: Result): Promise<{ case: Case; result: Result } | undefined> {
  let whole;
  try {
    whole = await uncrashed(worker, one.plan);
  } catch {
    return undefined;
  }
  const [first] = deaths;
  const places = whole.answer.points.flatMap((point, at) => (point === first?.point ? [at + 1] : []));
  const starts = one.kills.length === 0 ? [0] : [one.kills[0] ?? 0, ...places.slice(0, 3)];
  for (const start of new Set(starts)) {
    const candidate = { ...one, kills: one.kills.length === 0 ? [] : [start, ...one.kills.slice(1)] };
    const result = await crashed(worker, candidate, whole);
    if (result.faults.length > 0) return { case: candidate, result };
  }
  return undefined;
}

function* smaller({ plan, kills, clock }: Case): Generator<Case> {
  if (clock !== undefined) yield { plan, kills };
  if (kills.length > 1)
    for (const [index] of kills.entries()) yield { plan, kills: kills.filter((_, at) => at !== index), clock };
  for (const part of smallerParts(plan)) yield { plan: part as Plan, kills, clock };
}

/** The same data without one element of one of its lists, the outermost lists first. A list of nodes or layers keeps one. */
function* smallerParts(data: unknown, name = ""): Generator<unknown> {
  if (Array.isArray(data)) {
    if (data.length > (name === "steps" ? 0 : 1))
      for (const [index] of data.entries()) yield data.filter((_, at) => at !== index);
    for (const [index, value] of data.entries()) for (const part of smallerParts(value)) yield data.with(index, part);
  } else if (typeof data === "object" && data !== null) {
    for (const [key, value] of Object.entries(data)) for (const part of smallerParts(value, key)) yield { ...data, [key]: part };
  } else if (typeof data === "number" && name === "rounds" && data > 0) yield 0;
}
