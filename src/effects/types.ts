import { hostname } from "node:os";
import type { EffectRow, UndoStatus } from "../store/effects";
import { pidIsAlive, thisProcess } from "../turns/process-identity";

/** An effect as the journal knows it. */
export interface Effect {
  id: string;
  /** Position in the order of everything on its thread, from when its intent was committed. */
  seq: number;
  threadId: string;
  taskId: string;
  nodeName: string;
  nodeNs: string;
  nodeTaskId: string;
  name: string;
  /** Which of the effects of this name in its node task: `#0`, `#1`, … or the id that the caller gave. */
  label: string;
  /** The key its function was called with. */
  key: string;
  /**
   * `done`; `failed`, and may be tried again; `failed-for-good`; `running` in a live process; `in-doubt`: started, with an
   * unknown outcome.
   */
  status: "done" | "failed" | "failed-for-good" | "running" | "in-doubt";
  /** How often its function was started. */
  tries: number;
  idempotent: boolean;
  /** The name of the definition that has its undo; `false` if it needs none; undefined for a one-off without one. */
  undo: string | false | undefined;
  /** How far a rewind got with its undo. */
  undoStatus: UndoStatus | undefined;
  undoError: string | undefined;
  startedAt: Date;
  endedAt: Date | undefined;
  undoneAt: Date | undefined;
  /** `probe` or `person`, if it was not its function that reported the outcome. */
  settledBy: string | undefined;
  /** The thread is a copy, and the side effect was done for the source. */
  inherited: boolean;
}

/** The try of an effect that a completion row belongs to. */
export interface EffectTry {
  /** Stays the same over all tries of one effect, and is never used for another one. */
  key: string;
  threadId: string;
  name: string;
  /** Counts the effect's tries. A canceled try can't commit any more; a later one can. */
  tries: number;
}

export function tryOf({ key, threadId, name, tries }: EffectTry): EffectTry {
  return { key, threadId, name, tries };
}

export function toPublicEffect(row: EffectRow, running = isRunning(row)): Effect {
  return {
    id: row.id,
    seq: row.seq,
    threadId: row.threadId,
    taskId: row.taskId,
    nodeName: row.nodeName,
    nodeNs: row.nodeNs,
    nodeTaskId: row.nodeTaskId,
    name: row.name,
    label: row.label,
    key: row.key,
    status:
      row.status === "intent" ? (running ? "running" : "in-doubt") : row.status === "final" ? "failed-for-good" : row.status,
    tries: row.tries,
    idempotent: row.idempotent,
    undo: row.undo === "" ? false : row.undo,
    undoStatus: row.undoStatus,
    undoError: row.undoError,
    startedAt: new Date(row.startedAt),
    endedAt: row.endedAt === undefined ? undefined : new Date(row.endedAt),
    undoneAt: row.undoneAt === undefined ? undefined : new Date(row.undoneAt),
    settledBy: row.settledBy,
    inherited: row.inherited,
  };
}

/** Identifies who performs an effect: `<pid> <host> <start of the process>`. */
export function holderOf(): string {
  const { pid, host, pidStart } = thisProcess();
  return `${pid} ${host} ${pidStart}`;
}

/**
 * Whether another process may still be performing it. On this host the operating system knows which processes are alive. For
 * another host nobody knows, and after a crash there the effect would be in doubt forever, so it counts as finished.
 */
export function isHeldElsewhere(holder: string): boolean {
  if (holder === holderOf()) return false;
  const [pid = "", host = "", start = ""] = holder.split(" ");
  return host === hostname() && pidIsAlive(Number(pid), start);
}

/**
 * The effects this process is performing, by id, for all savers on all files and all copies of this package (ESM beside
 * CommonJS). An attempt that timed out may still be running one when the next attempt reaches it.
 */
export const runningHere: Map<string, Promise<unknown>> = ((globalThis as Record<symbol, unknown>)[
  Symbol.for("langgraph-checkpoint-turns.effects")
] ??= new Map<string, Promise<unknown>>()) as Map<string, Promise<unknown>>;

/** Whether somebody is performing it now. */
export function isRunning(row: EffectRow): boolean {
  return runningHere.has(row.id) || isHeldElsewhere(row.process);
}
