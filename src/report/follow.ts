import { z } from "zod";
import { internalsOf } from "../internals";
import { checkedOptions } from "../options";
import type { TurnSaver } from "../saver";
import { type FromThreadOptions, threadOptions } from "./from-thread";
import { later, never } from "../timers";

/** Options of `CheckpointFile.follow`. */
export interface FollowOptions extends FromThreadOptions {
  /** How long to collect changes before the file is written, in milliseconds. Default 250. */
  delayMs?: number;
}

/** Keeps a progress file up to date until you close it. */
export interface ProgressFollower {
  /** Writes the current progress. Resolves when it is written, or when writing failed and was logged. */
  flush(): Promise<void>;
  /** Calls {@link flush} and then stops. Closing twice is fine. */
  close(): Promise<void>;
}

const EVENTS = ["turn", "checkpoint", "rewind", "rewind_taken_back", "pruned"] as const;
/** Building the file takes at most this share of the time: the larger the thread, the less often it is written. */
const SHARE = 10;
/** The end of a run is no event, so it is polled this often. */
const ASK_AGAIN_MS = 1_000;

const schema = threadOptions.extend({ delayMs: z.number().int().min(0).max(3_600_000).default(250) });

/** See `CheckpointFile.follow`. @param refresh brings the file up to date */
export function followThread(
  saver: TurnSaver,
  thread: string,
  options: FollowOptions,
  refresh: (options: FromThreadOptions) => Promise<void>,
): ProgressFollower {
  const { threadId, delayMs, ...shown } = checkedOptions(schema, { ...options, threadId: thread });
  return new Follower(saver, threadId, delayMs, () => refresh(shown));
}

class Follower implements ProgressFollower {
  #timer: NodeJS.Timeout | undefined;
  #question: NodeJS.Timeout | undefined;
  #writing: Promise<void> = Promise.resolve();
  #lastTookMs = 0;
  #closed = false;
  readonly #heard = (told: object): void => {
    const { threadId } = told as { threadId?: unknown };
    if (threadId === undefined || threadId === this.threadId) this.#later(Math.max(this.delayMs, this.#lastTookMs * SHARE));
  };

  constructor(
    private readonly saver: TurnSaver,
    private readonly threadId: string,
    private readonly delayMs: number,
    private readonly refresh: () => Promise<void>,
  ) {
    for (const event of EVENTS) saver.events.on(event, this.#heard);
  }

  async flush(): Promise<void> {
    never(this.#timer);
    never(this.#question);
    this.#timer = undefined;
    this.#writing = this.#writing.then(() => this.#write());
    await this.#writing;
  }

  async close(): Promise<void> {
    if (this.#closed) return this.#writing;
    this.#closed = true;
    for (const event of EVENTS) this.saver.events.off(event, this.#heard);
    await this.flush();
  }

  /** Schedules one write, no matter how many events arrive: under a steady stream of them the file is still written. */
  #later(delayMs: number): void {
    if (this.#closed || this.#timer !== undefined) return;
    this.#timer = later(() => void this.flush(), delayMs);
    // A follower alone keeps no process alive: close it before the process exits.
    this.#timer.unref();
  }

  /** The file says that the thread is running, so it is written once more when the run is over. */
  #awaitEnd(): void {
    if (this.#closed) return;
    never(this.#question);
    this.#question = later(() => void this.#askForEnd(), ASK_AGAIN_MS);
    this.#question.unref();
  }

  async #askForEnd(): Promise<void> {
    const running = await this.saver.turns.isRunning(this.threadId).catch(() => false);
    if (this.#closed) return;
    if (running) this.#awaitEnd();
    else await this.flush();
  }

  /** Never throws. */
  async #write(): Promise<void> {
    const begun = performance.now();
    try {
      await this.refresh();
      if (await this.saver.turns.isRunning(this.threadId)) this.#awaitEnd();
    } catch (error) {
      internalsOf(this.saver).logger.warn(
        { threadId: this.threadId, error: String(error) },
        "the progress file could not be brought up to date; it is tried again after the next event",
      );
    }
    this.#lastTookMs = performance.now() - begun;
  }
}
