/** How long something takes, milliseconds. */
export async function timed(work: () => unknown): Promise<number> {
  const begun = performance.now();
  await work();
  return performance.now() - begun;
}

/** The same with the processor's time of this process, which other processes on the machine hardly change. Both in milliseconds. */
export async function timedWithCpu(work: () => unknown): Promise<{ clock: number; cpu: number }> {
  const before = process.cpuUsage();
  const clock = await timed(work);
  const { user, system } = process.cpuUsage(before);
  return { clock, cpu: (user + system) / 1_000 };
}

/** A sample is not taken again by whom it has cost this much already, once there are {@link FEWEST} of it. */
const BUDGET_MS = 6_000;
const FEWEST = 3;
/**
 * Samples in a row. A process uses one saver, so it doesn't find the processor's caches as another saver has left them. Behind another saver
 * it takes some ten steps until a step is as fast as the steps before (decision 40).
 */
const IN_A_ROW = 20;
/** So many steps of threads a saver makes at least before another one has its turn, for the same reason. */
export const STEPS_IN_A_ROW = 50;

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
  for (let round = 0; round < rounds; round += IN_A_ROW) {
    for (const one of inTurn(all, round / IN_A_ROW)) {
      for (let sample = round; sample < Math.min(round + IN_A_ROW, rounds); sample += 1) {
        const before = spent.get(one) ?? 0;
        if (sample >= FEWEST && before > budgetMs) break;
        spent.set(one, before + (await timed(() => turn(one, sample))));
      }
    }
  }
}

/** The same items in the same order, but each round begins with another one. */
export function inTurn<T>(all: readonly T[], round: number): T[] {
  const first = round % all.length;
  return [...all.slice(first), ...all.slice(0, first)];
}
