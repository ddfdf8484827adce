import { spawn } from "node:child_process";
import { rmSync } from "node:fs";
import { dirname, join } from "node:path";
import { Command } from "@langchain/langgraph";
import { TurnsError, type TurnSaver } from "langgraph-checkpoint-turns";
import { functionalGraph, Ledger, mixedGraph } from "./crash-graphs";
import { tempFile } from "../support/temp";
import { childProgram } from "../support/child-program";
import { points, runs } from "../support/lane";
import { openSaver } from "../support/open-saver";

const CHILD = join(__dirname, "crash-child.ts");
const AT_ONCE = 4;
const quiet = { debug() {}, info() {}, warn() {}, error() {} };
const nowhere = (): void => undefined;

/** Runs the child; resolves with its last line, or "killed" if it died by SIGKILL. */
function runChild(which: string, db: string, ledger: string, killAt: number, durability = "async"): Promise<string> {
  return new Promise((resolve, reject) => {
    const child = spawn(process.execPath, [...childProgram(CHILD), which, db, ledger, String(killAt), durability], {
      env: { ...process.env, NODE_OPTIONS: process.env.TURNS_TEST_NODE_OPTIONS ?? "" },
    });
    let out = "";
    let err = "";
    child.stdout.on("data", (chunk) => (out += String(chunk)));
    child.stderr.on("data", (chunk) => (err += String(chunk)));
    child.on("close", (code, signal) => {
      if (signal === "SIGKILL") resolve("killed");
      else if (code === 0) resolve(out.trim().split("\n").at(-1) ?? "");
      else reject(new Error(`child ended with ${code}: ${err}`));
    });
  });
}

async function countPoints(which: string): Promise<number> {
  const db = tempFile();
  const last = await runChild(which, db, `${db}.ledger`, 0);
  return Number(/points (\d+)/.exec(last)?.[1]);
}

/** Runs `check` for each number, a few at a time, and reports every failure with its number. */
async function forEachPoint(all: readonly number[], check: (killAt: number) => Promise<void>): Promise<void> {
  let next = 0;
  const failures: string[] = [];
  const worker = async (): Promise<void> => {
    for (let killAt = all[next++]; killAt !== undefined; killAt = all[next++]) {
      await check(killAt).catch((error: unknown) => failures.push(`point ${killAt}: ${String(error)}`));
    }
  };
  await Promise.all(Array.from({ length: AT_ONCE }, worker));
  expect(failures).toEqual([]);
}

const upTo = (n: number): number[] => Array.from({ length: n }, (_, index) => index + 1);

/** What a killed process left: which bodies' work is durably done, which were at work. */
async function aftermath(saver: TurnSaver): Promise<{ done: Set<string>; inFlight: string[] }> {
  const turns = await saver.turns.list("t");
  const done = new Set<string>();
  for (const turn of turns) {
    if (turn.turnType !== "Action" || !turn.durable) continue;
    const state = await saver.turns.state(turn);
    done.add(turn.nodeName === "w" ? String((state["log"] as string[])[0]) : turn.nodeName);
  }
  return { done, inFlight: (await saver.turns.inFlight("t")).map((turn) => turn.nodeName) };
}

/** Finishes a thread as a supervisor would: start if nothing was saved, answer if it waits, else go on. */
async function finishMixed(saver: TurnSaver, ledger: Ledger): Promise<string[]> {
  const runner = mixedGraph(saver, ledger, nowhere);
  const config = { configurable: { thread_id: "t" } };
  for (let round = 0; round < 5; round += 1) {
    const state = await runner.graph.getState(config);
    const waits = state.tasks.some((task) => task.interrupts.length > 0);
    const command = waits ? { command: new Command({ resume: "!" }) } : {};
    const result = (await runner.resume({ threadId: "t", ...command }).catch((error: unknown) => {
      if (!TurnsError.is(error, "NOTHING_TO_RESUME")) throw error;
      return runner.invoke({ log: [] }, { threadId: "t" });
    })) as { log: string[]; __interrupt__?: unknown };
    if (result.__interrupt__ === undefined) return result.log;
  }
  throw new Error("did not finish");
}

