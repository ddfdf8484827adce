import { describe, TurnsError } from "../errors";

/** A clock that stands still until it is told otherwise: `TurnSaver.fromPath(path, { clock: fake.clock })`. */
export class FakeClock {
  #now: number;

  /** @param start default: midnight of 1 January 2030, UTC @throws {TurnsError} INVALID_OPTION */
  constructor(start: Date | string | number = Date.UTC(2030, 0, 1)) {
    this.#now = timeOf(start, "the start of a FakeClock");
  }

  /** For the option `clock`. A new Date each time. */
  readonly clock = (): Date => new Date(this.#now);

  /** @param ms how far, in milliseconds; not back @throws {TurnsError} INVALID_OPTION, and the clock stays as it is */
  advance(ms: number): Date {
    const isForward = typeof ms === "number" && ms >= 0;
    if (!isForward || !isTime(this.#now + ms))
      throw refused("advance of a FakeClock", "milliseconds from 0 that lead to a date", ms);
    this.#now += ms;
    return this.clock();
  }

  /** To any time, also an earlier one. @throws {TurnsError} INVALID_OPTION, and the clock stays as it is */
  set(to: Date | string | number): Date {
    this.#now = timeOf(to, "set of a FakeClock");
    return this.clock();
  }
}

const isTime = (ms: number): boolean => !Number.isNaN(new Date(ms).getTime());

function timeOf(value: unknown, what: string): number {
  const isKind = value instanceof Date || typeof value === "number" || typeof value === "string";
  const time = isKind ? new Date(value).getTime() : NaN;
  if (Number.isNaN(time)) throw refused(what, "a valid Date, or what makes one", value);
  return time;
}

function refused(what: string, expected: string, value: unknown): TurnsError {
  return new TurnsError("INVALID_OPTION", {
    what,
    expected,
    found: value instanceof Date ? "an invalid Date" : describe(value),
    remedy: "The clock was not changed.",
  });
}
