interface Bodies {
  count: number;
  end: Promise<void>;
  ended: () => void;
}

/**
 * Counts the bodies of nodes that run in this process, by thread. LangChain reports the end of an aborted node at once, while its body may
 * run on.
 */
export class LiveBodies {
  readonly #threads = new Map<string, Bodies>();

  /** Counts a body as running until what this returns is called. */
  began(threadId: string): () => void {
    const bodies = this.#threads.get(threadId) ?? opened();
    this.#threads.set(threadId, bodies);
    bodies.count += 1;
    return () => {
      bodies.count -= 1;
      if (bodies.count > 0) return;
      this.#threads.delete(threadId);
      bodies.ended();
    };
  }

  countOf(threadId: string): number {
    return this.#threads.get(threadId)?.count ?? 0;
  }

  /** Resolves when no body runs on the thread any more; undefined if none does. */
  endOf(threadId: string): Promise<void> | undefined {
    return this.#threads.get(threadId)?.end;
  }
}

function opened(): Bodies {
  let ended = (): void => undefined;
  const end = new Promise<void>((resolve) => {
    ended = resolve;
  });
  return { count: 0, end, ended };
}
