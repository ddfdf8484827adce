import fc from "fast-check";
import { moveThread, salvage, vacuum } from "langgraph-checkpoint-turns/maintenance";
import type { TurnSaver } from "langgraph-checkpoint-turns";
import { newPlace, openAt, problemsIn } from "../moving/move-world";
import { KEY } from "../support/enc-graph";
import { runs } from "../support/lane";
import { get, put, valuesIn } from "../support/model-calls";
import { ModelWorld, step } from "../support/model-world";
import { tempFile } from "../support/temp";

jest.setTimeout(600_000);

/** How a file comes to stand in the place of another one, that has the same in it. */
const WAYS = {
  salvage: async (_: TurnSaver, path: string, target: string, options: object) =>
    expect(await salvage(path, target, options)).toMatchObject({ ok: true, lost: [], damaged: [] }),
  backup: (saver: TurnSaver, _: string, target: string) => saver.backup(target),
  "vacuum, then backup": async (saver: TurnSaver, _: string, target: string) => {
    await vacuum(saver);
    await saver.backup(target);
  },
  "backup, then salvage": async (saver: TurnSaver, _: string, target: string, options: object) => {
    const copy = tempFile();
    await saver.backup(copy);
    expect(await salvage(copy, target, options)).toMatchObject({ ok: true, lost: [], damaged: [] });
  },
};

describe.each([
  ["plain", {}],
  ["encrypted", { encryption: { key: KEY } }],
])("a file that is %s", (_, options) => {
  test("S3.1 S6.8 property: what is copied or rescued is what the model says, and everything continues on it: threads, old and new, and moves", async () => {
    await fc.assert(
      fc.asyncProperty(
        fc.array(step, { minLength: 5, maxLength: 20 }),
        fc.array(fc.constantFrom(...(Object.keys(WAYS) as (keyof typeof WAYS)[])), { minLength: 1, maxLength: 3 }),
        fc.array(step, { maxLength: 8 }),
        fc.boolean(),
        async (before, ways, after, leaves) => {
          const world = new ModelWorld(options);
          const other = openAt(newPlace("file"), options);
          try {
            for (const one of before) await world.step(one);
            for (const [at, way] of ways.entries()) {
              const thread = `passing ${at}`;
              await put(other, { thread, id: 1, values: { log: [thread] }, versions: { log: 1 } });
              await world.replaced(async (saver, path, target) => {
                await moveThread(other, saver, thread);
                // What is left tells where it is.
                if (leaves) await moveThread(saver, other, thread);
                await WAYS[way](saver, path, target, options);
              });
              if (leaves) await expect(get(world.saver, { thread })).rejects.toMatchObject({ code: "THREAD_MOVED" });
              else expect(await valuesIn(world.saver, { thread })).toEqual({ log: [thread] });
              await put(world.saver, { thread: "late", id: 1, values: { log: ["late"] }, versions: { log: 1 } });
              for (const gone of leaves ? ["late"] : ["late", thread]) await world.saver.deleteThread(gone);
              await world.check("both");
              expect(await world.problems()).toEqual([]);
            }
            for (const one of after) await world.step(one);
            await world.check("observer");
            expect(await world.problems()).toEqual([]);
            expect(await problemsIn(other)).toEqual([]);
          } finally {
            other.close();
            world.close();
          }
        },
      ),
      { numRuns: runs(6, 60) },
    );
  });
});
