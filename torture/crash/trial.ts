import { accessSync, constants, mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { type Fault, faultsOf } from "./checks";
import type { Answer } from "./child";
import { Ledger, type Line } from "./ledger";
import type { Case, ClockPlan, Plan } from "./plan";
import type { Worker } from "./workers";

/** A run to its end, by as many processes as needed. */
export interface Course {
  answer: Exclude<Answer, { error: string }>;
  lines: Line[];
}

export interface Result {
  /** The points at which processes died. */
  deaths: { n: number; point: string }[];
  /** Broken promises; empty if all held. */
  faults: Fault[];
  lines: Line[];
}

/** Where files lie in memory, if there is such a place: a SIGKILL takes nothing from a file that was written, so a disk would only cost time. */
function folderOfTrial(): string {
  const memory = "/dev/shm";
  try {
    accessSync(memory, constants.W_OK);
    return mkdtempSync(join(memory, "turns-torture-"));
  } catch {
    return mkdtempSync(join(tmpdir(), "turns-torture-"));
  }
}

/** The clock of the process with this number. */
function clockOf(clock: ClockPlan | undefined, process: number): ClockPlan | undefined {
  if (clock === undefined) return undefined;
  const { offsets, every } = clock;
  const first = process % offsets.length;
  return { offsets: [...offsets.slice(first), ...offsets.slice(0, first)], every };
}

/** Each kill stops a process, unless that has finished before. The last process isn't killed. */
async function courseOf(worker: Worker, { plan, kills, clock }: Case): Promise<Course | { fault: string; lines: Line[] }> {
  const folder = folderOfTrial();
  const ledger = new Ledger(join(folder, "ledger"));
  try {
    for (let at = 0; ; at += 1) {
      const kill = kills[at];
      const answer = await worker.do(
        { plan, db: join(folder, "agent.db"), ledger: ledger.path, wakes: at > 0, clock: clockOf(clock, at) },
        kill,
      );
      if (answer === "killed") {
        if (typeof kill === "object") ledger.add({ t: "die", n: kill.afterMs, point: "clock" });
        continue;
      }
      const lines = ledger.lines();
      return "error" in answer ? { fault: answer.error, lines } : { answer, lines };
    }
  } finally {
    rmSync(folder, { recursive: true, force: true });
  }
}

/** The same program without a crash: what everything is compared with. @throws if it doesn't finish */
export async function uncrashed(worker: Worker, plan: Plan): Promise<Course> {
  const course = await courseOf(worker, { plan, kills: [] });
  if ("fault" in course) throw new Error(course.fault);
  return course;
}

export async function crashed(worker: Worker, one: Case, whole: Course): Promise<Result> {
  const { plan } = one;
  const course = await courseOf(worker, one);
  const deaths = course.lines.flatMap((line) => (line.t === "die" ? [{ n: line.n, point: line.point }] : []));
  const faults = "fault" in course ? [{ promise: "state" as const, text: course.fault }] : faultsOf(plan, whole, course);
  return { deaths, faults, lines: course.lines };
}
