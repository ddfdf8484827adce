import { duration } from "./text";

const AFTER_MS = 1_000;
const EVERY_MS = 200;
/** Below this share, the rest is a guess. */
const LEAST_SHARE = 0.02;

/** Tells how far work has come. `share`: of 1, from which the remaining time is estimated. */
export type Progress = (news: string | undefined, share?: number) => void;

/**
 * Tells on stderr how far work has come, if that's a terminal, and not before a second has passed.
 *
 * @returns call it with the news, and with undefined at the end
 */
export function startProgress(): Progress {
  const { stderr } = process;
  if (!stderr.isTTY) return () => undefined;
  const since = Date.now();
  let last = 0;
  let untold: string | undefined;
  const tell = (): void => {
    const now = Date.now();
    if (untold === undefined || now - since < AFTER_MS || now - last < EVERY_MS) return;
    last = now;
    stderr.write(`\r\u001b[K${untold.slice(0, Math.max(0, stderr.columns - 1))}`);
    untold = undefined;
  };
  // News that came too early is told later: it may be the last for long.
  const timer = setInterval(tell, EVERY_MS).unref();
  return (news, share) => {
    if (news === undefined) {
      clearInterval(timer);
      untold = undefined;
      if (last > 0) stderr.write("\r\u001b[K");
      return;
    }
    const left = ((Date.now() - since) * (1 - (share ?? 1))) / (share ?? 1);
    untold = `${news}${share === undefined || share < LEAST_SHARE ? "" : `, about ${duration(left)} left`}`;
    tell();
  };
}

/** Work with a {@link startProgress} of its own. */
export async function withProgress<T>(work: (progress: Progress) => Promise<T>): Promise<T> {
  const progress = startProgress();
  try {
    return await work(progress);
  } finally {
    progress(undefined);
  }
}
