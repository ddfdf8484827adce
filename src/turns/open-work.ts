/** Counts what is going on in this process, by thread: bodies of nodes, or saves. */
export class OpenWork {
  readonly #threads = new Map<string, { count: number; end: Promise<void>; ended: () => void }>();

  /** Counts something until what this returns is called. */
  began(threadId: string): () => void {
    const work = this.#threads.get(threadId) ?? { count: 0, ...newEnd() };
    this.#threads.set(threadId, work);
    work.count += 1;
    return () => {
      work.count -= 1;
      if (work.count > 0) return;
      this.#threads.delete(threadId);
      work.ended();
    };
  }

  countOf(threadId: string): number {
    return this.#threads.get(threadId)?.count ?? 0;
  }

  /** Resolves when nothing is going on on the thread any more; undefined if nothing is. */
  endOf(threadId: string): Promise<void> | undefined {
    return this.#threads.get(threadId)?.end;
  }
}

function newEnd(): { end: Promise<void>; ended: () => void } {
  let ended = (): void => undefined;
  return { end: new Promise((resolve) => (ended = resolve)), ended: () => ended() };
}
