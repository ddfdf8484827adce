/** How long something takes, milliseconds. */
export async function timed(work: () => unknown): Promise<number> {
  const begun = performance.now();
  await work();
  return performance.now() - begun;
}

/** A sample is not taken again by whom it has cost this much already, once there are {@link FEWEST} of it. */
const BUDGET_MS = 6_000;
const FEWEST = 3;

/**
 * Lets all take turns, so that what disturbs the machine disturbs all of them; each round begins with another one.
 *
 * @param budgetMs slow ones stop early, with fewer samples, when theirs is spent
 */
export async function takeTurns<T>(
  all: readonly T[],
  rounds: number,
  turn: (one: T, round: number) => Promise<void>,
  budgetMs = BUDGET_MS,
): Promise<void> {
  const spent = new Map<T, number>();
  for (let round = 0; round < rounds; round += 1) {
    for (let place = 0; place < all.length; place += 1) {
      const one = all[(place + round) % all.length] as T;
      const before = spent.get(one) ?? 0;
      if (round >= FEWEST && before > budgetMs) continue;
      spent.set(one, before + (await timed(() => turn(one, round))));
    }
  }
}
