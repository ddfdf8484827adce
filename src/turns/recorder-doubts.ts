interface Doubt {
  outerRunId: string;
  failure: Error;
}

/** Node tasks whose last attempt has left an effect of which nobody knows what it came to, while the run that they are a part of goes on. */
export class Doubts {
  readonly #of = new Map<string, Doubt>();

  /** @param failure undefined: the attempt left none, or has settled what an earlier one left */
  ended(nodeTaskId: string, outerRunId: string, failure: Error | undefined): void {
    if (failure === undefined) this.#of.delete(nodeTaskId);
    else this.#of.set(nodeTaskId, { outerRunId, failure });
  }

  has(nodeTaskId: string): boolean {
    return this.#of.has(nodeTaskId);
  }

  /** @throws what the node task that failed should have failed with, whatever it made of it */
  refuseHandler(handledTaskId: string | undefined): void {
    const doubt = handledTaskId === undefined ? undefined : this.#of.get(handledTaskId);
    // LangGraph counts the error object of a node that has a handler as handled: the same one would be passed over in silence.
    if (doubt !== undefined) throw copied(doubt.failure);
  }

  forget(outerRunId: string): void {
    for (const [nodeTaskId, doubt] of this.#of) if (doubt.outerRunId === outerRunId) this.#of.delete(nodeTaskId);
  }
}

function copied(error: Error): Error {
  return Object.create(Object.getPrototypeOf(error) as object, Object.getOwnPropertyDescriptors(error)) as Error;
}
