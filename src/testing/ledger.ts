import { closeSync, existsSync, fsyncSync, openSync, readFileSync, writeSync } from "node:fs";
import { describe, TurnsError } from "../errors";

/** One line of a {@link Ledger}: a side effect that was recorded. */
export interface LedgerEntry {
  what: string;
  /** The key of the effect that did it, if any. */
  key?: string;
  pid: number;
}

/**
 * Stands for the outside world of a graph under test: a file beside the database, to which the graph appends its side effects,
 * one per line. A line is on the disk when {@link append} returns, and no resume or rewind removes it.
 */
export class Ledger {
  /** @throws {TurnsError} INVALID_OPTION */
  constructor(readonly path: string) {
    if (typeof path !== "string" || path === "") throw refused("The path of a ledger", "a path", path);
  }

  /**
   * Records a side effect.
   *
   * @param what what was done, e.g. `"charged order 7"`; equal lines are counted together
   * @param key within an effect, the key its function was called with: the crash matrix then knows which effect did it
   * @throws {TurnsError} INVALID_OPTION
   */
  append(what: string, key?: string): void {
    if (typeof what !== "string" || what === "") throw refused("What a ledger is told", "a string of at least 1 character", what);
    if (key !== undefined && typeof key !== "string") throw refused("The key that a ledger is told", "an effect's key", key);
    const entry: LedgerEntry = { what, ...(key === undefined ? {} : { key }), pid: process.pid };
    const file = openSync(this.path, "a");
    try {
      writeSync(file, `${JSON.stringify(entry)}\n`);
      fsyncSync(file);
    } finally {
      closeSync(file);
    }
  }

  /** All side effects of all processes, in order. A line cut off by a crash is left out. */
  entries(): LedgerEntry[] {
    if (!existsSync(this.path)) return [];
    const lines = readFileSync(this.path, "utf8").split("\n");
    return lines.slice(0, -1).map((line) => JSON.parse(line) as LedgerEntry);
  }

  /** How often it was done; the answer for an effect's probe. @param key only by the effect with this key */
  count(what: string, key?: string): number {
    return this.entries().filter((entry) => entry.what === what && (key === undefined || entry.key === key)).length;
  }
}

const refused = (what: string, expected: string, found: unknown): TurnsError =>
  new TurnsError("INVALID_OPTION", {
    problem: `${what} is ${describe(found)}. It must be ${expected}.`,
    remedy: "Nothing was written.",
  });
