/** Numbers the effects of one attempt of a node task, each name by itself, so that a re-run numbers them the same way. */
export class Ordinals {
  readonly #of = new WeakMap<object, { counts: Map<string, number>; taken: Set<string> }>();

  /** @param attempt anything that is another one with each attempt */
  next(attempt: object, name: string): { number: number; taken: Set<string> } {
    let known = this.#of.get(attempt);
    if (known === undefined) {
      known = { counts: new Map(), taken: new Set() };
      this.#of.set(attempt, known);
    }
    const number = known.counts.get(name) ?? 0;
    known.counts.set(name, number + 1);
    return { number, taken: known.taken };
  }
}
