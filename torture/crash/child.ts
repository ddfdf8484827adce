import { setClockOffset, setFailpointHandler } from "../../src/testing-internal";
import { Drive, type Finish } from "./drive";
import { Ledger } from "./ledger";
import type { ClockPlan, Plan } from "./plan";

/** What a process is asked to do. It does one after another, until it dies. */
export interface Job {
  plan: Plan;
  db: string;
  ledger: string;
  /** Dies by a real SIGKILL after so many points; undefined: not by itself. */
  killAt: number | undefined;
  /** Whether a process died at it before. */
  wakes: boolean;
  /** The clock of this process: it begins with the first offset. */
  clock: ClockPlan | undefined;
}

export type Answer = { finish: Finish; points: string[]; tookMs: number } | { error: string };
/** Sent when the work itself begins: clocks that kill run from here. */
export const BEGUN = "begun";

function setClock({ offsets, every }: ClockPlan): void {
  let asked = 0;
  setClockOffset(() => offsets[every === 0 ? 0 : Math.floor(asked++ / every) % offsets.length] ?? 0);
}

async function done({ plan, db, ledger: path, killAt, wakes, clock }: Job): Promise<Answer> {
  if (clock !== undefined) setClock(clock);
  const ledger = new Ledger(path);
  const points: string[] = [];
  let isListening = false;
  const point = (name: string): void => {
    if (!isListening) return;
    points.push(name);
    if (points.length !== killAt) return;
    ledger.add({ t: "die", n: killAt, point: name });
    process.kill(process.pid, "SIGKILL");
  };
  setFailpointHandler((name, { node, effect }) => point([name, node ?? effect ?? ""].join(" ").trim()));
  const drive = new Drive(db, ledger, plan, point);
  try {
    if (wakes) await drive.wake();
    isListening = true;
    process.send?.(BEGUN);
    const since = performance.now();
    const finish = await drive.finish();
    return { finish, points, tookMs: performance.now() - since };
  } catch (error) {
    return { error: textOf(error) };
  } finally {
    isListening = false;
    drive.close();
    setClockOffset(0);
  }
}

function textOf(error: unknown): string {
  const { code, stack, cause } = error as { code?: unknown; stack?: unknown; cause?: unknown };
  const lines = [`${typeof code === "string" ? `${code} ` : ""}${String(stack ?? error)}`];
  if (cause !== undefined) lines.push(`cause: ${textOf(cause)}`);
  return lines.join("\n");
}

process.on("message", (job: Job) => void done(job).then((answer) => process.send?.(answer)));
process.on("disconnect", () => process.exit(0));
