import { closeSync, existsSync, fsyncSync, openSync, readFileSync, writeSync } from "node:fs";
import { describe, TurnsError } from "../errors";

export interface Deed {
  what: string;
  /** The key of the effect that did it, if one did. */
  key?: string;
  pid: number;
}

/**
 * The outside world of a graph under test: a file beside the database to which what the graph does to the world is appended, a deed
 * a line. A deed is on the disk when {@link append} returns, and no resume or rewind takes it back.
 */
export class Ledger {
  /** @throws {TurnsError} INVALID_OPTION */
  constructor(readonly path: string) {
    if (typeof path !== "string" || path === "") throw refused("The path of a ledger", "a path", path);
  }

  /**
   * @param what was done, e.g. `"charged order 7"`: lines that say the same are counted together
   * @param key within an effect, the key its function was called with: the crash matrix then knows whose deed it was
   * @throws {TurnsError} INVALID_OPTION
   */
  append(what: string, key?: string): void {
    if (typeof what !== "string" || what === "") throw refused("What a ledger is told", "a string of at least 1 character", what);
    if (key !== undefined && typeof key !== "string") throw refused("The key that a ledger is told", "an effect's key", key);
    const deed: Deed = { what, ...(key === undefined ? {} : { key }), pid: process.pid };
    const file = openSync(this.path, "a");
    try {
      writeSync(file, `${JSON.stringify(deed)}\n`);
      fsyncSync(file);
    } finally {
      closeSync(file);
    }
  }

  /** All deeds of all processes, in their order. A line that a process died in the middle of is left out. */
  deeds(): Deed[] {
    if (!existsSync(this.path)) return [];
    const lines = readFileSync(this.path, "utf8").split("\n");
    return lines.slice(0, -1).map((line) => JSON.parse(line) as Deed);
  }

  /** How often it was done; what the probe of an effect asks. @param key only by the effect with this key */
  count(what: string, key?: string): number {
    return this.deeds().filter((deed) => deed.what === what && (key === undefined || deed.key === key)).length;
  }
}

const refused = (what: string, expected: string, found: unknown): TurnsError =>
  new TurnsError("INVALID_OPTION", {
    problem: `${what} is ${describe(found)}. It must be ${expected}.`,
    remedy: "Nothing was written.",
  });
