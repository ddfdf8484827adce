import { dirname, join } from "node:path";
import fc from "fast-check";
import { type ClockKind, crashMatrix } from "../../torture/crash/matrix";
import { failureText, inWords } from "../../torture/crash/report";
import { bundledChild } from "../../torture/crash/workers";
import { type Durability, expectSameInspiteOf } from "./clock-world";
import { DURABILITIES } from "../differential/diff-repairs";
import { graphs, graphsWithMemory, type RandomGraph, runRandom } from "../support/diff-random";
import { jumps } from "./jumpy-clock";
import { tempFile } from "../support/temp";
import { runs } from "../support/lane";

/** How many programs are drawn. */
const RUNS = runs(3, 12);
const TIMEOUT_MS = Math.max(600_000, RUNS * 20_000);

describe("S6.3 random programs, while the clock jumps between their runs and within them", () => {
  const holds = (arbitrary: fc.Arbitrary<RandomGraph>, variants: readonly ("turns" | "attached")[]): Promise<void> =>
    fc.assert(
      fc.asyncProperty(
        arbitrary,
        jumps,
        fc.integer({ min: 1, max: 12 }),
        fc.constantFrom<Durability>(...DURABILITIES),
        (plan, offsets, every, durability) =>
          expectSameInspiteOf({ offsets, every, durability, variants }, (lab) => runRandom(lab, plan)),
      ),
      { numRuns: RUNS, ...(process.env["TURNS_SEED"] === undefined ? {} : { seed: Number(process.env["TURNS_SEED"]) }) },
    );

  test(
    "S6.3 end as on MemorySaver with a clock that's right: values, history, what comes next",
    () => holds(graphs, ["turns", "attached"]),
    TIMEOUT_MS,
  );

  test(
    "S6.3 so do programs with graphs that keep their state from visit to visit",
    () => holds(graphsWithMemory, ["turns"]),
    TIMEOUT_MS,
  );
});

describe("S6.3 S2.8 random programs whose processes are killed twice, each process by another clock", () => {
  const ROOT = join(__dirname, "..", "..");
  let child = "";

  beforeAll(() => {
    child = bundledChild(ROOT, dirname(tempFile()));
  }, 300_000);

  test.each<[ClockKind, string]>([
    ["back", "set back by an hour from process to process"],
    ["jumps", "jumping both ways, between processes and within them"],
  ])(
    "S6.3 with a clock (%s) %s, no effect and no completed node is done twice, and the state is whole",
    async (clock) => {
      const seed = Number(process.env["TURNS_SEED"] ?? Math.floor(Math.random() * 1e9));
      // A few processes end before they are killed a second time.
      const kills = Math.ceil(RUNS * 2);
      const tally = await crashMatrix({ seed, kills, deaths: 2, jobs: 2, trialsPerPlan: 6, clock, child, root: ROOT });
      process.stdout.write(`clock ${clock}, seed ${seed}: ${inWords(tally)}\n`);
      expect(tally.failures.map((failure) => failureText(seed, failure))).toEqual([]);
      expect(tally.kills).toBeGreaterThanOrEqual(kills);
      expect(tally.compound).toBeGreaterThan(0);
    },
    TIMEOUT_MS,
  );
});
