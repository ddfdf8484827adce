import { appendFileSync, existsSync, readFileSync } from "node:fs";

/**
 * A file that only grows, and that only node bodies write to: the witness of what really ran. It knows nothing of checkpoints and is
 * not touched by a rewind.
 */
export class Ledger {
  readonly #file: string;

  constructor(file: string) {
    this.#file = file;
  }

  write(event: "began" | "ended", taskId: string, node: string): void {
    appendFileSync(this.#file, `${event}\t${taskId}\t${node}\n`);
  }

  /** How often each body began, or ended, e.g. `"4-cross-check work_b" → 2`. */
  count(event: "began" | "ended"): Map<string, number> {
    const counts = new Map<string, number>();
    const lines = existsSync(this.#file) ? readFileSync(this.#file, "utf8").trim().split("\n") : [];
    for (const line of lines) {
      const [what, taskId, node] = line.split("\t");
      const key = `${taskId} ${node}`;
      if (what === event) counts.set(key, (counts.get(key) ?? 0) + 1);
    }
    return counts;
  }
}
