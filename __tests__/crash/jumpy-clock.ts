import fc from "fast-check";
import { setClockOffset } from "../../src/testing-internal";

export const SECOND = 1_000;
export const HOUR = 3_600_000;
export const DAY = 24 * HOUR;

/** By how much a clock is wrong: a little, a lot, both ways. */
export const offsets: fc.Arbitrary<number> = fc.constantFrom(
  0,
  1,
  -1,
  50,
  -50,
  -10 * SECOND,
  10 * SECOND,
  HOUR,
  -HOUR,
  DAY,
  -DAY,
);
/** What a clock shows, jump after jump. */
export const jumps: fc.Arbitrary<readonly number[]> = fc.array(offsets, { minLength: 2, maxLength: 6 });

/** The wall clock of this process, set back and ahead while `work` runs. */
export class JumpyClock {
  #at = 0;

  constructor(readonly offsets: readonly number[] = [0, -HOUR, HOUR, -10 * SECOND]) {}

  /** The clock is off by so much from now on. */
  readonly set = (ms: number): void => setClockOffset(ms);

  /** The clock shows what comes next in its list. */
  readonly jump = (): void => {
    this.#at += 1;
    this.set(this.offsets[this.#at % this.offsets.length] ?? 0);
  };

  /** From now on it jumps by itself, whenever it was asked for the time so often. */
  readonly run = (every: number): void => {
    let asked = 0;
    setClockOffset(() => this.offsets[Math.floor(asked++ / every) % this.offsets.length] ?? 0);
  };

  /** What a node calls: it jumps before the node's work, and again behind it. */
  readonly around =
    <A extends unknown[], R>(body: (...given: A) => R) =>
    (...given: A): R => {
      this.jump();
      const result = body(...given);
      this.jump();
      return result;
    };

  restore(): void {
    setClockOffset(0);
  }
}
