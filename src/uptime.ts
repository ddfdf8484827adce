/** Taken at load, so that a user's fake timers can't stop it. */
const nanoseconds = process.hrtime.bigint.bind(process.hrtime);

/**
 * Milliseconds by the machine's steady clock. All processes of a machine share it, and nobody can set it: what measures how long something
 * takes, or how long ago something was, asks here. The wall clock is for what people read.
 */
export function uptime(): number {
  return Number(nanoseconds() / 1_000_000n);
}
