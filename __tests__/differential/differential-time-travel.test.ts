import fc from "fast-check";
import { expectSame, type Mode } from "../support/diff-harness";
import { engines } from "../support/engines";
import { runTravel, travelPlans } from "./diff-travel";
import { runs } from "../support/lane";

/** `TURNS_TRAVEL_SEED` repeats a run. */
const seed = process.env["TURNS_TRAVEL_SEED"];
const parameters = { numRuns: runs(2, 10), ...(seed === undefined ? {} : { seed: Number(seed) }) };
const ways: [string, Mode, number][] = [
  ["all streams of all graphs, one node at a time", "stream with subgraphs", 1],
  ["what invoke returns, nodes side by side", "invoke", 2],
];

describe.each(engines)("$name", (engine) => {
  test.each(ways)(
    "S6.5 property: random graphs travel in time as on MemorySaver, attached and not: %s",
    async (_title, mode, width) => {
      const plays = fc.asyncProperty(travelPlans(width), (plan) =>
        expectSame(mode, (lab) => runTravel(lab, plan), undefined, engine),
      );
      // A counterexample is small, and shrinking runs it hundreds of times.
      await fc.assert(plays, { ...parameters, endOnFailure: true });
    },
    600_000,
  );
});
