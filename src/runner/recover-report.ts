import { inspect } from "node:util";
import type { StuckThread } from "../turns/stuck";

/** A thread that recovery didn't resume. */
export interface SkippedThread {
  threadId: string;
  taskId: string | undefined;
  /**
   * A code from docs/errors.md, `WAITING` (for a person) or `FINISHED`. With `WAITING`, `FINISHED` and `NOTHING_TO_RESUME` nothing is
   * left to recover, and the thread isn't reported again.
   */
  reason: { code: string; message: string };
}

/** A thread whose resumed run failed. It's tried again. */
export interface FailedRecovery extends StuckThread {
  /** When it may be tried again, by any worker. */
  retryAt: Date;
}

/** What a `runner.recover` did. `String(report)` and `console.log(report)` print it as text. */
export interface RecoverReport {
  /** Threads that ran to their end, or until they wait for a person. */
  resumed: { threadId: string; taskId: string | undefined }[];
  skipped: SkippedThread[];
  failed: FailedRecovery[];
  /** Threads that aren't tried any more: see `saver.turns.stuck()`. */
  givenUp: StuckThread[];
  toString(): string;
}

/** How many threads of a kind are listed. */
const LISTED_MAX = 20;

export function newReport(): RecoverReport {
  const report: RecoverReport = { resumed: [], skipped: [], failed: [], givenUp: [] };
  const words = (): string => inWords(report);
  return Object.defineProperties(report, { toString: { value: words }, [inspect.custom]: { value: words } });
}

export function isEmpty({ resumed, skipped, failed, givenUp }: RecoverReport): boolean {
  return resumed.length + skipped.length + failed.length + givenUp.length === 0;
}

function inWords(report: RecoverReport): string {
  if (isEmpty(report)) return "Nothing to recover.";
  const { resumed, skipped, failed, givenUp } = report;
  return [
    ...listed("Resumed", resumed, () => ""),
    ...listed("Skipped", skipped, ({ reason }) => `${reason.code}: ${firstSentence(reason.message)}`),
    ...listed("Failed", failed, (one) => `${errorOf(one)}; try ${one.tries}, again at ${one.retryAt.toISOString()}`),
    ...listed("Given up", givenUp, (one) => `${errorOf(one)}; after ${one.tries} ${one.tries === 1 ? "try" : "tries"}`),
  ].join("\n");
}

function listed<T extends { threadId: string }>(title: string, threads: readonly T[], why: (thread: T) => string): string[] {
  if (threads.length === 0) return [];
  const lines = threads.slice(0, LISTED_MAX).map((thread) => {
    const reason = why(thread).replace(/\s+/g, " ");
    return `  ${JSON.stringify(thread.threadId)}${reason === "" ? "" : `: ${reason}`}`;
  });
  const more = threads.length - lines.length;
  return [`${title}: ${threads.length}`, ...lines, ...(more > 0 ? [`  and ${more} more`] : [])];
}

function errorOf({ nodeName, error: { name, code, message } }: StuckThread): string {
  const at = nodeName === undefined ? "" : `node ${JSON.stringify(nodeName)}, `;
  return `${at}${code ?? name}${message === undefined ? "" : `: ${firstSentence(message)}`}`;
}

const firstSentence = (text: string): string => text.split(/\.(?=\s|$)/, 1)[0] ?? "";
