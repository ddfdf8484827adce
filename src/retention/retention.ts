import type { SaverEmitter } from "../events";
import type { Logger } from "../logger";
import type { TurnSaverOptions } from "../options";
import type { Store } from "../store/store";
import { hasAny, pruneThread } from "./prune-thread";
import type { SpaceKeeper } from "./space";
import { atEndOfMacrotask } from "../timers";

interface ThreadState {
  atWork: boolean;
  /** Another checkpoint was saved meanwhile. */
  again: boolean;
  /** The newest checkpoint is the end of a run: nothing comes next. */
  done: boolean;
  /** How many saves to let pass before looking again. */
  wait: number;
}

/** Examining the checkpoints kept for delta channels can take long. It may cost no more than this share of the saves. */
const LOOKED_AT_PER_SAVE = 64;
const BATCH = 500;

interface RetentionParts {
  store: Store;
  /** Requirements S2.4 and S8.7. The recommendation is 5 tasks. */
  options: NonNullable<TurnSaverOptions["retention"]>;
  /** Milliseconds since the epoch. */
  now: () => number;
  log: Logger;
  events: SaverEmitter;
  space: SpaceKeeper;
}

/** Prunes threads after their saves. No save waits for it or fails because of it. */
export class Retention {
  readonly #threads = new Map<string, ThreadState>();
  readonly #held = new Set<string>();

  constructor(private readonly parts: RetentionParts) {}

  /** A checkpoint of the root namespace was saved. Returns at once. */
  saved(threadId: string, done: boolean): void {
    if (this.#held.has(threadId)) return;
    const state = this.#threads.get(threadId) ?? { atWork: false, again: false, done, wait: 0 };
    state.done = done;
    this.#threads.set(threadId, state);
    if (state.atWork) state.again = true;
    else if (state.wait > 0 && !done) state.wait -= 1;
    else this.#schedule(threadId, state);
  }

  /**
   * Suspends pruning of the thread until the returned function is called; the next save then starts it. The import needs this: it
   * compares what it has saved, and pruned rows would be missing.
   */
  hold(threadId: string): () => void {
    this.#held.add(threadId);
    return () => void this.#held.delete(threadId);
  }

  forget(threadId: string): void {
    this.#threads.delete(threadId);
  }

  #schedule(threadId: string, state: ThreadState): void {
    state.atWork = true;
    state.again = false;
    atEndOfMacrotask(() => void this.#run(threadId, state));
  }

  async #run(threadId: string, state: ThreadState): Promise<void> {
    const { store, log } = this.parts;
    try {
      if (store.isOpen() && !this.#held.has(threadId)) await this.#prune(threadId, state);
    } catch (error) {
      // After close() nobody waits for it, and the next process continues.
      if (store.isOpen()) log.warn({ threadId, error: String(error) }, "not pruned; it is tried again after the next save");
    } finally {
      state.atWork = false;
      if (state.again && store.isOpen()) this.#schedule(threadId, state);
      else if (state.wait === 0 && this.#threads.get(threadId) === state) this.#threads.delete(threadId);
    }
  }

  async #prune(threadId: string, state: ThreadState): Promise<void> {
    const { store, options, now, log, events, space } = this.parts;
    const before = options.maxAgeMs === undefined ? undefined : now() - options.maxAgeMs;
    const keepLast = (state.done ? options.keepLastWhenDone : undefined) ?? options.keepLast;
    const wish = { kind: "criteria", keepTasks: options.keepTasks, keepLast, before } as const;
    const unswept = await store.unswept(threadId);
    let sweeps = false;
    const sweep = async (): Promise<boolean> => (sweeps = await isWorthSweeping(store, threadId, unswept));
    const { counts, examined } = await pruneThread(store, threadId, wish, { dryRun: false, batchSize: BATCH, sweep });
    state.wait = Math.floor(examined / LOOKED_AT_PER_SAVE);
    if (sweeps) space.later();
    if (!hasAny(counts)) return;
    log.info({ threadId, ...counts }, "pruned");
    events.emit("pruned", { by: "retention", ...counts, threads: 1, deletedThreads: [], inDoubt: [], failed: [], done: true });
  }
}

/** A sweep reads everything left on the thread, so it waits until this many checkpoints were deleted. */
const AT_LATEST = 64;
/**
 * Where there's little to read, it sweeps earlier. Otherwise many threads with a few pruned checkpoints each would keep all their
 * values.
 */
const EARLIER = [8, 16, 32];
/** How many pages may be read per deleted checkpoint: a mebibyte. */
const PAGES_PER_CHECKPOINT = 256;

/**
 * Whether a sweep for unneeded values is worthwhile. It counts what all processes together have pruned since the last sweep,
 * because many processes live for only a few saves.
 *
 * @param before how much was unswept before something was pruned
 */
async function isWorthSweeping(store: Store, threadId: string, before: number): Promise<boolean> {
  const unswept = await store.unswept(threadId);
  if (unswept >= AT_LATEST) return true;
  // Asking at every checkpoint would cost more than the sweep.
  if (!EARLIER.some((mark) => before < mark && unswept >= mark)) return false;
  const affordable = unswept * PAGES_PER_CHECKPOINT;
  return (await store.pagesToSweep(threadId, affordable + 1)) <= affordable;
}
