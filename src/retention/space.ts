import type { Logger } from "../logger";
import type { FileSpace, RunRow, Store } from "../store/store";
import { othersFirst } from "./prune-thread";

/** Pages given back in one transaction: 4 MiB at SQLite's usual page size. */
const PAGES_AT_ONCE = 1_024;
/** With fewer free pages than this it is not worth while: they are used again soon. */
const WORTH_WHILE = 256;

export interface VacuumReport {
  bytesBefore: number;
  /** On disk, write-ahead log included. */
  bytesAfter: number;
  /** Pages that are free and still in the file. */
  freePages: number;
  /** `false`: the file was created without the means to give pages back; `saver.vacuum({ full: true })` writes it anew, once. */
  givesBack: boolean;
}

/** Makes the database as small on disk as it can be. @param full writes the whole file anew */
export async function vacuum(store: Store, full: boolean): Promise<VacuumReport> {
  const { bytes: bytesBefore } = await store.space();
  if (full) await store.vacuumFully();
  else await giveBack(store, { truncate: true });
  const { bytes: bytesAfter, freePages, givesBack } = await store.space();
  return { bytesBefore, bytesAfter, freePages, givesBack };
}

/** Gives free pages back in steps, between which the event loop runs, and then makes the file smaller. */
export async function giveBack(store: Store, how: { truncate: boolean; signal?: AbortSignal | undefined }): Promise<void> {
  for (let space = await store.space(); canGiveBack(space) && how.signal?.aborted !== true;) {
    await store.giveBackPages(PAGES_AT_ONCE);
    await othersFirst();
    if (!store.open) return;
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
 * Removes what nobody can reach: the rest of a large thread that was deleted, and of copies that did not end. In short transactions,
 * between which the event loop runs, and other processes save.
 */
export async function removeLeftovers(store: Store, isAlive: (run: RunRow) => boolean): Promise<void> {
  if (!(await store.hasLeftovers(isAlive))) return;
  while (store.open && (await store.removeLeftovers(isAlive))) await othersFirst();
}

/** Gives pages back in the background after something was deleted, when there are enough of them. */
export class SpaceKeeper {
  readonly #store: Store;
  readonly #log: Logger;
  readonly #isAlive: (run: RunRow) => boolean;
  #atWork = false;

  constructor(store: Store, log: Logger, isAlive: (run: RunRow) => boolean) {
    this.#store = store;
    this.#log = log;
    this.#isAlive = isAlive;
  }

  /** Finishes in the background what a process that died had begun to remove, or to copy. Returns at once. */
  tidy(): void {
    setImmediate(() => void this.#tidied());
  }

  async #tidied(): Promise<void> {
    try {
      if (this.#store.open) await removeLeftovers(this.#store, this.#isAlive);
    } catch {
      // A file that cannot be read or written says so to its next user; the next deletion tries again.
    }
  }

  /** Returns at once. */
  later(): void {
    if (this.#atWork) return;
    this.#atWork = true;
    setImmediate(() => void this.#work());
  }

  async #work(): Promise<void> {
    try {
      if (!this.#store.open) return;
      const space = await this.#store.space();
      // The log is left as long as it is: whoever replicates the file follows it.
      if (canGiveBack(space) && space.freePages >= WORTH_WHILE) await giveBack(this.#store, { truncate: false });
    } catch (error) {
      if (this.#store.open)
        this.#log.warn({ error: String(error) }, "free pages could not be given back; it is tried again later");
    } finally {
      this.#atWork = false;
    }
  }
}
