import type { TurnSaver } from "../saver";
import type { OfficialKey, OfficialSource } from "../store/official-source";
import { aborted } from "./failures";
import { uptime } from "../uptime";

const KEYS_PER_PAGE = 1_000;
/** A mark without commits is given up after two seconds (`RunRegistry`). */
const RENEW_AFTER_MS = 1_000;

/** Lets timers and I/O of the process run; called between any two checkpoints. @throws {TurnsError} if the signal was aborted */
export async function breathe(signal: AbortSignal | undefined): Promise<void> {
  await new Promise((resolve) => setImmediate(resolve));
  if (signal?.aborted === true) throw aborted(signal.reason);
}

/** A thread's checkpoints, smallest id first. Only keys are held, a page of them. */
export function* keysOf(source: OfficialSource, threadId: string): Generator<OfficialKey> {
  let after: OfficialKey | undefined;
  for (;;) {
    const page = source.keys(threadId, after, KEYS_PER_PAGE);
    yield* page;
    after = page.at(-1);
    if (page.length < KEYS_PER_PAGE) return;
  }
}

/**
 * Marks the thread as running in the target for as long as it is being imported: a `GraphRunner`, a rewind and a second import are
 * refused meanwhile, in this process and in others. A process that dies leaves a mark that counts for nothing. The target's retention
 * lets the thread alone, or it would remove the first checkpoints before the last are there.
 */
export class Hold {
  readonly #saver: TurnSaver;
  readonly #threadId: string;
  readonly #letPrune: () => void;
  #giveBack: () => Promise<void>;
  #since = uptime();

  private constructor(saver: TurnSaver, threadId: string, giveBack: () => Promise<void>) {
    this.#saver = saver;
    this.#threadId = threadId;
    this.#letPrune = saver.holdRetention(threadId);
    this.#giveBack = giveBack;
  }

  /** @throws {TurnsError} THREAD_RUNNING */
  static async take(saver: TurnSaver, threadId: string): Promise<Hold> {
    return new Hold(saver, threadId, await saver.reserve(threadId));
  }

  /** Takes the mark anew when it is about to expire. @throws {TurnsError} THREAD_RUNNING if somebody was quicker */
  async renew(): Promise<void> {
    if (uptime() - this.#since < RENEW_AFTER_MS) return;
    await this.#giveBack();
    this.#giveBack = async () => undefined;
    this.#giveBack = await this.#saver.reserve(this.#threadId);
    this.#since = uptime();
  }

  async release(): Promise<void> {
    this.#letPrune();
    await this.#giveBack();
  }
}
