import { z } from "zod";
import { checkedOptions } from "./options";
import type { Logger } from "./logger";
import type { Store } from "./store/store";
import { uptime } from "./system";
import type { Draining, RunningThread } from "./turns/draining";
import type { TurnRecorder } from "./turns/recorder";
import type { RunRegistry } from "./turns/run-registry";
import { later } from "./timers";

export type { RunningThread } from "./turns/draining";

const LOOK_EVERY_MS = 10;
/**
 * How long to wait for a run while none of its nodes is running. It may be between two nodes, or nobody may be reading its stream
 * any more.
 */
const QUIET_MS = 500;

/** Options of `saver.drain`. */
export interface DrainOptions {
  /** How long running nodes may take to finish, in milliseconds. Default 30,000. */
  timeoutMs?: number;
}

/** The result of `saver.drain`. */
export interface DrainReport {
  /** Whether everything that was running has finished and is saved: nodes, rewinds and saves. */
  done: boolean;
  /**
   * The nodes that were still running at the timeout, and the threads that were still being rewound. That a node started is saved,
   * and what it returns isn't: a resume runs it again. Repeat a rewind to continue it; an undo that was running is in doubt then.
   */
  running: readonly RunningThread[];
}

export interface DrainParts {
  draining: Draining;
  runs: RunRegistry;
  recorder: TurnRecorder;
  store: Store;
  log: Logger;
  close: () => void;
}

const schema = z.strictObject({ timeoutMs: z.number().int().min(0).max(86_400_000).default(30_000) });

/**
 * Refuses new runs, waits for running nodes and rewinds to finish, commits and closes. At the timeout it closes anyway.
 *
 * @throws {TurnsError} INVALID_OPTION
 */
export async function drain(parts: DrainParts, options: DrainOptions): Promise<DrainReport> {
  const { timeoutMs } = checkedOptions(schema, options);
  const { draining, store, log } = parts;
  draining.begin();
  const begun = uptime();
  while (isAtWork(parts, begun) && store.isOpen()) {
    if (uptime() - begun >= timeoutMs) {
      const running = runningThreads(parts);
      log.warn(
        { timeoutMs, running },
        "drain: the time is up, and the saver closes while nodes are running. It is saved that they started and what finished before; " +
          "what they return isn't. A resume runs them again. Repeat a rewind that was running to continue it",
      );
      draining.closedEarly(running);
      parts.close();
      return { done: false, running };
    }
    await new Promise((resolve) => later(resolve, Math.min(LOOK_EVERY_MS, timeoutMs)));
  }
  // close() was called meanwhile.
  if (!store.isOpen()) return { done: runningThreads(parts).length === 0, running: runningThreads(parts) };
  await store.committed();
  parts.close();
  return { done: true, running: [] };
}

/** At first every run counts: it may be between two nodes, and is stopped at the next one. */
function isAtWork({ draining, runs }: DrainParts, begun: number): boolean {
  const now = uptime();
  return draining.isUnderWay || runs.atWork(now - begun < QUIET_MS ? 0 : now - QUIET_MS).length > 0;
}

function runningThreads({ draining, runs, recorder }: DrainParts): RunningThread[] {
  const threads = new Set([...runs.atWork(Infinity), ...draining.rewinding]);
  return [...threads].map((threadId) => ({ threadId, nodes: recorder.nodesAtWork(threadId) }));
}
