/**
 * The two lanes. The short one (`npm test`) proves every requirement with few runs and a part of each matrix; the long one
 * (`npm run test:long`, or `TURNS_LONG=1 npx jest <suite>`) has whole matrices and many runs. This is the one place that reads which it is.
 */
export const LONG = process.env["TURNS_LONG"] === "1";

/** How many times as many runs as the long lane has by itself: `TURNS_TIMES=20` for a night, less than 1 in CI. */
const TIMES = Number(process.env["TURNS_TIMES"] ?? 1);

/** How much of a matrix the long lane tries: all of it, but in CI a third. */
const SHARE = TIMES < 1 ? Math.max(TIMES, 1 / 3) : 1;

/** Whether matrices are tried whole: in the long lane, but not in CI. */
export const WHOLE = LONG && SHARE === 1;

/** How many runs, rounds or kills there are. In the long lane never fewer than in the short one. */
export const runs = (short: number, long: number): number => (LONG ? Math.max(short, Math.ceil(long * TIMES)) : short);

/** One of how many places is tried. In the long lane never fewer places than in the short one. */
export const oneOf = (short: number, long: number): number =>
  LONG ? Math.min(short, Math.max(1, Math.floor(long / TIMES))) : short;

/** The points of a matrix: all of them, or in the short lane `count`, in CI a third, spread evenly from the first to the last. */
export function points<T>(all: readonly T[], count: number): readonly T[] {
  const wanted = LONG ? Math.max(count, Math.ceil(all.length * SHARE)) : count;
  if (wanted >= all.length) return all;
  const gap = (all.length - 1) / Math.max(1, wanted - 1);
  return Array.from({ length: wanted }, (_, index) => all[Math.round(index * gap)] as T);
}

/** The pairs of two dimensions: all of them, or in the short lane and in CI a diagonal that has each row and each column at least once. */
export function pairs<A, B>(rows: readonly A[], columns: readonly B[]): readonly (readonly [A, B])[] {
  const [across, down] = [columns.length, rows.length];
  const isOnDiagonal = (row: number, column: number): boolean =>
    across >= down ? column % down === row : row % across === column;
  return rows.flatMap((row, y) =>
    columns.flatMap((column, x) => ((LONG && SHARE === 1) || isOnDiagonal(y, x) ? [[row, column] as const] : [])),
  );
}
