import fc from "fast-check";
import { expectSame } from "../support/diff-harness";
import { DURABILITIES, enginesFor, repairPlans, runRepairs } from "./diff-repairs";

/** 300 runs in all, each on MemorySaver, on a saver of ours, and on one that is attached. */
const NUM_RUNS = 100;

describe("S6.1 random repairs of graphs with pending tasks", () => {
  test.each(DURABILITIES)(
    "S6.1 end as on MemorySaver, with values, next, history and results, durability %s",
    async (durability) => {
      await fc.assert(
        fc.asyncProperty(repairPlans(durability), (plan) =>
          expectSame("invoke", (lab) => runRepairs(lab, plan), enginesFor(plan)),
        ),
        { numRuns: NUM_RUNS },
      );
    },
    240_000,
  );
});
