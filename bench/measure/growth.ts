/** A count that only grows, read at a place of a thread or a run. */
export interface Reading {
  at: number;
  count: number;
}

/** By how much the count grows with each step between two readings: what came before the first one doesn't count. */
export function perStep(from: Reading, to: Reading): number {
  if (to.at <= from.at) throw new RangeError(`no steps between ${from.at} and ${to.at}`);
  return (to.count - from.count) / (to.at - from.at);
}
