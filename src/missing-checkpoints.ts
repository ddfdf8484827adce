import { TurnsError } from "./errors";

interface At {
  threadId: string;
  ns: string;
  checkpointId: string;
}

/** More runs than this do not fail at a time. */
const REMEMBERED = 1_000;

/**
 * Checkpoints that could not be saved, by why. What rests on one of them is refused with the same error: LangGraph saves the checkpoint
 * behind a run's input before anybody can stop it, and history with a hole in it would be read as if nothing were missing.
 */
export class MissingCheckpoints {
  readonly #errors = new Map<string, { error: unknown }>();

  add(at: At, error: unknown): void {
    // Its id may be used again, and then the run goes on.
    if (TurnsError.is(error, "THREAD_DELETED")) return;
    this.#errors.set(keyOf(at), { error });
    const [oldest] = this.#errors.keys();
    if (this.#errors.size > REMEMBERED && oldest !== undefined) this.#errors.delete(oldest);
  }

  /** It was saved after all. */
  delete(at: At): void {
    if (this.#errors.size > 0) this.#errors.delete(keyOf(at));
  }

  /** @throws what the save of that checkpoint failed with, if it did */
  refuse(at: Omit<At, "checkpointId">, checkpointId: string | undefined): void {
    if (this.#errors.size === 0 || checkpointId === undefined) return;
    const found = this.#errors.get(keyOf({ ...at, checkpointId }));
    if (found !== undefined) throw found.error;
  }
}

function keyOf({ threadId, ns, checkpointId }: At): string {
  return [threadId, ns, checkpointId].join("\0");
}
