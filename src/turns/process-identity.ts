import { readFileSync } from "node:fs";
import { hostname } from "node:os";
import { threadId } from "node:worker_threads";
import { LEFT, type RunRow } from "../store/store";
import { uptime } from "../system";

/** After this long without a heartbeat, a run of another host counts as dead. */
export const BEAT_EXPIRY_MS = 30_000;

/**
 * A live process on this host that hasn't shown itself for so long can't do anything: it's stopped, or its event loop is blocked. Much
 * longer than for other hosts, where nobody can ask whether the process is alive.
 */
const WEDGED_MS = 300_000;

/**
 * Identifies this process, even if its pid is reused, and the worker thread in it. Each worker thread has globals of its own, so
 * none knows what another one does.
 */
export function thisProcess(): Readonly<Pick<RunRow, "host" | "boot" | "pid" | "pidStart">> {
  if (identity?.pid !== process.pid) {
    const pidStart = `${startOf(process.pid)}${threadId === 0 ? "" : `/${threadId}`}`;
    identity = { host: hostname(), boot: boot(), pid: process.pid, pidStart };
  }
  return identity;
}

let identity: ReturnType<typeof thisProcess> | undefined;

/**
 * The runs that this process keeps alive, for all savers, including those of another copy of this package (ESM beside CommonJS).
 */
export const runsOfThisProcess: Set<string> = ((globalThis as Record<symbol, unknown>)[
  Symbol.for("langgraph-checkpoint-turns.runs")
] ??= new Set<string>()) as Set<string>;

/**
 * Whether a run is still alive, as far as can be known. A wrong answer does no harm: the run's lease stops it.
 *
 * For this thread, we know. For other processes on this host, the operating system knows; but one that is alive and has been quiet for
 * {@link WEDGED_MS} counts as wedged. For another host (a container that
 * shares the folder), and for another thread of this process, only the heartbeat tells. It counts by the machine's uptime,
 * because the wall clock can be set during a run; or by the database's clock, if that is on a server. Processes that share a file in WAL mode share a machine, so a run from before
 * the machine's start is over.
 *
 * It takes nothing else, so that it can be handed to `filter`.
 */
export function isAlive(run: RunRow): boolean {
  return isAliveAt(run, uptime());
}

/** @param now by {@link uptime} */
export function isAliveAt(run: RunRow, now: number): boolean {
  const here = thisProcess();
  const { quietMs } = run;
  if (run.beatAt <= 0 || (quietMs === undefined && run.boot !== here.boot)) return false;
  const isHere = run.host === here.host && run.boot === here.boot;
  if (isHere && run.pid === here.pid && run.pidStart === here.pidStart) return runsOfThisProcess.has(run.runId);
  const isOtherThread = run.pid === here.pid && baseOf(run.pidStart) === baseOf(here.pidStart);
  const quiet = quietMs ?? now - run.beatAt;
  if (!isHere || isOtherThread) return (quietMs !== undefined || quiet >= 0) && quiet < BEAT_EXPIRY_MS;
  return quiet < WEDGED_MS && pidIsAlive(run.pid, run.pidStart);
}

/** The id of a mark that holds a thread for work on the whole of it. */
export function holdId(id: string): string {
  return `hold ${id}`;
}

/**
 * Whether a run stopped unfinished because its process is gone. A hold isn't a run. A run that was only quiet for long may still continue, or its reader
 * has left it.
 */
export function isLost(run: RunRow): boolean {
  return run.beatAt === LEFT || (run.beatAt > 0 && !run.runId.startsWith(holdId("")) && !isAlive(run));
}

/**
 * Whether a process of this host is alive.
 *
 * @param start distinguishes it from a later process with the same pid; empty if not known
 */
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

/** Identifies one boot of the machine (Linux). Empty where the system doesn't say, which then holds for all its processes. */
function boot(): string {
  try {
    return readFileSync("/proc/sys/kernel/random/boot_id", "utf8").trim();
  } catch {
    return "";
  }
}

/** The kernel's start time of a process (Linux); empty where the system doesn't say. */
function startOf(pid: number): string {
  try {
    const stat = readFileSync(`/proc/${pid}/stat`, "utf8");
    // The command name, in parentheses, may contain anything. Fields count from after it, and the start time is the 20th.
    return stat.slice(stat.lastIndexOf(")") + 2).split(" ")[19] ?? "";
  } catch {
    return "";
  }
}
