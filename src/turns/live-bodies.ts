/** How many bodies of nodes are running on each thread, and what waits for the last of them. */
const live = new Map<string, { count: number; end: Promise<void>; ended: () => void }>();

/**
 * Runs a node's body and counts it as running until it has really finished. LangChain reports the end of an aborted node at once, while its
 * body may run on.
 *
 * @param threadId undefined for a body that belongs to no thread, which isn't counted
 */
export async function countedBody<T>(threadId: string | undefined, body: () => Promise<T>): Promise<T> {
  if (threadId === undefined) return body();
  const bodies = live.get(threadId) ?? opened(threadId);
  bodies.count += 1;
  try {
    return await body();
  } finally {
    bodies.count -= 1;
    if (bodies.count === 0) {
      live.delete(threadId);
      bodies.ended();
    }
  }
}

/** How many bodies run on a thread, in this process. */
export function liveBodies(threadId: string): number {
  return live.get(threadId)?.count ?? 0;
}

/** Resolves when no body runs on the thread any more; undefined if none does. */
export function endOfBodies(threadId: string): Promise<void> | undefined {
  return live.get(threadId)?.end;
}

function opened(threadId: string): { count: number; end: Promise<void>; ended: () => void } {
  let ended = (): void => undefined;
  const end = new Promise<void>((resolve) => {
    ended = resolve;
  });
  const bodies = { count: 0, end, ended };
  live.set(threadId, bodies);
  return bodies;
}
