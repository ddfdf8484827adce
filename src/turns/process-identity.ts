import { readFileSync } from "node:fs";
import { hostname } from "node:os";
import { threadId } from "node:worker_threads";
import type { RunRow } from "../store/store";
import { uptime } from "../system";

/** After this long without a sign of life a run of another host counts as dead. */
export const BEAT_EXPIRY_MS = 30_000;

/**
 * What identifies this process beyond a pid that may be given out again, and in it the worker thread: each thread has globals of its own,
 * so none knows what another one does.
 */
export function thisProcess(): Readonly<Pick<RunRow, "host" | "boot" | "pid" | "pidStart">> {
  if (identity?.pid !== process.pid) {
    const pidStart = `${startOf(process.pid)}${threadId === 0 ? "" : `/${threadId}`}`;
    identity = { host: hostname(), boot: boot(), pid: process.pid, pidStart };
  }
  return identity;
}

let identity: ReturnType<typeof thisProcess> | undefined;

/** The runs that this process keeps going, over all savers, also those of another copy of this package (ESM beside CommonJS). */
export const runsOfThisProcess: Set<string> = ((globalThis as Record<symbol, unknown>)[
  Symbol.for("langgraph-checkpoint-turns.runs")
] ??= new Set<string>()) as Set<string>;

/**
 * Whether a run still goes on, as far as can be known: a wrong answer is stopped by the run's lease. Of this thread we know. Of other
 * processes on this host the system knows whether they live. Of another host (a container that shares the folder), and of another thread
 * of this process, only the heartbeat tells. It counts by the machine's uptime: the wall clock can be set while a run goes on.
 *
 * Who shares a file in WAL mode shares a machine, so a run from before the machine was started is over.
 *
 * @param now by {@link uptime}
 */
export function isAlive(run: RunRow, now = uptime()): boolean {
  const here = thisProcess();
  if (run.beatAt === 0 || run.boot !== here.boot) return false;
  if (run.host === here.host && run.pid === here.pid && run.pidStart === here.pidStart) return runsOfThisProcess.has(run.runId);
  const isOtherThread = run.pid === here.pid && baseOf(run.pidStart) === baseOf(here.pidStart);
  if (run.host !== here.host || isOtherThread) return now >= run.beatAt && now - run.beatAt < BEAT_EXPIRY_MS;
  return pidIsAlive(run.pid, run.pidStart);
}

/** Whether a process of this host lives. @param start what tells it from a later one with the same pid; empty if not known */
export function pidIsAlive(pid: number, start: string): boolean {
  if (!pidExists(pid)) return false;
  const started = startOf(pid);
  const expected = baseOf(start);
  return expected === "" || started === "" || started === expected;
}

/** Without the worker thread. */
function baseOf(start: string): string {
  return start.split("/", 1)[0] ?? "";
}

function pidExists(pid: number): boolean {
  try {
    process.kill(pid, 0);
    return true;
  } catch (error) {
    return (error as { code?: string }).code === "EPERM";
  }
}

/** Tells one start of a machine from another (Linux); empty where the system doesn't say, as for all processes of that machine. */
function boot(): string {
  try {
    return readFileSync("/proc/sys/kernel/random/boot_id", "utf8").trim();
  } catch {
    return "";
  }
}

/** The kernel's start time of a process (Linux); empty where the system does not say. */
function startOf(pid: number): string {
  try {
    const stat = readFileSync(`/proc/${pid}/stat`, "utf8");
    // The command name, in parentheses, may contain anything; fields count from behind it, and the start time is the 20th.
    return stat.slice(stat.lastIndexOf(")") + 2).split(" ")[19] ?? "";
  } catch {
    return "";
  }
}
