import { statSync } from "node:fs";
import { HttpError } from "./failures";

/**
 * The file of a SQLite database. An open file can be read after it was deleted or replaced: then it tells what nobody sees any
 * more. So everybody asks first.
 */
export class WatchedFile {
  readonly #path: string;
  readonly #identity: string | undefined;

  /** @param path of a file; anything else is no file, and never changes */
  constructor(path: string) {
    this.#path = path;
    this.#identity = identityOf(path);
  }

  get isFile(): boolean {
    return this.#identity !== undefined;
  }

  /** @throws {HttpError} 503 */
  refuseOther(): void {
    if (this.#identity === undefined) return;
    const now = identityOf(this.#path);
    if (now === this.#identity) return;
    const what = now === undefined ? "was deleted or moved" : "was replaced";
    throw new HttpError(
      503,
      now === undefined ? "DATABASE_GONE" : "DATABASE_REPLACED",
      `The file ${this.#path} ${what} since turns web opened it. Start turns web again.`,
    );
  }
}

/** Undefined if there is no such file, or the system doesn't say. */
function identityOf(path: string): string | undefined {
  try {
    const found = statSync(path);
    return found.isFile() ? `${found.dev}:${found.ino}` : undefined;
  } catch {
    return undefined;
  }
}
