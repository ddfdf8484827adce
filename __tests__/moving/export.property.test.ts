import fc from "fast-check";
import { copyThreadTo } from "langgraph-checkpoint-turns/maintenance";
import { internalsOf } from "../../src/testing-internal";
import { TurnSaver as SqliteSaver, type TurnSaver } from "../../src/index";
import { KEY } from "../support/enc-graph";
import { runs } from "../support/lane";
import { ModelWorld, step } from "../support/model-world";
import { ON_POSTGRES, openSaver } from "../support/open-saver";
import { quiet } from "../support/s1-tools";
import { tempFile } from "../support/temp";
import { problemsIn } from "./move-world";

jest.setTimeout(600_000);

/** All rows of a thread, opened: with numbers that count from its start, and without keys. */
async function rowsOf(saver: TurnSaver, threadId: string): Promise<string[]> {
  const { store } = internalsOf(saver);
  const departure = await store.departure(threadId);
  const rows: unknown[] = [...departure!.small];
  const at = { threadId, thread: departure!.row.thread };
  for (let page = await store.rowsToMove(at); ; page = await store.rowsToMove(at, page.next)) {
    rows.push(...page.rows);
    if (page.next === undefined) return rows.map((row) => JSON.stringify(row));
  }
}

describe.each([
  ["plain", undefined],
  ["encrypted", { key: KEY }],
])("through a file that is %s", (_, encryption) => {
  test("S9.7 property: random threads that are exported to a file and imported again with ownEffects are the same rows, byte for byte", async () => {
    await fc.assert(
      fc.asyncProperty(fc.array(step, { minLength: 5, maxLength: 25 }), async (steps) => {
        const world = new ModelWorld({});
        const target = openSaver(tempFile(), { logger: quiet });
        try {
          for (const one of steps) await world.step(one);
          await world.withThreads(async (from, threadId) => {
            const path = tempFile();
            const file = SqliteSaver.fromPath(path, { logger: quiet, ...(encryption && { encryption }) });
            await copyThreadTo(from, file, threadId, { ownEffects: true });
            expect(await problemsIn(file)).toEqual([]);
            file.close();
            const source = SqliteSaver.fromPath(path, { readOnly: true, logger: quiet, ...(encryption && { encryption }) });
            await copyThreadTo(source, target, threadId, { allowPlaintext: true, ownEffects: true });
            source.close();
            expect(await rowsOf(target, threadId)).toEqual(await rowsOf(from, threadId));
          });
          expect(await problemsIn(target)).toEqual([]);
        } finally {
          target.close();
          world.close();
        }
      }),
      { numRuns: runs(ON_POSTGRES ? 2 : 6, 60) },
    );
  });
});