describe("S1.6 S2.8 crash matrix: SIGKILL at every commit and at every body's start and end", () => {
  let expected: string[];
  let last: number;
  const bodies = ["a", "b", "p", "j", "s1", "s2", "s3", "k1", "c1", "c2", "calls", "w1", "w2", "z"];

  beforeAll(async () => {
    const saver = openSaver(":memory:", { logger: quiet });
    const ledger = new Ledger(`${tempFile()}.ledger`);
    expected = await finishMixed(saver, ledger);
    for (const name of bodies) expect([name, ledger.count(`start ${name}`)]).toEqual([name, 1]);
    saver.close();
    last = await countPoints("mixed");
    expect(last).toBeGreaterThan(100);
  }, 300_000);

  test("S1.6 S4.7 a new process resumes at exactly the turn: what was done is not done again, what was in flight once more, the result is the same", async () => {
    await forEachPoint(points(upTo(last), 7), async (killAt) => {
      const db = tempFile();
      const ledger = new Ledger(`${db}.ledger`);
      expect(await runChild("mixed", db, ledger.path, killAt)).toBe("killed");
      const begun = new Map(bodies.map((name) => [name, ledger.count(`start ${name}`)]));
      const saver = openSaver(db, { logger: quiet });
      const { done, inFlight } = await aftermath(saver);
      const result = await finishMixed(saver, ledger);
      expect(result).toEqual(expected);
      for (const name of bodies) {
        const before = begun.get(name) ?? 0;
        const again = ledger.count(`start ${name}`) - before;
        expect({ killAt, name, before, again }).toEqual({ killAt, name, before, again: done.has(name) ? 0 : 1 });
        if (before === 1 && !done.has(name)) expect(inFlight).toContain(name.replace(/^w\d/, "w"));
      }
      expect(ledger.count("start r")).toBeLessThanOrEqual(3);
      expect(ledger.count("start h!")).toBeLessThanOrEqual(2);
      expect(await saver.turns.inFlight("t")).toEqual([]);
      saver.close();
      rmSync(dirname(db), { recursive: true });
    });
  }, 600_000);

  test('S1.6 durability "sync" gives the same', async () => {
    const count = runs(3, 8);
    const some = Array.from({ length: count }, (_, index) => 1 + Math.floor((index * (last - 1)) / (count - 1)));
    await forEachPoint(some, async (killAt) => {
      const db = tempFile();
      const ledger = new Ledger(`${db}.ledger`);
      expect(await runChild("mixed", db, ledger.path, killAt, "sync")).toBe("killed");
      const saver = openSaver(db, { logger: quiet });
      const { done } = await aftermath(saver);
      const begun = new Map(bodies.map((name) => [name, ledger.count(`start ${name}`)]));
      expect(await finishMixed(saver, ledger)).toEqual(expected);
      for (const name of done) if (bodies.includes(name)) expect(ledger.count(`start ${name}`)).toBe(begun.get(name));
      saver.close();
    });
  }, 300_000);

  test("S1.6 functional tasks: a finished task() does not run again", async () => {
    const total = await countPoints("functional");
    await forEachPoint(points(upTo(total), 3), async (killAt) => {
      const db = tempFile();
      const ledger = new Ledger(`${db}.ledger`);
      expect(await runChild("functional", db, ledger.path, killAt)).toBe("killed");
      const saver = openSaver(db, { logger: quiet });
      const { done } = await aftermath(saver);
      const begun = new Map(["t1", "t2", "t3", "t4"].map((name) => [name, ledger.count(`start ${name}`)]));
      const runner = functionalGraph(saver, ledger, nowhere);
      const result = await runner.resume({ threadId: "t" }).catch((error: unknown) => {
        if (!TurnsError.is(error, "NOTHING_TO_RESUME")) throw error;
        return runner.invoke(1, { threadId: "t" });
      });
      expect(result).toBe(7);
      for (const [name, before] of begun) {
        expect({ killAt, name, again: ledger.count(`start ${name}`) - before }).toEqual({
          killAt,
          name,
          again: done.has(name) ? 0 : 1,
        });
      }
      saver.close();
    });
  }, 300_000);
});
