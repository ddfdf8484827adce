import { isDeepStrictEqual } from "node:util";
import { existsSync, readFileSync } from "node:fs";
import { TurnsError, TurnSaver } from "../../src/index";
import { salvage, type SalvageReport } from "../../src/maintenance/index";
import { altered, everything, isFound, resumeAll, withSaver } from "./calls";
import { notOfAnyState, statesOf } from "./states";
import { type Ground, statesOfAll, type Tally } from "./sweep";
import { answer, at, graphOn, quiet } from "./world";

/** Salvages a damaged file, and returns what is wrong with the new file or the report. @param source the same file, undamaged */
export async function wrongWithSalvage(ground: Ground, path: string, source: string, tally: Tally): Promise<string[]> {
  const { folder, options, threads } = ground;
  const before = contents(path);
  const target = folder.file();
  let report: SalvageReport;
  try {
    report = await salvage(path, target, options);
  } catch (error) {
    tally.refused += 1;
    if (!TurnsError.is(error))
      return [
        `salvage: ${String((error as Error).stack ?? error)
          .split("\n")
          .slice(0, 3)
          .join(" ")}`,
      ];
    return existsSync(target) ? [`${error.code}, and something was left at the target`] : [];
  }
  if (!report.ok) tally.found += 1;
  const wrong = isDeepStrictEqual(contents(path), before) ? [] : ["the damaged file was changed"];
  const found = await isFound(folder.copy(target), options);
  if (found.found) wrong.push(`the new file does not verify: ${found.why}`);
  const whole = source === ground.path ? await statesOf(folder.copy(source), threads, options) : await statesOfAll(ground);
  const rescued = await statesOf(folder.copy(target), threads, options);
  wrong.push(...notOfAnyState(whole, rescued, source !== ground.path));
  if (report.ok && source === ground.path) {
    const outcomes = await everything(folder, target, threads, options);
    tally.calls += outcomes.size;
    wrong.push(...altered(ground.wanted, outcomes).map((what) => `nothing was lost, it says, and ${what}`));
  }
  // A log that is cut off leaves an older, intact state of the file.
  if (source === ground.path) wrong.push(...missingUntold(report, threads, whole.rows, rescued.rows));
  wrong.push(...(await wrongWithResuming(ground, target, report, source === ground.path)));
  folder.forget(target);
  return wrong;
}

function contents(path: string): (Buffer | undefined)[] {
  return [path, `${path}-wal`].map((file) => (existsSync(file) ? readFileSync(file) : undefined));
}

/** A thread that lost rows is reported, by its id if that is known. */
function missingUntold(
  { damaged, lost }: SalvageReport,
  threads: readonly string[],
  whole: ReadonlyMap<string, unknown>,
  rescued: ReadonlyMap<string, unknown>,
): string[] {
  const told = new Set(damaged.map(({ threadId }) => threadId));
  return threads.flatMap((id) => {
    const isOf = (key: string): boolean =>
      key.startsWith(`${id} checkpoint`) || key.startsWith(`${id} turn`) || key.startsWith(`${id} effect`);
    const missing = [...whole.keys()].filter((key) => isOf(key) && !rescued.has(key));
    const isNameless = ![...rescued.keys()].some(isOf) && lost.length > 0;
    return missing.length === 0 || told.has(id) || isNameless
      ? []
      : [`${missing.length} rows of ${id} are missing and not reported`];
  });
}

/** Threads that lost nothing continue as if nothing had happened; others are refused until somebody acknowledges the loss. */
async function wrongWithResuming(ground: Ground, target: string, report: SalvageReport, isWhole: boolean): Promise<string[]> {
  const { folder, options, threads, wanted } = ground;
  const wrong: string[] = [];
  const damaged = new Map(report.damaged.map((thread) => [thread.threadId, thread]));
  const outcomes = await resumeAll(folder.copy(target), threads, options);
  for (const id of threads) {
    const name = `resume of ${id}`;
    const outcome = outcomes.get(name);
    if (!damaged.has(id)) {
      const isLost = report.lost.length > 0;
      if (isWhole && !isLost && !isDeepStrictEqual(outcome, wanted.get(name)))
        wrong.push(`${name}: not what the undamaged thread gives`);
    } else if (damaged.get(id)?.acknowledge !== undefined && !(outcome !== undefined && "refused" in outcome)) {
      wrong.push(`${name}: continued although something that was done may be lost`);
    }
  }
  const again = folder.copy(target);
  await withSaver(again, options, async (saver, told) => {
    for (const { threadId, acknowledge } of damaged.values()) {
      if (acknowledge !== undefined) await told(`acknowledging ${threadId}`, () => saver.rewinds.abandon(acknowledge));
    }
  }).then((acknowledged) => wrong.push(...broken(acknowledged, true)));
  const saver = TurnSaver.fromPath(again, { logger: quiet, synchronous: "normal", ...options });
  const graph = graphOn(saver, ["mended"]);
  for (const id of damaged.keys()) {
    try {
      await graph.invoke(answer, at(id));
      await graph.invoke({ log: ["a new task"] }, at(id, { task_id: "after" }));
    } catch (error) {
      // The graph's own failure, if the side effect before it was lost and is done again.
      if ((error as Error).message === "the connection broke") continue;
      if (!TurnsError.is(error)) wrong.push(`continuing ${id}: ${String(error).slice(0, 300)}`);
      else if (error.code !== "EFFECT_IN_DOUBT" && error.code !== "NOTHING_TO_RESUME")
        wrong.push(`continuing ${id}: ${error.code}`);
    }
  }
  saver.close();
  const found = await isFound(again, options);
  if (found.found) wrong.push(`after continuing it doesn't verify: ${found.why}`);
  return wrong;
}

function broken(outcomes: Awaited<ReturnType<typeof withSaver>>, refusals: boolean): string[] {
  return [...outcomes].flatMap(([name, outcome]) => {
    if ("broken" in outcome) return [`${name}: ${outcome.broken.slice(0, 200)}`];
    return refusals && "refused" in outcome ? [`${name}: ${outcome.refused}`] : [];
  });
}
