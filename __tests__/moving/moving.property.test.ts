import fc from "fast-check";
import { moveAllThreads } from "langgraph-checkpoint-turns/maintenance";
import type { TurnSaver } from "langgraph-checkpoint-turns";
import { KEY } from "../support/enc-graph";
import { runs } from "../support/lane";
import { ON_POSTGRES } from "../support/open-saver";
import { ModelWorld, step } from "../support/model-world";
import { newPlace, openAt, problemsIn, WAYS } from "./move-world";

jest.setTimeout(600_000);

const [, other] = WAYS.at(-1)!;

describe.each([
  ["plain", {}, {}],
  ["encrypted", {}, { encryption: { key: KEY } }],
])("to a %s database", (_, options, others) => {
  test("S9.7 property: random threads, moved there and back, are what the model says, and continue as it does", async () => {
    await fc.assert(
      fc.asyncProperty(
        fc.array(step, { minLength: 5, maxLength: 25 }),
        fc.array(step, { maxLength: 8 }),
        async (before, after) => {
          const world = new ModelWorld(options);
          let elsewhere: TurnSaver | undefined;
          try {
            for (const one of before) await world.step(one);
            elsewhere = openAt(newPlace(other), others);
            await world.movedThereAndBack(elsewhere, moveAllThreads);
            expect(await problemsIn(elsewhere)).toEqual([]);
            await world.check("both");
            for (const one of after) await world.step(one);
            await world.check("observer");
            expect(await world.problems()).toEqual([]);
          } finally {
            elsewhere?.close();
            world.close();
          }
        },
      ),
      { numRuns: runs(ON_POSTGRES ? 2 : 6, 60) },
    );
  });
});
