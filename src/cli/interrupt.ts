import { INTERRUPTED } from "./exit";

let working: { stop: AbortController; saying: string } | undefined;

/** Ctrl-C: long work ends after its current batch, everything else at once. A second Ctrl-C always ends it at once. */
export function interrupted(): void {
  if (working === undefined || working.stop.signal.aborted) process.exit(INTERRUPTED);
  working.stop.abort();
  const { stderr } = process;
  // A line of progress may be there.
  const start = stderr.isTTY ? "\r\u001b[K" : "";
  if (working.saying !== "") stderr.write(`${start}turns: ${working.saying}. Press Ctrl-C again to stop at once.\n`);
}

/**
 * Long work that stops between two batches. It says itself how to continue.
 * @param saying what stderr says when Ctrl-C comes; empty for work that ends at once
 */
export async function interruptible<T>(
  work: (signal: AbortSignal) => Promise<T>,
  saying = "stopping after this batch",
): Promise<T> {
  const stop = new AbortController();
  working = { stop, saying };
  try {
    return await work(stop.signal);
  } finally {
    working = undefined;
  }
}
