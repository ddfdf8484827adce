import { appendFileSync, existsSync, readFileSync } from "node:fs";

/** What became of a letter. */
export type Postmark = "sent" | "retracted";

/**
 * Stands in for a mail server: a file that only grows, and that only the effect and its undo write to. It knows nothing of checkpoints and
 * delivers whatever it is given, also twice; so it is the witness of what really went out.
 */
export class Outbox {
  readonly #file: string;

  constructor(file: string) {
    this.#file = file;
  }

  write(postmark: Postmark, key: string, subject: string): void {
    appendFileSync(this.#file, `${postmark}\t${key}\t${subject}\n`);
  }

  has(postmark: Postmark, key: string): boolean {
    return this.entries(postmark).some((entry) => entry.key === key);
  }

  /** In the order in which they went. */
  entries(postmark: Postmark): { key: string; subject: string }[] {
    const lines = existsSync(this.#file) ? readFileSync(this.#file, "utf8").trim().split("\n") : [];
    return lines
      .map((line) => line.split("\t"))
      .filter(([what]) => what === postmark)
      .map(([, key = "", subject = ""]) => ({ key, subject }));
  }
}
