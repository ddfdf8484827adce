import type { Failpoint } from "../failpoints";
import type { ReachedPoint } from "./child-protocol";
import type { BoundaryName, FailpointMatch } from "./points";

export type Durability = "async" | "sync" | "exit";

/** One kill of a matrix. */
export interface CrashCase {
  kill: FailpointMatch;
  durability: Durability;
}

/** What a matrix kills at unless it is told otherwise: the boundaries of turns and effects. */
export const MATRIX_BOUNDARIES: readonly BoundaryName[] = [
  "thought",
  "action",
  "writes",
  "checkpoint",
  "effect-intent",
  "effect-body",
  "effect-outcome",
  "undo-mark",
  "undo-body",
  "rewind-intent",
  "rewind",
];

/** Every time that the uncrashed run was at one of these places, named so that another run finds it again: ids differ from run to run. */
export function casesOf(
  reached: readonly ReachedPoint[],
  wanted: readonly (BoundaryName | Failpoint)[],
  durability: Durability,
): CrashCase[] {
  const isWanted = ({ point }: ReachedPoint): boolean =>
    wanted.some((name) => name === point || name === point.slice(0, point.lastIndexOf(".")));
  return reached.flatMap((at, index) => {
    if (!isWanted(at)) return [];
    const { point, node, effect } = at;
    const isSuch = (other: ReachedPoint): boolean =>
      other.point === point && (node === undefined || other.node === node) && (effect === undefined || other.effect === effect);
    const nth = reached.slice(0, index + 1).filter(isSuch).length;
    return [{ kill: { point, nth, node, effect }, durability }];
  });
}

/** So many of them, in their order; the same for the same seed. */
export function sampled<T>(all: readonly T[], size: number | undefined, seed: number): T[] {
  if (size === undefined || size >= all.length) return [...all];
  const random = randomFrom(seed);
  const places = all.map((_, index) => index);
  for (let at = 0; at < size; at += 1) {
    const other = at + Math.floor(random() * (places.length - at));
    [places[at], places[other]] = [places[other] as number, places[at] as number];
  }
  return places
    .slice(0, size)
    .sort((left, right) => left - right)
    .map((place) => all[place] as T);
}

/** mulberry32: small, and the same everywhere. */
function randomFrom(seed: number): () => number {
  let state = seed >>> 0;
  return () => {
    state = (state + 0x6d2b79f5) >>> 0;
    let mixed = Math.imul(state ^ (state >>> 15), state | 1);
    mixed ^= mixed + Math.imul(mixed ^ (mixed >>> 7), mixed | 61);
    return ((mixed ^ (mixed >>> 14)) >>> 0) / 2 ** 32;
  };
}
