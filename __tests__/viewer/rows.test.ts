/* eslint-disable no-restricted-imports -- src/testing-internal.ts may not know the page, which is built apart */
import fc from "fast-check";
import type { Bar } from "../../src/viewer/api";
import { rowsOfLane } from "../../src/viewer/page/rows";

/* Attempts of one node that ran at the same time, in rows below each other. */

/** An attempt whose Thought and Action have these numbers. Nothing takes longer than a millisecond here. */
const bar = (nodeTaskId: string, number: number, actionNumber: number | null, to: number | null = 0): Bar =>
  ({
    ...{ nodeTaskId, number, actionNumber },
    from: new Date(0).toISOString(),
    to: to === null ? null : new Date(to).toISOString(),
  }) as Bar;

const numbers = (bars: readonly Bar[]): number[][] => rowsOfLane(bars).map((row) => row.map(({ number }) => number));

test("S10.2 workers of a Send lie below each other, in the same millisecond too, and the next round takes their rows", () => {
  expect(numbers([bar("a", 1, 4), bar("b", 2, 6), bar("c", 3, 5), bar("d", 7, 9), bar("e", 8, 10)])).toEqual([
    [1, 7],
    [2, 8],
    [3],
  ]);
});

test("S10.2 a retry comes behind its attempt, and beside another that runs there", () => {
  expect(numbers([bar("a", 1, 3), bar("b", 2, 4), bar("b", 5, 7), bar("a", 6, 8)])).toEqual([
    [1, 6],
    [2, 5],
  ]);
  // "a" fails, "b" begins in its row, and "a" runs again before "b" is finished.
  expect(numbers([bar("a", 1, 2), bar("b", 3, 6), bar("a", 4, 5)])).toEqual([[1, 3], [4]]);
});

test("S10.2 what runs covers nothing, and what was lost ends when its process was last heard of", () => {
  expect(numbers([bar("a", 1, null, null), bar("b", 2, 3)])).toEqual([[1], [2]]);
  expect(numbers([bar("a", 1, null, 0), bar("a", 2, 3)])).toEqual([[1, 2]]);
  expect(numbers([bar("a", 1, null, 1), bar("b", 2, 3)])).toEqual([[1], [2]]);
  expect(rowsOfLane([])).toEqual([[]]);
});

test("S10.2 each attempt is in one row, where it begins after the one before has finished", () => {
  const attempts = fc
    .array(fc.record({ id: fc.constantFrom("a", "b", "c", "d"), length: fc.integer({ min: 1, max: 9 }) }), { maxLength: 30 })
    .map((all) => all.map(({ id, length }, index) => bar(id, 2 * index, 2 * index + 2 * length - 1)));
  fc.assert(
    fc.property(attempts, (bars) => {
      const rows = rowsOfLane(bars);
      expect(rows.flat().sort((one, other) => one.number - other.number)).toEqual(bars);
      for (const row of rows) row.slice(1).forEach(({ number }, index) => expect(row[index]?.actionNumber).toBeLessThan(number));
    }),
  );
});
