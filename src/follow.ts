import { z } from "zod";
import { describe, TurnsError } from "./errors";
import { checkedOptions, schemaOf, signalSchema } from "./options";
import type { Change, FoundChange, Hints, Place, Told } from "./store/changes";
import type { Store } from "./store/store";
import { ID_RULE, isId } from "./system";
import { later, never, unlessAborted } from "./timers";

/** Options of `saver.follow`. */
export interface FollowRequest {
  /** One thread or several, which need not exist yet. Default: all threads of the database. */
  threadId?: string | readonly string[];
  /** The `cursor` of an earlier follower of the same threads: it continues behind the last change that one has given. */
  after?: string | undefined;
  /** Where to begin without `after`: `"now"` (default), `"start"` for all that is saved, or the `seq` of a row of the one thread. */
  from?: "now" | "start" | number;
  /** Ends the loop. */
  signal?: AbortSignal;
}

const ids = () => z.custom<string>(isId, ID_RULE);
const request = () =>
  z.strictObject({
    threadId: z.union([ids(), z.array(ids()).min(1)], `${ID_RULE}, or a list of them`).optional(),
    after: z.string().optional(),
    from: z.union([z.enum(["now", "start"]), z.number().int().min(0)], '"now", "start" or the seq of a row').default("now"),
    signal: signalSchema.optional(),
  });

/** How often to look. After a change soon again, then less and less often. */
interface Pace {
  /** If a look is a question to a server. */
  shortestMs: number;
  longestMs: number;
  /** If the store tells for nearly nothing whether there is anything to look for. */
  cheapMs: number;
}
const PACE: Pace = { shortestMs: 100, longestMs: 1_000, cheapMs: 50 };

/**
 * What is saved and removed on threads from now on, by any process: an async iterator.
 *
 * The changes of one thread come in their order, each once. Between threads there is no order.
 */
export class Changes implements AsyncIterableIterator<Change> {
  /**
   * Resolves when the database has said where `"now"` is: nothing that is saved from then on is missed.
   * @throws {TurnsError} STORE_UNAVAILABLE
   */
  readonly ready: Promise<void>;
  readonly #store: Store;
  readonly #threadIds: readonly string[] | undefined;
  readonly #signal: AbortSignal | undefined;
  readonly #pace: Pace;
  readonly #places = new Map<number, Place>();
  #hasStarted = false;
  #found: FoundChange[] = [];
  #hasMore = false;
  readonly #stopped = new AbortController();
  #version: unknown;
  #waitMs: number;
  #wake: (() => void) | undefined;
  #hints: Hints | undefined;
  #last: Promise<unknown> = Promise.resolve();

