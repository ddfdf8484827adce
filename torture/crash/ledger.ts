import { closeSync, existsSync, openSync, readFileSync, writeSync } from "node:fs";
import type { EffectKind } from "./plan";

/**
 * What happened outside the database. `l` names a visit of a body, the same in every run; `id` is its node task; `e` names an effect, the
 * same in every run; `key` is what its function was given.
 */
export type Line =
  | { t: "start" | "end"; id: string; l: string; unsaved: boolean }
  /** The body threw on purpose. */
  | { t: "failed"; l: string }
  | { t: "call"; e: string; key: string; kind: EffectKind }
  | { t: "deed"; e: string; key: string; value: string }
  | { t: "threw"; e: string; key: string }
  | { t: "probe"; e: string; key: string; found: boolean }
  /** A person settled it. */
  | { t: "settled"; key: string; outcome: "done" | "not-done" }
  /** At its n-th point, or after n milliseconds wherever it was. */
  | { t: "die"; n: number; point: string }
  /** Node tasks whose Action is durable when a process continues after an interrupt or an error. */
  | { t: "round"; durable: string[] }
  /** What the next process found: node tasks whose Action is durable, and the status of each effect. */
  | { t: "woke"; durable: string[]; effects: Record<string, string> };

/** A file that only grows. Each line is written before the next thing happens, and a SIGKILL can't remove it. */
export class Ledger {
  constructor(readonly path: string) {}

  add(line: Line): void {
    const file = openSync(this.path, "a");
    writeSync(file, `${JSON.stringify(line)}\n`);
    closeSync(file);
  }

  lines(): Line[] {
    if (!existsSync(this.path)) return [];
    const texts = readFileSync(this.path, "utf8").split("\n").filter(Boolean);
    return texts.map((text) => JSON.parse(text) as Line);
  }

  /** The result of the side effect with this key, if it was done. */
  deed(key: string): string | undefined {
    const found = this.lines().find((line) => line.t === "deed" && line.key === key);
    return found?.t === "deed" ? found.value : undefined;
  }
}
