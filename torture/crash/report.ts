import { PROMISES, type Promised } from "./checks";
import type { Failure, Tally } from "./matrix";
import type { Case } from "./plan";
import type { Result } from "./trial";

export function inWords(tally: Tally): string {
  const { plans, tooLong, trials, kills, compound, bodies, effects, probed, repeatedByKey, settled, broken, failures } = tally;
  const counts = Object.entries(PROMISES).map(([promise, words]) => `${broken[promise as Promised]} ${words}`);
  return [
    `${kills} kills in ${trials} trials of ${plans} programs (and ${tooLong} that were too long); in ${compound} trials a resuming process was killed too.`,
    `${bodies} node bodies started, ${effects} effects were done. In doubt: ${probed} were settled by a probe, ${repeatedByKey} were repeated with their key as declared, ${settled} were settled by hand.`,
    `Killed at: ${listed(tally.killedAt)}.`,
    `Kills in programs with: ${listed(tally.features)}.`,
    `${counts.join(", ")}.${failures.length === 0 ? "" : ` ${failures.length} trials FAILED.`}`,
  ].join("\n");
}

const listed = (counts: Map<string, number>): string =>
  [...counts]
    .sort(([, left], [, right]) => right - left)
    .map(([name, times]) => `${name} ${times}`)
    .join(", ");

export function failureText(seed: number, { index, case: one, result }: Failure): string {
  return `FAILED: program ${index} of seed ${seed}\n${caseText(one, result)}\nto repeat the program: npm run torture -- crash --seed ${seed} --only ${index}`;
}

export function caseText(one: Case, { deaths, faults }: Result): string {
  const killed = deaths.map(({ n, point }) => (point === "clock" ? `${n} ms` : `point ${n}, ${point}`)).join("; then ");
  const again = `npm run torture -- crash --repeat '${JSON.stringify(one)}'`;
  return [
    ...faults.map(({ promise, text }) => `  [${PROMISES[promise]}] ${text.slice(0, 1_000)}`),
    `  killed at ${killed || "no point"}`,
    `  to repeat the case: ${again}`,
  ].join("\n");
}
