// The benchmark: TurnSaver beside the official savers, in one run, by turns. `npm run bench -- --help` tells what it can do.
import { writeFileSync } from "node:fs";
import { commandLine } from "./command-line";
import { contendersHere } from "./drive/contenders";
import { documentText, machineText } from "./report/document";
import { promisesOf, promisesText } from "./report/promises";
import { summaryText } from "./report/summary";
import { scenarioText } from "./report/table";
import { diskSyncs } from "./scenarios/disk-syncs";
import { tasks } from "./scenarios/finished-tasks";
import { firstNode } from "./scenarios/first-node";
import { firstScreen } from "./scenarios/first-screen";
import { floors } from "./scenarios/floors";
import { forks } from "./scenarios/forks";
import { graphTurns } from "./scenarios/graph-turns";
import { importCost } from "./scenarios/import-cost";
import { ladder } from "./scenarios/ladder";
import { longThread } from "./scenarios/long-thread";
import { memory } from "./scenarios/memory";
import { openAndRead } from "./scenarios/open-and-read";
import { postgres } from "./scenarios/postgres";
import type { Result, Scenario } from "./scenarios/scenario";
import { statements } from "./scenarios/statements";
import { superstepShare } from "./scenarios/superstep-share";
import { threadScenarios } from "./scenarios/threads";
import { weight } from "./scenarios/weight";

/** What child processes measure, and short threads, come before what fills this process; the long thread last, as it takes the longest. */
const scenarios: Scenario[] = [
  ...[weight, importCost, memory, firstScreen, diskSyncs, statements],
  ...[firstNode, floors, superstepShare, ladder, openAndRead],
  ...[...threadScenarios, forks, graphTurns, tasks, postgres, longThread],
];
const TOO_LONG_FOR_QUICK = ["thread-1000", "thread-10000"];

const asked = commandLine(scenarios.map(({ name }) => name));
if (asked !== undefined) {
  process.once("SIGINT", () => process.exit(130));
  const { contenders, absent } = await contendersHere();
  console.log(`${machineText()}\n`);
  for (const reason of absent) console.log(`Does not take part: ${reason}`);

  const chosen = scenarios.filter(({ name }) =>
    asked.only.length > 0 ? asked.only.includes(name) : !(asked.quick && TOO_LONG_FOR_QUICK.includes(name)),
  );
  const results: Result[] = [];
  for (const scenario of chosen) {
    const begun = performance.now();
    const result = await scenario.run({ contenders, quick: asked.quick });
    for (const reason of result.absent ?? []) console.log(`Does not take part: ${reason}`);
    absent.push(...(result.absent ?? []));
    if (result.samples.measured.length === 0) continue;
    results.push(result);
    globalThis.gc?.();
    console.log(`\n${scenarioText(result)}\n(${scenario.name}: ${((performance.now() - begun) / 1_000).toFixed(1)} s)`);
  }

  const promised = promisesOf(results);
  console.log(`\n${summaryText(results)}\n${promisesText(promised)}`);
  if (asked.write) {
    const given = [...(asked.quick ? ["--quick"] : []), ...asked.only.map((name) => `--only ${name}`), "--write"];
    const text = documentText({ command: ["npm run bench --", ...given].join(" "), results, absent, promised });
    writeFileSync(new URL("./RESULTS.md", import.meta.url), text);
  }
  if (asked.strict && promised.some(({ holds }) => holds === false)) process.exitCode = 1;
}
