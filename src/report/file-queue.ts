type Queues = Map<string, Promise<unknown>>;

/** By path, over all that this process writes, also through another copy of this package (ESM beside CommonJS). */
const queues: Queues = ((globalThis as Record<symbol, unknown>)[Symbol.for("langgraph-checkpoint-turns.checkpoint-files")] ??=
  new Map()) as Queues;

/** One after another on one path; a work that fails does not stop those behind it. */
export async function inTurn<T>(path: string, work: () => Promise<T>): Promise<T> {
  const before = queues.get(path) ?? Promise.resolve();
  const mine = before.then(work, work);
  const settled = mine.catch(() => undefined);
  queues.set(path, settled);
  try {
    return await mine;
  } finally {
    if (queues.get(path) === settled) queues.delete(path);
  }
}
