import type { SaverEmitter } from "../events";
import type { Logger } from "../logger";
import type { TurnSaverOptions } from "../options";
import type { Store } from "../store/store";
import { pruneThread } from "./prune-thread";
import type { SpaceKeeper } from "./space";

interface ThreadState {
  atWork: boolean;
  /** Another checkpoint was saved meanwhile. */
  again: boolean;
  /** The newest checkpoint is the end of a run: nothing comes next. */
  done: boolean;
  /** Saves to let pass before looking again. */
  wait: number;
}

/** What stays for the sake of delta channels can be long; looking through it costs less than this share of the saves. */
const LOOKED_AT_PER_SAVE = 64;
const BATCH = 500;

interface RetentionParts {
  store: Store;
  /** Requirements S2.4 and S8.7; recommended are 5 tasks. */
  options: NonNullable<TurnSaverOptions["retention"]>;
  /** Milliseconds since the epoch. */
  now: () => number;
  log: Logger;
  events: SaverEmitter;
  space: SpaceKeeper;
}

/** Prunes threads behind their saves. No save waits for it, and no failure of it reaches one. */
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
   * Lets the thread alone until what is returned is called; then the next save brings its pruning about. For the import, which compares
   * what it has saved: it would miss what has gone.
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
    setImmediate(() => void this.#run(threadId, state));
  }

  async #run(threadId: string, state: ThreadState): Promise<void> {
    const { store, log } = this.parts;
    try {
      if (store.open && !this.#held.has(threadId)) await this.#prune(threadId, state);
    } catch (error) {
      // After close() nobody waits for it, and the next process goes on.
      if (store.open) log.warn({ threadId, error: String(error) }, "not pruned; it is tried again after the next save");
    } finally {
      state.atWork = false;
      if (state.again && store.open) this.#schedule(threadId, state);
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
    if (counts.checkpoints + counts.writes + counts.turns + counts.chunks === 0) return;
    log.info({ threadId, ...counts }, "pruned");
    events.emit("pruned", { by: "retention", ...counts, threads: 1, deletedThreads: [], failed: [], done: true });
  }
}

/** A sweep reads all that is left of the thread, so it waits until so many checkpoints have gone. */
const AT_LATEST = 64;
/** Where there is little to read it comes earlier, or many threads with a few pruned checkpoints each would keep all their values. */
const EARLIER = [8, 16, 32];
/** How many pages may be read for each checkpoint that went: a mebibyte. */
const PAGES_PER_CHECKPOINT = 256;

/**
 * Whether it is worth while to look for values that nothing needs any more. What counts is what was pruned since somebody last did,
 * in all processes together: many live for a few saves only.
 *
 * @param before how much was unswept before something was pruned
 */
async function isWorthSweeping(store: Store, threadId: string, before: number): Promise<boolean> {
  const unswept = await store.unswept(threadId);
  if (unswept >= AT_LATEST) return true;
  // To ask at each of them would cost more than the sweep.
  if (!EARLIER.some((mark) => before < mark && unswept >= mark)) return false;
  const affordable = unswept * PAGES_PER_CHECKPOINT;
  return (await store.pagesToSweep(threadId, affordable + 1)) <= affordable;
}
