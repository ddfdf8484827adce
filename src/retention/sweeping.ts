import type { Store } from "../store/store";

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
export async function isWorthSweeping(store: Store, threadId: string, before: number): Promise<boolean> {
  const unswept = await store.unswept(threadId);
  if (unswept >= AT_LATEST) return true;
  // To ask at each of them would cost more than the sweep.
  if (!EARLIER.some((mark) => before < mark && unswept >= mark)) return false;
  const affordable = unswept * PAGES_PER_CHECKPOINT;
  return (await store.pagesToSweep(threadId, affordable + 1)) <= affordable;
}
