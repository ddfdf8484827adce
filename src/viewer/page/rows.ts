import type { Bar } from "../api";

/**
 * The attempts of a node in rows, so that none covers another: the workers of a Send lie below each other. A retry comes behind the
 * attempt that it repeats, if there is room.
 *
 * @param bars in the order in which they began
 * @returns one row at least
 */
export function rowsOfLane(bars: readonly Bar[]): Bar[][] {
  const rows: Bar[][] = [];
  const rowOf = new Map<string, Bar[]>();
  for (const bar of bars) {
    let row = [rowOf.get(bar.nodeTaskId) ?? [], ...rows].find(
      (one) => one.length > 0 && one.every((other) => isBefore(other, bar)),
    );
    if (row === undefined) rows.push((row = []));
    row.push(bar);
    rowOf.set(bar.nodeTaskId, row);
  }
  return rows.length === 0 ? [[]] : rows;
}

/** Numbers tell it where times are the same. What never finished has no second number. */
const isBefore = ({ actionNumber, to }: Bar, { number, from }: Bar): boolean =>
  actionNumber === null ? to !== null && to <= from : actionNumber < number;
