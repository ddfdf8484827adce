import { describe, TurnsError } from "../errors";

/** A clock that stands still until you change it: `TurnSaver.fromPath(path, { clock: fake.clock })`. */
export class FakeClock {
  #now: number;

  /** @param start default: midnight of 1 January 2030, UTC @throws {TurnsError} INVALID_OPTION */
  constructor(start: Date | string | number = Date.UTC(2030, 0, 1)) {
    this.#now = timeOf(start, "The start of a FakeClock");
  }

  /** For the option `clock`. A new Date each time. */
  readonly clock = (): Date => new Date(this.#now);

  /**
   * Moves the clock forward.
   *
   * @param ms how far, in milliseconds; not negative
   * @throws {TurnsError} INVALID_OPTION; the clock then stays as it is
   */
  advance(ms: number): Date {
    const isForward = typeof ms === "number" && ms >= 0;
    if (!isForward || !isTime(this.#now + ms))
      throw refused("The advance of a FakeClock", "milliseconds from 0 that lead to a date", ms);
    this.#now += ms;
    return this.clock();
  }

  /** Sets the clock to any time, even an earlier one. @throws {TurnsError} INVALID_OPTION; the clock then stays as it is */
  set(to: Date | string | number): Date {
    this.#now = timeOf(to, "The time that a FakeClock is set to");
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

const refused = (what: string, expected: string, value: unknown): TurnsError =>
  new TurnsError("INVALID_OPTION", {
    problem: `${what} is ${value instanceof Date ? "an invalid Date" : describe(value)}. It must be ${expected}.`,
    remedy: "The clock was not changed.",
  });

const RealDate = Date;
const realNow = Date.now;
let offset = (): number => 0;

/** Like `Date`, but the current time has the offset. Its dates are real ones, indistinguishable from others. */
const ShiftedDate: DateConstructor = new Proxy(RealDate, {
  construct: (target, given: unknown[], newTarget) =>
    Reflect.construct(target, given.length === 0 ? [ShiftedDate.now()] : given, newTarget) as object,
  apply: () => new ShiftedDate().toString(),
  get: (target, name, receiver) => (name === "now" ? shiftedNow : (Reflect.get(target, name, receiver) as unknown)),
});
const shiftedNow = (): number => realNow.call(RealDate) + offset();

/**
 * Sets this process's wall clock off by this many milliseconds. `Date` is then wrong for everybody, LangGraph's checkpoint ids
 * included. Timers and `performance.now()` stay right, as they do when a system's clock is set.
 *
 * @param ms negative for a clock that was set back; 0 restores the real clock. Or a function that is called whenever somebody
 *   asks for the time
 */
export function setClockOffset(ms: number | (() => number)): void {
  offset = typeof ms === "number" ? () => ms : ms;
  const shown = ms === 0 ? RealDate : ShiftedDate;
  if (globalThis.Date === shown) return;
  globalThis.Date = shown;
  Object.defineProperty(RealDate.prototype, "constructor", { value: shown, writable: true, configurable: true });
}
