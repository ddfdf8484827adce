import { appendFileSync, existsSync, readFileSync } from "node:fs";

/**
 * A text file that only grows, one line per event. It stands in for the outside world: it knows nothing about checkpoints, and a
 * rewind doesn't touch it. It takes the same letter twice if it's handed in twice. So it shows what really happened.
 */
export class World {
  readonly #file: string;

  constructor(file: string) {
    this.#file = file;
  }

  record(what: string, key: string, subject: string): void {
    appendFileSync(this.#file, `${what}\t${subject}\t${key}\n`);
  }

  /** Oldest first. */
  all(what: string): { subject: string; key: string }[] {
    const lines = existsSync(this.#file) ? readFileSync(this.#file, "utf8").trim().split("\n") : [];
    return lines
      .map((line) => line.split("\t"))
      .filter(([event]) => event === what)
      .map(([, subject = "", key = ""]) => ({ subject, key }));
  }
}
