const RealDate = Date;
const realNow = Date.now;
let offset = (): number => 0;

/** As `Date`, but what asks for the present gets it with the offset. Dates are real ones: nothing tells them from others. */
const ShiftedDate: DateConstructor = new Proxy(RealDate, {
  construct: (target, given: unknown[], newTarget) =>
    Reflect.construct(target, given.length === 0 ? [ShiftedDate.now()] : given, newTarget) as object,
  apply: () => new ShiftedDate().toString(),
  get: (target, name, receiver) => (name === "now" ? shiftedNow : (Reflect.get(target, name, receiver) as unknown)),
});
const shiftedNow = (): number => realNow.call(RealDate) + offset();

/**
 * Sets this process's wall clock off by so many milliseconds: `Date` lies to everybody, LangGraph's checkpoint ids included. Timers and
 * `performance.now()` go on as they did, as they do where a system's clock is set.
 *
 * @param ms negative for a clock that was set back; 0 gives the real clock back. Or what is asked whenever somebody asks for the time
 */
export function setClockOffset(ms: number | (() => number)): void {
  offset = typeof ms === "number" ? () => ms : ms;
  const shown = ms === 0 ? RealDate : ShiftedDate;
  if (globalThis.Date === shown) return;
  globalThis.Date = shown;
  Object.defineProperty(RealDate.prototype, "constructor", { value: shown, writable: true, configurable: true });
}
