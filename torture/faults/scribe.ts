import { existsSync, rmSync, writeSync } from "node:fs";
import { TurnsError } from "langgraph-checkpoint-turns";

/** What a child prints: one line of JSON each. */
export type Line =
  | { kind: "ack"; what: string; value?: unknown }
  | { kind: "refused"; at: string; code: string; sqlite: string | undefined }
  | { kind: "lost-turn"; code: string }
  | { kind: "saw"; what: string; value: unknown }
  | { kind: "wrong"; what: string }
  | { kind: "end" };

/** Every message says what is wrong, in a sentence, and then what to do. */
const FORM = /^\S.+\. \S.+\.$/s;

export const GAVE_UP = Symbol("gave up");

/** Does the steps of a workload, and prints the outcome of each at once. */
export class Scribe {
  readonly #tries: number;
  readonly #filler: string | undefined;

  /**
   * @param tries how often a refused step is tried in all; 0 kills the process at the first refusal
   * @param filler a file that fills the disk: it is removed when a step is refused, so that there is room again
   */
  constructor(tries: number, filler?: string) {
    this.#tries = tries;
    this.#filler = filler;
  }

  get tries(): number {
    return Math.max(1, this.#tries);
  }

  say(line: Line): void {
    writeSync(1, `${JSON.stringify(line)}\n`);
  }

  ack(what: string, value?: unknown): void {
    this.say({ kind: "ack", what, value });
  }

  wrong(what: string): void {
    this.say({ kind: "wrong", what });
  }

  /** An error that a caller got: it must be one of ours, and say what to do. */
  refused(at: string, error: unknown): void {
    if (!TurnsError.is(error) || !FORM.test(error.message)) return this.wrong(`${at}: ${unnamed(error)}`);
    const { sqlite } = error.data as { sqlite?: string };
    this.say({ kind: "refused", at, code: error.code, sqlite });
    if (this.#tries === 0) process.kill(process.pid, "SIGKILL");
    if (this.#filler !== undefined && existsSync(this.#filler)) rmSync(this.#filler);
  }

  /** @param between checks what a refusal has left, before the step is tried again */
  async step<T>(at: string, work: () => T | Promise<T>, between?: () => Promise<void>): Promise<T | typeof GAVE_UP> {
    for (let tries = 0; tries < this.tries; tries += 1) {
      try {
        return await work();
      } catch (error) {
        this.refused(at, error);
      }
      await between?.();
    }
    return GAVE_UP;
  }
}

function unnamed(error: unknown): string {
  return error instanceof Error ? `${error.name}: ${error.message} ${error.stack?.split("\n")[1] ?? ""}` : String(error);
}
