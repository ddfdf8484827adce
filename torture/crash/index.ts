import { createHash } from "node:crypto";
import { mkdtempSync, readFileSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { parseArgs } from "node:util";
import { numberOf } from "../numbers";
import { CLOCKS, crashMatrix, type Failure } from "./matrix";
import type { Case } from "./plan";
import { caseText, failureText, inWords } from "./report";
import { shrunk } from "./shrink";
import { crashed, uncrashed } from "./trial";
import { bundledChild, Worker } from "./workers";

const HELP = `npm run torture -- crash [--kills n] [--seed n] [--jobs n] [--trials n] [--only n] [--shrink n] [--deaths n]
                         [--clock right|back|jumps] [--repeat json]

Draws programs (graphs and functional entrypoints) and runs each without a crash. Then kills its processes with SIGKILL at random points, also those
that resume, and compares.

  --kills    stop after this many kills (1000)
  --jobs     processes at a time (2)
  --trials   trials of each program (4)
  --only     run one program of the seed
  --shrink   trials to look for a smaller case of the first failure (40)
  --clock    the wall clock of the killed and resuming processes: right, back (an hour back in each process that resumes), or jumps (both ways,
             between and within processes)
  --deaths   how many processes die in each trial (drawn at random)
  --repeat   one case, as a failure prints it
`;

/** @returns whether every killed run reached the state of the uncrashed one, and repeated nothing that had finished */
export async function run(options: readonly string[]): Promise<boolean> {
  const { values } = parseArgs({
    args: [...options],
    options: {
      kills: { type: "string", default: "1000" },
      seed: { type: "string", default: String(Math.floor(Math.random() * 1e9)) },
      jobs: { type: "string", default: "2" },
      trials: { type: "string", default: "4" },
      only: { type: "string" },
      deaths: { type: "string" },
      shrink: { type: "string", default: "40" },
      clock: { type: "string", default: "jumps" },
      repeat: { type: "string" },
      help: { type: "boolean", default: false },
    },
  });
  if (values.help) {
    console.log(HELP);
    return true;
  }
  const root = process.cwd();
  const folder = mkdtempSync(join(tmpdir(), "turns-torture-"));
  try {
    const child = bundledChild(root, folder);
    const worker = new Worker(child, root);
    if (values.repeat !== undefined) return await repeated(worker, JSON.parse(values.repeat) as Case);
    const seed = numberOf("seed", values.seed);
    const shrink = numberOf("shrink", values.shrink);
    const clock = CLOCKS.find((kind) => kind === values.clock);
    if (clock === undefined)
      throw new Error(`Unknown --clock ${JSON.stringify(values.clock)}. Give one of ${CLOCKS.join(", ")}.`);
    // What ran, so that two runs can be told to be of the same sources.
    const build = createHash("sha256").update(readFileSync(child)).digest("hex").slice(0, 12);
    console.log(`seed ${seed}, build ${build}\n`);
    const failures: Failure[] = [];
    const since = Date.now();
    let told = since;
    const tally = await crashMatrix({
      seed,
      kills: numberOf("kills", values.kills, 1),
      jobs: numberOf("jobs", values.jobs, 1),
      trialsPerPlan: numberOf("trials", values.trials, 1),
      clock,
      deaths: values.deaths === undefined ? undefined : numberOf("deaths", values.deaths, 1),
      only: values.only === undefined ? undefined : numberOf("only", values.only),
      child,
      root,
      onFailure(failure) {
        failures.push(failure);
        console.log(failureText(seed, failure));
      },
      onPlan({ kills, plans }) {
        if (Date.now() - told < 30_000) return;
        told = Date.now();
        console.log(`${kills} kills, ${plans} programs, ${failures.length} failures, ${Math.round((told - since) / 1_000)} s`);
      },
    });
    const [first] = failures;
    if (first !== undefined && shrink > 0) {
      const least = await shrunk(worker, first.case, first.result, shrink);
      console.log(`\nThe smallest case of the first failure:\n${caseText(least.case, least.result)}`);
    }
    worker.close();
    console.log(`\n${inWords(tally)}\n${Math.round((Date.now() - since) / 1_000)} s`);
    return tally.failures.length === 0;
  } finally {
    rmSync(folder, { recursive: true, force: true });
  }
}

async function repeated(worker: Worker, one: Case): Promise<boolean> {
  try {
    const whole = await uncrashed(worker, one.plan);
    const result = await crashed(worker, one, whole);
    for (const line of result.lines) console.log(JSON.stringify(line));
    console.log(`\n${result.faults.length === 0 ? "It holds." : "FAILED"}\n${caseText(one, result)}`);
    return result.faults.length === 0;
  } finally {
    worker.close();
  }
}
