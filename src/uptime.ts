/** The option `clock`, unless it is given. */
export function wallClock(): Date {
  return new Date();
}

/** Taken at load, so that a user's fake timers can't stop it. */
const now = process.hrtime.bigint.bind(process.hrtime);

/**
 * Milliseconds by the machine's steady clock. All processes of a machine share it, and nobody can set it. Use it to measure how long
 * something takes, or how long ago something was. The wall clock is for what people read.
 */
export function uptime(): number {
  return Number(now() / 1_000_000n);
}
