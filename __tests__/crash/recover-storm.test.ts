import { type ChildProcess, spawn } from "node:child_process";
import { existsSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import type { TurnSaver } from "../../src/index";
import { CHILD_ENV, childProgram } from "../support/child-program";
import { openSaver } from "../support/open-saver";
import { SideEffects } from "../support/run-world";
import { tempFile } from "../support/temp";

/** `TURNS_STORM_MS=300000` makes it a storm of five minutes with 60 threads for each worker, round by round; by default there is one small round. */
const STORM_MS = Number(process.env["TURNS_STORM_MS"] ?? 0);
const WORKERS = 3;
const EACH = STORM_MS > 0 ? 60 : 8;
const KILLS = STORM_MS > 0 ? Infinity : 4;
/** How many nodes and effects a worker gets to do before it is killed, at most. */
const STEPS_MAX = STORM_MS > 0 ? 24 : 60;
const NODES = ["a", "b", "c", "d"];
/** A busy machine may take this much longer to bring the threads of a round to their end. */
const ROUND_MS = 240_000 + 4 * STORM_MS;
jest.setTimeout(STORM_MS + ROUND_MS + 300_000);

const pause = (ms: number): Promise<void> => new Promise((resolve) => setTimeout(resolve, ms));

async function isFinished(saver: TurnSaver, threadId: string): Promise<boolean> {
  const head = await saver.getTuple({ configurable: { thread_id: threadId } });
  return (head?.checkpoint.channel_values["log"] as string[] | undefined)?.length === NODES.length;
}

test("S9.4 S4.7 workers are killed at random and take over each other's threads: no completed node and no effect is repeated, every thread ends", async () => {
  const path = tempFile();
  const program = childProgram(join(__dirname, "recover-storm-child.ts"));
  const saver = openSaver(path, { synchronous: "normal" });
  const ledger = new SideEffects(`${path}.ledger`);
  const until = Date.now() + STORM_MS;
  let kills = 0;
  let rounds = 0;
  const all: string[] = [];
  do {
    const prefix = (worker: number): string => `r${rounds}w${worker}-`;
    const errors: string[] = [];
    const start = (worker: number): ChildProcess => {
      const child = spawn(process.execPath, [...program, path, prefix(worker), String(EACH)], {
        env: CHILD_ENV,
        stdio: ["ignore", "ignore", "pipe"],
      });
      child.stderr?.on("data", (text) => errors.push(String(text)));
      return child;
    };
    rmSync(`${path}.stop`, { force: true });
    const workers = Array.from({ length: WORKERS }, (_, worker) => start(worker));
    const threads = workers.flatMap((_, worker) => Array.from({ length: EACH }, (__, index) => `${prefix(worker)}${index}`));
    all.push(...threads);
    const open = new Set(threads);
    const deadline = Date.now() + ROUND_MS;
    const lives = new Map<number, number>();
    for (let killed = 0, looked = 0; open.size > 0;) {
      expect({ open: Date.now() > deadline ? [...open] : [], errors }).toEqual({ open: [], errors: [] });
      await pause(50);
      if (Date.now() - looked > 1_000) {
        for (const threadId of [...open]) if (await isFinished(saver, threadId)) open.delete(threadId);
        looked = Date.now();
      }
      // Each is killed after some of its steps, not after some time: a busy machine takes seconds for one.
      const steps = existsSync(`${path}.steps`) ? readFileSync(`${path}.steps`, "utf8").split("\n").map(Number) : [];
      for (const [worker, { pid = 0 }] of workers.entries()) {
        if (!lives.has(pid)) lives.set(pid, 1 + Math.floor(Math.random() * STEPS_MAX));
        const done = steps.filter((by) => by === pid).length;
        const isOver = killed >= KILLS || (STORM_MS > 0 && Date.now() > until);
        if (isOver || done < (lives.get(pid) ?? Infinity)) continue;
        workers[worker]?.kill("SIGKILL");
        workers[worker] = start(worker);
        killed += 1;
        kills += 1;
      }
    }
    writeFileSync(`${path}.stop`, "");
    await Promise.all(
      workers.map(async (worker) => {
        if (worker.exitCode === null) await new Promise((resolve) => worker.once("close", resolve));
      }),
    );
    rounds += 1;
  } while (Date.now() < until);

  const lines = ledger.all;
  for (const threadId of all) {
    const turns = await saver.turns.list(threadId);
    for (const node of NODES) {
      const of = turns.filter(({ nodeName }) => nodeName === node);
      const done = of.filter(({ turnType, status, durable }) => turnType === "Action" && status === "ok" && durable);
      // The newest turn of each node is its only Action that completed: nothing of it ran afterwards.
      expect([threadId, node, done.length, of.at(-1)?.id]).toEqual([threadId, node, 1, done[0]?.id]);
    }
    const own = lines.filter((line) => line.startsWith(`${threadId} `));
    expect([threadId, own.filter((line) => line.endsWith(" pays"))]).toEqual([
      threadId,
      NODES.map((node) => `${threadId} ${node} pays`),
    ]);
    // The bodies that ran, in order: a node may run again after a kill, but never after the next one has begun.
    const bodies = own.filter((line) => !line.endsWith(" pays"));
    expect([threadId, bodies]).toEqual([threadId, [...bodies].sort()]);
    expect(await saver.turns.liveRuns(threadId)).toEqual([]);
  }
  expect(await saver.turns.stuck()).toEqual([]);
  expect(await saver.verify()).toMatchObject({ ok: true, problems: [] });
  saver.close();
  const reports = existsSync(`${path}.reports`) ? readFileSync(`${path}.reports`, "utf8").trim().split("\n") : [];
  const resumed = reports.flatMap((line) => (JSON.parse(line) as { resumed: unknown[] }).resumed).length;
  const inFlightAgain =
    lines.filter((line) => !line.startsWith("!") && !line.endsWith(" pays")).length - all.length * NODES.length;
  const refused = lines.filter((line) => line.startsWith("!"));
  const figures = {
    rounds,
    threads: all.length,
    kills,
    resumed,
    inFlightAgain,
    refused: [...new Set(refused)],
    refusals: refused.length,
  };
  if (STORM_MS > 0) process.stdout.write(`storm: ${JSON.stringify(figures)}\n`);
  expect(kills).toBeGreaterThan(0);
});