  /** @internal */
  constructor(store: Store, options: FollowRequest, pace: Pace = PACE) {
    const { threadId, after, from, signal } = checkedOptions(request, options);
    if (typeof from === "number" && typeof threadId !== "string") throw fromSeqOfMany();
    this.#store = store;
    this.#threadIds = typeof threadId === "string" ? [threadId] : threadId && [...new Set(threadId)];
    this.#signal = signal;
    this.#pace = pace;
    this.#waitMs = pace.shortestMs;
    signal?.addEventListener("abort", this.#stop, { once: true });
    for (const place of after === undefined ? [] : placesOf(after)) {
      if (this.#threadIds?.includes(place.threadId) !== false) this.#places.set(place.thread, place);
    }
    this.ready = this.#start(after === undefined && from !== "start" ? from : undefined);
    // `next` throws it too.
    this.ready.catch(() => undefined);
    if (signal?.aborted === true) this.#stop();
  }

  get #isDone(): boolean {
    return this.#stopped.signal.aborted;
  }

  /**
   * Where this follower is: behind the last change that it has given. Pass it as `after` to continue there, in this process or in
   * another one. It grows by about 100 characters for each followed thread. Undefined until {@link ready}.
   */
  get cursor(): string | undefined {
    if (!this.#hasStarted) return undefined;
    return Buffer.from(JSON.stringify([...this.#places.values()].map(written))).toString("base64url");
  }

  [Symbol.asyncIterator](): this {
    return this;
  }

  /**
   * The next change; waits for it. It is the end if the signal was aborted or the saver was closed.
   *
   * @throws {TurnsError} STORE_UNAVAILABLE if the database couldn't be reached for `busyTimeoutMs`. Follow again with `after: cursor`
   */
  next(): Promise<IteratorResult<Change, undefined>> {
    const next = this.#last.then(() => this.#next());
    this.#last = next.catch(() => undefined);
    return next;
  }

  async return(): Promise<IteratorResult<Change, undefined>> {
    this.#stop();
    return { done: true, value: undefined };
  }

  async #next(): Promise<IteratorResult<Change, undefined>> {
    try {
      await unlessAborted(this.ready, this.#stopped.signal);
      while (!this.#isDone) {
        const found = this.#found.shift();
        if (found !== undefined) {
          if (found.place === undefined) this.#places.delete(found.thread);
          else this.#places.set(found.thread, found.place);
          return { done: false, value: found.change };
        }
        if (!(await unlessAborted(this.#look(), this.#stopped.signal))) await this.#wait();
      }
    } catch (error) {
      const isClosed = TurnsError.is(error, "STORE_CLOSED") || !this.#store.isOpen();
      if (!this.#isDone && !isClosed) {
        this.#stop();
        throw error;
      }
    }
    this.#stop();
    return { done: true, value: undefined };
  }

  /** @param from undefined if the places are known */
  async #start(from: "now" | number | undefined): Promise<void> {
    const after = typeof from === "number" ? from : undefined;
    const places = from === undefined ? [] : await this.#store.standing(this.#threadIds, after);
    for (const place of places) this.#places.set(place.thread, place);
    this.#hasStarted = true;
  }

  /** @returns whether there was anything */
  async #look(): Promise<boolean> {
    if (!this.#store.isOpen()) this.#stop();
    if (this.#isDone) return false;
    const version = this.#hasMore ? undefined : this.#store.version();
    if (version !== undefined && version === this.#version) return false;
    this.#version = version;
    const { found, places, hasMore } = await this.#store.changesBehind({ threadIds: this.#threadIds, places: this.#places });
    for (const place of places) this.#places.set(place.thread, place);
    this.#found = [...found];
    this.#hasMore = hasMore;
    return found.length > 0 || hasMore;
  }

  async #wait(): Promise<void> {
    this.#hints ??= this.#store.listen?.(this.#onHint);
    const { shortestMs, longestMs, cheapMs } = this.#pace;
    const isCheap = this.#version !== undefined;
    let timer: NodeJS.Timeout | undefined;
    await new Promise<void>((resolve) => {
      this.#wake = resolve;
      timer = later(resolve, isCheap ? cheapMs : this.#waitMs);
      if (this.#isDone) resolve();
    });
    never(timer);
    this.#wake = undefined;
    // Hints only add looks: another process may save without telling anybody.
    this.#waitMs = Math.min(Math.max(2 * this.#waitMs, shortestMs), longestMs);
  }

  readonly #onHint = (): void => {
    this.#waitMs = this.#pace.shortestMs;
    this.#wake?.();
  };

  readonly #stop = (): void => {
    this.#stopped.abort();
    this.#signal?.removeEventListener("abort", this.#stop);
    this.#hints?.stop();
    this.#wake?.();
  };
}

const NUMBERS = ["thread", "seq", "epoch", "generation", "prunedSeq", "unswept", "takenBack", "abandoned"] as const;
/** One letter each in a cursor. */
const TOLD: Readonly<Record<Told, string>> = {
  action: "a",
  begun: "b",
  done: "d",
  failed: "f",
  resolved: "r",
  undone: "u",
  "undo-failed": "v",
};
const MEANT = new Map(Object.entries(TOLD).map(([told, letter]) => [letter, told as Told]));

function written(place: Place): [string, number[], [number, string][]] {
  return [place.threadId, NUMBERS.map((name) => place[name]), [...place.open].map(([seq, told]) => [seq, TOLD[told]])];
}

const number = z.number().int().min(0);
const cursorSchema = () =>
  z.array(z.tuple([z.string(), z.array(number).length(NUMBERS.length), z.array(z.tuple([number, z.enum([...MEANT.keys()])]))]));

/** @throws {TurnsError} INVALID_OPTION */
function placesOf(cursor: string): Place[] {
  try {
    const given: unknown = JSON.parse(Buffer.from(cursor, "base64url").toString());
    return schemaOf(cursorSchema).parse(given).map(placeOf);
  } catch {
    throw new TurnsError("INVALID_OPTION", {
      problem: `Option "after" is ${describe(cursor)}, which isn't a cursor of saver.follow.`,
      remedy: "Pass the `cursor` of what saver.follow returned, or leave `after` out.",
      data: { option: "after" },
    });
  }
}

function placeOf([threadId, numbers, open]: ReturnType<typeof written>): Place {
  const counts = Object.fromEntries(NUMBERS.map((name, at) => [name, numbers[at]])) as Record<(typeof NUMBERS)[number], number>;
  return { threadId, ...counts, open: new Map(open.map(([seq, letter]) => [seq, MEANT.get(letter) as Told])) };
}

function fromSeqOfMany(): TurnsError {
  return new TurnsError("INVALID_OPTION", {
    problem: 'Option "from" is the seq of a row, which only works if you follow exactly one thread.',
    remedy: 'Give the `threadId` of that row, or `from: "now"` or `"start"`.',
    data: { option: "from" },
  });
}
