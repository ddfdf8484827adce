import { statSync } from "node:fs";
import { setFlagsFromString } from "node:v8";
import { runInNewContext } from "node:vm";

/** What one moment of a long life weighs. */
export interface Weight {
  step: number;
  /** Heap and what hangs on it outside (buffers, SQLite's own not), after a collection, in bytes. */
  memory: number;
  rss: number;
  /** The database with its log, in bytes. */
  file: number;
}

setFlagsFromString("--expose-gc");
const collect = runInNewContext("gc") as () => void;

export function weigh(path: string, step: number): Weight {
  collect();
  const { heapUsed, external, rss } = process.memoryUsage();
  return { step, memory: heapUsed + external, rss, file: sizeOf(path) + sizeOf(`${path}-wal`) };
}

/**
 * The medians of the second and the last fifth of a phase. The first fifth is left out: caches fill in it, up to the size they were
 * promised to have.
 */
export function early(weights: readonly Weight[], of: (weight: Weight) => number): number {
  return median(weights.slice(Math.floor(weights.length / 5), Math.ceil((2 * weights.length) / 5)).map(of));
}

export function late(weights: readonly Weight[], of: (weight: Weight) => number): number {
  return median(weights.slice(-Math.max(1, Math.floor(weights.length / 5))).map(of));
}

/** Bytes that the file grew by per step, in the given part of a phase. */
export function growth(weights: readonly Weight[], from: number, to: number): number {
  const first = weights[Math.floor(from * (weights.length - 1))];
  const last = weights[Math.floor(to * (weights.length - 1))];
  if (first === undefined || last === undefined || first.step === last.step) throw new Error("a phase with no steps to compare");
  return (last.file - first.file) / (last.step - first.step);
}

export function megabytes(bytes: number): string {
  return `${(bytes / 1e6).toFixed(1)} MB`;
}

function median(values: readonly number[]): number {
  const sorted = values.toSorted((one, other) => one - other);
  return sorted[Math.floor(sorted.length / 2)] ?? 0;
}

function sizeOf(path: string): number {
  return statSync(path, { throwIfNoEntry: false })?.size ?? 0;
}
