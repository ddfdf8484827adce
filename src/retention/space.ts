import type { Logger } from "../logger";
import type { FileSpace, RunRow, Store } from "../store/store";
import { atEndOfMacrotask, othersFirst } from "../timers";

/** Pages returned in one transaction: 4 MiB at SQLite's usual page size. */
const PAGES_AT_ONCE = 1_024;
/** With fewer free pages than this it isn't worthwhile: they are used again soon. */
const WORTH_WHILE = 256;

/** Returns free pages in steps, between which the event loop runs, and then makes the file smaller. */
export async function giveBack(store: Store, how: { truncate: boolean; signal?: AbortSignal | undefined }): Promise<void> {
  for (let space = await store.space(); canGiveBack(space) && how.signal?.aborted !== true;) {
    await store.giveBackPages(PAGES_AT_ONCE);
    await othersFirst();
    if (!store.isOpen()) return;
    const next = await store.space();
    if (next.freePages >= space.freePages) break;
    space = next;
  }
  await store.checkpointLog(how.truncate);
}

function canGiveBack({ freePages, givesBack }: FileSpace): boolean {
  return givesBack && freePages > 0;
}

/**
 * Deletes unreachable rows: the rest of a large deleted thread, and of unfinished copies. It uses short transactions; between
 * them the event loop runs and other processes save.
 */
export async function removeLeftovers(store: Store, isAlive: (run: RunRow) => boolean): Promise<void> {
  if (!(await store.hasLeftovers(isAlive))) return;
  while (store.isOpen() && (await store.removeLeftovers(isAlive))) await othersFirst();
}

/** Returns pages in the background after something was deleted, once there are enough of them. */
export class SpaceKeeper {
  #atWork = false;

  constructor(
    private readonly store: Store,
    private readonly log: Logger,
    private readonly isAlive: (run: RunRow) => boolean,
  ) {}

  /** Finishes in the background what a crashed process had begun to remove or copy. Returns at once. */
  tidy(): void {
    atEndOfMacrotask(() => void this.#tidied());
  }

  async #tidied(): Promise<void> {
    try {
      if (this.store.isOpen()) await removeLeftovers(this.store, this.isAlive);
    } catch {
      // A file that can't be read or written fails its next user; the next deletion tries again.
    }
  }

  /** Returns at once. */
  later(): void {
    if (this.#atWork) return;
    this.#atWork = true;
    atEndOfMacrotask(() => void this.#work());
  }

  async #work(): Promise<void> {
    try {
      if (!this.store.isOpen()) return;
      const space = await this.store.space();
      // The log keeps its length: replication tools that follow the file rely on it.
      if (canGiveBack(space) && space.freePages >= WORTH_WHILE) await giveBack(this.store, { truncate: false });
    } catch (error) {
      if (this.store.isOpen())
        this.log.warn({ error: String(error) }, "free pages could not be given back; it is tried again later");
    } finally {
      this.#atWork = false;
    }
  }
}
