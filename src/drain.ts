import { z } from "zod";
import { checkedOptions } from "./options";
import type { Logger } from "./logger";
import type { Store } from "./store/store";
import { uptime } from "./system";
import type { Draining } from "./turns/draining";
import type { TurnRecorder } from "./turns/recorder";
import type { RunRegistry } from "./turns/run-registry";

/** Taken at load, so that a user's fake timers can't stop a drain. */
const later = setTimeout;
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
  /** Whether every node that was running has finished and is saved. */
  done: boolean;
  /** What was still running at the timeout. A resume runs these nodes again. */
  running: readonly RunningThread[];
}

/** A thread and its running nodes. */
export interface RunningThread {
  threadId: string;
  nodes: readonly string[];
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
 * Refuses new runs, waits for running nodes to finish, commits and closes. At the timeout it closes anyway.
 *
 * @throws {TurnsError} INVALID_OPTION
 */
export async function drain(parts: DrainParts, options: DrainOptions): Promise<DrainReport> {
  const { timeoutMs } = checkedOptions(schema, options);
  const { draining, store, log } = parts;
  draining.begin();
  const begun = uptime();
  while (isAtWork(parts, begun) && store.open) {
    if (uptime() - begun >= timeoutMs) {
      const running = runningThreads(parts);
      log.warn(
        { timeoutMs, running },
        "drain: the time is up, and the saver closes while nodes are running. What they return isn't saved; a resume runs them again",
      );
      draining.closedEarly();
      parts.close();
      return { done: false, running };
    }
    await new Promise((resolve) => later(resolve, Math.min(LOOK_EVERY_MS, timeoutMs)));
  }
  // close() was called meanwhile.
  if (!store.open) return { done: runningThreads(parts).length === 0, running: runningThreads(parts) };
  await store.committed();
  parts.close();
  return { done: true, running: [] };
}

/** At first every run counts: it may be between two nodes, and is stopped at the next one. */
function isAtWork({ draining, runs }: DrainParts, begun: number): boolean {
  const now = uptime();
  return draining.isUnderWay || runs.atWork(now - begun < QUIET_MS ? 0 : now - QUIET_MS).length > 0;
}

function runningThreads({ runs, recorder }: DrainParts): RunningThread[] {
  return runs.atWork(Infinity).map((threadId) => ({ threadId, nodes: recorder.nodesAtWork(threadId) }));
}
