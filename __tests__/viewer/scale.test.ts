/* eslint-disable no-restricted-imports -- src/testing-internal.ts may not know the page, which is built apart */
import type { TimelineTask } from "../../src/viewer/api";
import { scaleOf } from "../../src/viewer/page/scale";

/* The labels of the page's time scale, in the widths that the page gives them. */

/** A task whose only lane has these attempts: seconds from the start, and to the end. */
const taskOf = (bars: readonly (readonly [number, number])[]): TimelineTask => {
  const at = (second: number): string => new Date(Date.UTC(2026, 0, 1, 19, 29, 34, 300) + second * 1_000).toISOString();
  const lane = { bars: bars.map(([from, to]) => ({ from: at(from), to: at(to) })) };
  return { lanes: [lane], deaths: [] } as unknown as TimelineTask;
};

/** The track's width in a window of 1,440 pixels, and what a letter of a label takes. */
const WIDTH = 503;
const LETTER = 7.2;

test.each([
  [
    "a short start before whole seconds, and a resume minutes later",
    [
      [0, 4.2],
      [163, 165.5],
    ],
  ],
  ["one run", [[0, 4.3]]],
  ["a run of a minute", [[0, 61]]],
  ["many runs", Array.from({ length: 9 }, (_, index) => [index * 100, index * 100 + 3])],
] as const)("S10.2 no two labels of the time scale overlap: %s", (_, bars) => {
  const task = taskOf(bars as readonly (readonly [number, number])[]);
  const { ticks } = scaleOf([task], Date.parse("2026-01-01T20:00:00Z"));
  expect(ticks.length).toBeGreaterThan(0);
  const ends = ticks.map(({ left, full }) => left * WIDTH + (full ? 8 : 3) * LETTER);
  const overlaps = ticks.slice(1).filter(({ left }, index) => left * WIDTH < (ends[index] ?? 0));
  expect(overlaps).toEqual([]);
});
