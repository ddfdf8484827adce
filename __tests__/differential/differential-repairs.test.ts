import fc from "fast-check";
import { expectSame } from "../support/diff-harness";
import { engines } from "../support/engines";
import { DURABILITIES, repairPlans, runRepairs, variantsFor } from "./diff-repairs";
import { runs } from "../support/lane";

/** In the long lane 300 runs in all, each on MemorySaver, on a saver of ours, and on one that is attached. */
const NUM_RUNS = runs(5, 100);

describe.each(engines)("S6.1 random repairs of graphs with pending tasks, $name", (engine) => {
  test.each(DURABILITIES)(
    "S6.1 end as on MemorySaver, with values, next, history and results, durability %s",
    async (durability) => {
      await fc.assert(
        fc.asyncProperty(repairPlans(durability, engine.answersLate), (plan) =>
          expectSame("invoke", (lab) => runRepairs(lab, plan), variantsFor(plan), engine),
        ),
        { numRuns: NUM_RUNS },
      );
    },
    300_000,
  );
});
