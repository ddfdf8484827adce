import * as timers from "node:timers";

/**
 * Node's own timers, taken when the package is loaded: so a user's fake timers (jest, vitest, sinon) stop no run, no heartbeat and no
 * `verify`.
 */
export const {
  setTimeout: later,
  clearTimeout: never,
  setInterval: every,
  clearInterval: noMore,
  setImmediate: atEndOfMacrotask,
} = timers;

/** Lets timers and I/O of the process have their turn in the middle of long work. */
export function othersFirst(): Promise<void> {
  return new Promise((resolve) => atEndOfMacrotask(resolve));
}
