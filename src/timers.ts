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

/**
 * What a promise resolves to, or undefined as soon as the signal is aborted. A server may never answer what is asked of it. A caller that
 * stops doesn't wait for that, and isn't told if it fails later.
 */
export function unlessAborted<T>(asked: Promise<T>, signal: AbortSignal | undefined): Promise<T | undefined> {
  if (signal === undefined) return asked;
  return new Promise((resolve, reject) => {
    const leave = (): void => resolve(undefined);
    if (signal.aborted) leave();
    signal.addEventListener("abort", leave, { once: true });
    asked.then(resolve, reject).finally(() => signal.removeEventListener("abort", leave));
  });
}
