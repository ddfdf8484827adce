import { spawnSync } from "node:child_process";
import { readFileSync } from "node:fs";
import { join } from "node:path";
import { randomBytes } from "node:crypto";
import { Command } from "@langchain/langgraph";
import { type TurnSaver, type TurnSaverOptions, TurnsError } from "../../src/index";
import { copyThreadTo, moveThread, rotateKeys, salvage } from "../../src/maintenance/index";
import { internalsOf } from "../../src/testing-internal";
import { Deeds } from "../support/eff-world";
import { points } from "../support/lane";
import { laneTest, longTest } from "../support/lane-test";
import { choresOn, config, undosNamed } from "../support/undo-world";
import { CHILD_ENV, childProgram } from "../support/child-program";
import { ON_POSTGRES, openSaver } from "../support/open-saver";
import { SideEffects } from "../support/run-world";
import { runProgram } from "../support/s1-programs";
import { tempFile } from "../support/temp";
import { testOfFiles } from "../support/test-of-files";
import { crash, type Body, stepRunner, steps } from "./recover-world";

jest.setTimeout(300_000);

const savers: TurnSaver[] = [];
afterEach(() => {
  for (const saver of savers.splice(0)) saver.close();
});

function world(body?: Body, options: TurnSaverOptions = {}, path = tempFile()) {
  const logs: string[] = [];
  const log = (_: object, message: string): void => void logs.push(message);
  const saver = openSaver(path, { synchronous: "normal", logger: { debug() {}, info() {}, warn: log, error: log }, ...options });
  savers.push(saver);
  const ledger = new SideEffects(`${path}.ledger`);
  return { path, saver, ledger, logs, runner: stepRunner(saver, ledger, body) };
}

const pause = (ms: number): Promise<void> => new Promise((resolve) => setTimeout(resolve, ms));
const broken = (): never => {
  throw new Error("out of paper");
};
const ids = (threads: readonly { threadId: string }[]): string[] => threads.map(({ threadId }) => threadId).sort();
const input = { log: ["in"] };
const failsWith = (work: Promise<unknown>): Promise<unknown> =>
  work.then(
    () => "no error",
    (error: unknown) => error,
  );

/** The threads that are left to recovery. */
async function lost({ saver }: { saver: TurnSaver }): Promise<string[]> {
  return ids(await internalsOf(saver).store.allRuns("", 100));
}

/** A thread that stopped in its second node, when its process died. */
async function crashed(at: ReturnType<typeof world>, ...threadIds: string[]): Promise<void> {
  for (const threadId of threadIds) await failsWith(stepRunner(at.saver, at.ledger, broken).invoke(input, { threadId }));
  await crash(at.saver, ...threadIds);
}

function child(path: string, ...given: string[]) {
  const program = childProgram(join(__dirname, "recover-child.ts"));
  const { signal, stdout, stderr, status } = spawnSync(process.execPath, [...program, path, ...given], {
    env: CHILD_ENV,
    encoding: "utf8",
  });
  if (signal === null && status !== 0) throw new Error(stderr);
  return { signal, stdout };
}

describe("recover", () => {
  test("S9.4 recover resumes every thread of a process that was killed, and repeats no completed node and no effect", async () => {
    const path = tempFile();
    expect(child(path, "run", "12").signal).toBe("SIGKILL");
    const { runner, ledger, saver } = world(undefined, {}, path);
    const report = await runner.recover({ concurrency: 5 });
    const threads = Array.from({ length: 12 }, (_, index) => `t${index}`).sort();
    expect(ids(report.resumed)).toEqual(threads);
    expect({ ...report, resumed: [] }).toEqual({ resumed: [], skipped: [], failed: [], givenUp: [] });
    for (const threadId of threads) {
      for (const what of ["a", "pays", "b", "c"])
        expect([threadId, what, ledger.count(`${threadId} ${what}`)]).toEqual([threadId, what, 1]);
      expect((await runner.status(threadId)).finished).toBe(true);
    }
    expect(String(report)).toMatch(/^Resumed: 12\n {2}"t\d+"\n/);
    expect(String(await runner.recover())).toBe("Nothing to recover.");
    expect(await saver.turns.stuck()).toEqual([]);
  });

  test("S9.4 a config function that throws for one thread skips it, and the others are resumed", async () => {
    const at = world();
    await crashed(at, "t", "u", "v");
    const config = async ({ threadId }: { threadId: string }) => {
      if (threadId === "u") throw new Error("no such tenant");
      return {};
    };
    const report = await at.runner.recover({ concurrency: 1, config });
    expect(ids(report.resumed)).toEqual(["t", "v"]);
    expect(report.skipped).toMatchObject([{ threadId: "u", reason: { code: "INVALID_OPTION" } }]);
    expect(report.skipped[0]?.reason.message).toContain("no such tenant");
    expect(ids((await at.runner.recover()).resumed)).toEqual(["u"]);
  });

  test("S9.4 two workers that recover at the same time never resume one thread twice", async () => {
    const first = world();
    const threads = Array.from({ length: 10 }, (_, index) => `t${index}`);
    await crashed(first, ...threads);
    const second = world(undefined, {}, first.path);
    const reports = await Promise.all([
      first.runner.recover(),
      second.runner.recover(),
      first.runner.recover(),
      second.runner.recover(),
    ]);
    expect(reports.flatMap(({ resumed }) => ids(resumed)).sort()).toEqual(threads);
    for (const threadId of threads) expect([threadId, first.ledger.count(`${threadId} b`)]).toEqual([threadId, 1]);
    expect(reports.flatMap(({ skipped, failed, givenUp }) => [...skipped, ...failed, ...givenUp])).toEqual([]);
  });

  test("S9.4 it leaves alone what a live process runs, what failed in a caller's hands, and what its reader left", async () => {
    let go = (): void => undefined;
    const at = world((threadId, node) =>
      threadId === "live" && node === "b" ? new Promise<void>((resolve) => (go = resolve)) : threadId === "failed" && broken(),
    );
    const live = at.runner.invoke(input, { threadId: "live" });
    await failsWith(at.runner.invoke(input, { threadId: "failed" }));
    for await (const _ of await at.runner.stream(input, { threadId: "left", streamMode: "updates" })) break;
    const other = world(undefined, {}, at.path);
    expect(String(await other.runner.recover())).toBe("Nothing to recover.");
    go();
    await live;
    expect(String(await other.runner.recover())).toBe("Nothing to recover.");
  });

  test("S9.4 it skips threads that wait for a person, are finished or never began, says so once, and leaves them free", async () => {
    const { runner, saver } = world();
    await runner.invoke(input, { threadId: "ask" });
    await runner.invoke(input, { threadId: "finished" });
    await crash(saver, "ask", "finished", "never");
    const { skipped, resumed } = await runner.recover();
    expect(resumed).toEqual([]);
    expect(Object.fromEntries(skipped.map(({ threadId, reason }) => [threadId, reason.code]))).toEqual({
      ask: "WAITING",
      finished: "FINISHED",
      never: "NOTHING_TO_RESUME",
    });
    expect(skipped.find(({ threadId }) => threadId === "ask")?.reason.message).toBe('it waits for an answer at "b"');
    expect(String(await runner.recover())).toBe("Nothing to recover.");
    expect(await internalsOf(saver).store.listRuns("ask")).toEqual([]);
    await runner.resume({ threadId: "ask", command: new Command({ resume: "yes" }) });
  });

  test("S9.4 a thread whose question was answered before its process died continues with that answer", async () => {
    let isBroken = true;
    const { runner, saver, ledger } = world(() => isBroken && broken());
    await runner.invoke(input, { threadId: "ask" });
    await failsWith(runner.resume({ threadId: "ask", command: new Command({ resume: "yes" }) }));
    await crash(saver, "ask");
    isBroken = false;
    expect(ids((await runner.recover()).resumed)).toEqual(["ask"]);
    expect(ledger.count("ask c")).toBe(1);
  });

  test("S9.4 it doesn't pass a breakpoint, where a person has to look", async () => {
    const { saver, ledger } = world();
    const { GraphRunner } = await import("../../src/index");
    const { steps } = await import("./recover-world");
    for (const [threadId, breakpoint] of [
      ["before", { interruptBefore: ["b"] }],
      ["after", { interruptAfter: ["a"] }],
    ] as const) {
      const graph = steps(saver, ledger);
      Object.assign(graph, breakpoint);
      const runner = new GraphRunner(graph);
      await runner.invoke(input, { threadId });
      await crash(saver, threadId);
      expect((await runner.recover()).skipped).toMatchObject([{ threadId, reason: { code: "WAITING" } }]);
      expect(ledger.count(`${threadId} b`)).toBe(0);
    }
  });

  test("S9.4 S4.7 a thread with an effect in doubt is skipped until somebody has settled the effect, and no try is counted", async () => {
    const path = tempFile();
    expect(child(path, "doubt").signal).toBe("SIGKILL");
    const at = world(undefined, {}, path);
    const { store } = internalsOf(at.saver);
    const [paid] = await at.saver.effects.list("doubt");
    for (const _ of [1, 2]) {
      const { skipped, resumed } = await at.runner.recover();
      expect([ids(resumed), skipped]).toMatchObject([[], [{ threadId: "doubt", reason: { code: "EFFECT_IN_DOUBT" } }]]);
      expect(skipped[0]?.reason.message).toContain("pay");
    }
    expect((await store.recoveryOf("doubt", Date.now()))?.tries).toBe(0);
    await at.saver.effects.resolve(paid!.id, { outcome: "done", result: undefined });
    expect(ids((await at.runner.recover()).resumed)).toEqual(["doubt"]);
    expect(at.ledger.count("doubt pays")).toBe(1);
  });

  test("S9.4 S4.7 a process that has lost its thread to recovery doesn't make recovery forget it when its own run stops", async () => {
    let wake = (): void => undefined;
    const asleep = new Promise<void>((resolve) => (wake = resolve));
    const owner = world(() => asleep);
    const run = failsWith(owner.runner.invoke(input, { threadId: "t" }));
    while (owner.ledger.count("t pays") === 0) await pause(5);
    const worker = world(broken, {}, owner.path);
    const { store } = internalsOf(worker.saver);
    await store.beatRuns(
      (await store.allRuns("", 100)).map(({ runId }) => runId),
      -1,
    );
    expect(ids((await worker.runner.recover({ waitMs: 0 })).failed)).toEqual(["t"]);
    wake();
    expect(await run).toMatchObject({ code: "LEASE_LOST" });
    expect((await store.recoveryOf("t", Date.now()))?.tries).toBe(1);
    const healthy = world(undefined, {}, owner.path);
    expect(ids((await healthy.runner.recover({ waitMs: 0 })).resumed)).toEqual(["t"]);
    expect(owner.ledger.all.filter((line) => line !== "t a")).toEqual(["t pays", "t b", "t b", "t c"]);
  });

  test("S9.4 S3.3 a thread whose completed nodes changed is left to a worker that has its version, no matter what the runner's policy is", async () => {
    const at = world();
    await crashed(at, "t");
    const nodes = { a: { version: "2" } };
    for (const drift of [undefined, "restart", "continue"] as const) {
      const newer = stepRunner(world(undefined, {}, at.path).saver, at.ledger, undefined, { nodes, ...(drift && { drift }) });
      const { skipped, resumed } = await newer.recover();
      expect([ids(resumed), skipped]).toMatchObject([[], [{ threadId: "t", reason: { code: "GRAPH_CHANGED" } }]]);
    }
    expect(at.ledger.count("t b")).toBe(0);
    expect(ids((await at.runner.recover()).resumed)).toEqual(["t"]);

    await crashed(at, "u");
    const newer = stepRunner(world(undefined, {}, at.path).saver, at.ledger, undefined, { nodes });
    expect(ids((await newer.recover({ drift: "continue" })).resumed)).toEqual(["u"]);
    expect(at.ledger.count("u a")).toBe(1);
  });

  test("S9.4 S3.2 threads of another graph are left to its workers, and aren't reported", async () => {
    const at = world();
    await crashed(at, "t");
    const { line } = await import("../support/run-world");
    const other = line(world(undefined, {}, at.path), ["x", "y"]);
    expect(String(await other.recover())).toBe("Nothing to recover.");
    expect(ids((await at.runner.recover()).resumed)).toEqual(["t"]);
  });

  test("S9.4 S3.5 a thread that is being rewound is skipped", async () => {
    const at = world();
    await crashed(at, "t");
    const { store } = internalsOf(at.saver);
    const rewind = {
      id: "00000000-0000-4000-8000-000000000000",
      threadId: "t",
      targetTaskId: "x",
      targetSeq: 2 ** 50,
      archived: false,
    };
    await store.beginRewind(
      { ...rewind, createdAt: new Date().toISOString(), reason: undefined, createId: () => "" } as never,
      () => [],
    );
    await crash(at.saver, "t");
    expect((await at.runner.recover()).skipped).toMatchObject([{ threadId: "t", reason: { code: "REWIND_UNFINISHED" } }]);
    await store.abandonRewind(rewind.id, () => []);
    expect(ids((await at.runner.recover()).resumed)).toEqual(["t"]);
  });
});

describe("tries", () => {
  /** Due at once, so that a test needs no waiting. */
  const atOnce = { waitMs: 0, tries: 3 };

  test("S9.4 a thread that fails again is tried again later, by any worker; after its tries it's given up into a list that people see", async () => {
    const at = world(broken);
    await crashed(at, "t");
    const other = world(broken, {}, at.path);
    const reports = [];
    for (const { runner } of [at, other, at, other]) reports.push(await runner.recover(atOnce));
    expect(reports.map(({ failed, givenUp }) => [failed.map(({ tries }) => tries), givenUp.map(({ tries }) => tries)])).toEqual([
      [[1], []],
      [[2], []],
      [[], [3]],
      [[], []],
    ]);
    const stuck = { threadId: "t", tries: 3, nodeName: "b", error: { name: "Error", code: undefined, message: "out of paper" } };
    expect(reports[0]?.failed[0]).toMatchObject({ ...stuck, tries: 1, at: expect.any(Date), retryAt: expect.any(Date) });
    expect(reports[2]?.givenUp).toMatchObject([stuck]);
    expect(String(reports[2])).toBe('Given up: 1\n  "t": node "b", Error: out of paper; after 3 tries');
    expect(await world(undefined, {}, at.path).saver.turns.stuck()).toMatchObject([{ ...stuck, at: expect.any(Date) }]);
    expect(at.logs.join()).toContain(
      'Thread "t" was resumed and failed again, 3 times: recovery gives it up. saver.turns.stuck() lists it',
    );
    expect(at.ledger.count("t a") + at.ledger.count("t pays")).toBe(2);
  });

  test("S9.4 a given-up thread leaves the list when a person's resume succeeds, not when it fails", async () => {
    const at = world(broken);
    await crashed(at, "t");
    await at.runner.recover({ waitMs: 0, tries: 1 });
    await failsWith(at.runner.resume({ threadId: "t" }));
    expect(ids(await at.saver.turns.stuck())).toEqual(["t"]);
    await stepRunner(at.saver, at.ledger).resume({ threadId: "t" });
    expect(await at.saver.turns.stuck()).toEqual([]);
  });

  test("S9.4 a thread that a person finishes while a worker looks at it isn't given up", async () => {
    const at = world(broken);
    await crashed(at, "t");
    await at.runner.recover({ waitMs: 0, tries: 2 });
    await crash(at.saver, "t");
    const { store } = internalsOf(at.saver);
    const { saveRecovery } = store;
    store.saveRecovery = async (...args) => {
      await stepRunner(at.saver, at.ledger).resume({ threadId: "t" });
      return saveRecovery(...args);
    };
    expect((await at.runner.recover({ waitMs: 0, tries: 1 })).givenUp).toEqual([]);
    expect(at.ledger.count("t c")).toBe(1);
    expect(await at.saver.turns.stuck()).toEqual([]);
  });

  test("S9.4 a thread that somebody finishes with graph.invoke(null) while a worker looks at it isn't tried", async () => {
    const at = world(broken);
    await crashed(at, "t");
    expect((await at.runner.recover({ waitMs: 0 })).failed).toHaveLength(1);
    const graph = at.saver.attach(steps(at.saver, at.ledger));
    // Asked for between the look and the claim.
    const config = async () => {
      await graph.invoke(null, { configurable: { thread_id: "t" } });
      return {};
    };
    const report = await stepRunner(at.saver, at.ledger, undefined).recover({ waitMs: 0, config });
    expect([report.failed, report.givenUp]).toEqual([[], []]);
    expect(at.ledger.count("t c")).toBe(1);
    expect(await internalsOf(at.saver).store.recoveryOf("t", Date.now())).toBeUndefined();
    expect(await at.saver.turns.liveRuns("t")).toEqual([]);
  });

  longTest("S9.4 a given-up thread keeps no row of the process that died of it, so that looks don't meet it again", async () => {
    const path = tempFile();
    const at = world(undefined, {}, path);
    await crashed(at, "poison");
    expect([child(path, "recover").signal, child(path, "recover").signal]).toEqual(["SIGKILL", "SIGKILL"]);
    expect((await at.runner.recover({ waitMs: 0, tries: 2 })).givenUp).toHaveLength(1);
    const { store } = internalsOf(at.saver);
    expect(await store.listRuns("poison")).toEqual([]);
    const looked = jest.spyOn(store, "lastRun");
    await at.runner.recover({ waitMs: 0, tries: 2 });
    expect(looked).not.toHaveBeenCalled();
    // A run of later that dies is another matter.
    await crash(at.saver, "poison");
    expect(ids(await at.saver.turns.stuck())).toEqual(["poison"]);
  });

  test("S9.4 includeStuck tries given-up threads again, with all their tries", async () => {
    const at = world(broken);
    await crashed(at, "t", "u");
    await at.runner.recover({ waitMs: 0, tries: 1 });
    expect(ids((await at.runner.recover({ ...atOnce, includeStuck: true })).failed)).toEqual(["t", "u"]);
    expect(await at.saver.turns.stuck()).toEqual([]);
    expect(ids((await stepRunner(at.saver, at.ledger).recover({ includeStuck: true })).resumed)).toEqual(["t", "u"]);
    expect(at.ledger.count("t pays")).toBe(1);
  });

  test("S9.4 a thread that kills each process which resumes it is given up, and not the threads that run beside it", async () => {
    const path = tempFile();
    const at = world(undefined, {}, path);
    await crashed(at, "poison", "t");
    expect([child(path, "recover").signal, child(path, "recover").signal]).toEqual(["SIGKILL", "SIGKILL"]);
    const { signal, stdout } = child(path, "recover");
    expect(signal).toBeNull();
    const { givenUp } = JSON.parse(stdout) as { givenUp: { threadId: string }[] };
    expect(ids(givenUp)).toEqual(["poison"]);
    expect(await at.saver.turns.stuck()).toMatchObject([
      { threadId: "poison", tries: 2, nodeName: "b", error: { name: "ProcessDied" } },
    ]);
    expect((await at.runner.status("t")).finished).toBe(true);
    expect(ids((await at.runner.recover({ includeStuck: true })).resumed)).toEqual(["poison"]);
  });

  test("S9.4 only tries that brought a thread no further count", async () => {
    const at = world(broken);
    await crashed(at, "t");
    await at.runner.recover(atOnce);
    await at.runner.recover(atOnce);
    const further = stepRunner(at.saver, at.ledger, (_, node) => node === "c" && broken());
    const { failed } = await further.recover(atOnce);
    expect(failed).toMatchObject([{ threadId: "t", tries: 1, nodeName: "c" }]);
  });

  test("S9.4 a failed thread waits longer after each try; the wait is on record, for all workers and over restarts", async () => {
    const at = world(broken);
    await crashed(at, "t");
    const { store } = internalsOf(at.saver);
    const { failed } = await at.runner.recover({ waitMs: 1_000 });
    const first = await store.recoveryOf("t", Date.now());
    expect(first).toMatchObject({ tries: 1, givenUp: false });
    expect(first?.waitMs).toBeGreaterThanOrEqual(500);
    expect(first?.waitMs).toBeLessThanOrEqual(1_000);
    expect(failed[0]?.retryAt.getTime()).toBe(failed[0]!.at.getTime() + first!.waitMs);
    const later = world(broken);
    await crashed(later, "t");
    await later.runner.recover({ waitMs: 100_000 });
    expect(String(await world(broken, {}, later.path).runner.recover())).toBe("Nothing to recover.");
    await new Promise((resolve) => setTimeout(resolve, first!.waitMs + 50));
    await at.runner.recover({ waitMs: 60_000 });
    const second = await store.recoveryOf("t", Date.now());
    expect(second?.waitMs).toBeGreaterThanOrEqual(90_000);
    expect(second?.waitMs).toBeLessThanOrEqual(180_000);
  });

  test("S9.4 a clock that is hours off keeps no thread from being tried again", async () => {
    const ahead = world(broken, { clock: () => new Date(Date.now() + 5 * 3_600_000) });
    await crashed(ahead, "t");
    await ahead.runner.recover({ waitMs: 0 });
    const at = world(undefined, {}, ahead.path);
    expect(ids((await at.runner.recover()).resumed)).toEqual(["t"]);
  });

  test("S9.4 S4.6 the text of an error is kept only where turns keep theirs", async () => {
    const at = world(broken, { redact: () => ({}) });
    await crashed(at, "t");
    const { givenUp } = await at.runner.recover({ tries: 1 });
    expect(givenUp).toMatchObject([{ threadId: "t", nodeName: "b", error: { name: "Error", message: undefined } }]);
    expect(await at.saver.turns.stuck()).toMatchObject(givenUp.map(({ error }) => ({ error })));
  });

  test("S9.4 S6.1 in an encrypted database the error is sealed, key rotation seals it again, and verify checks the row", async () => {
    const [old, current] = [randomBytes(32), randomBytes(32)];
    const at = world(broken, { encryption: { keys: { old }, current: "old" } });
    await crashed(at, "t");
    await at.runner.recover({ tries: 1 });
    expect((await at.saver.verify()).checked.recoveries).toBe(1);
    const rotated = world(broken, { encryption: { keys: { old, current }, current: "current" } }, at.path);
    expect((await rotateKeys(rotated.saver)).resealed.recoveries).toBe(1);
    expect(await rotated.saver.verify()).toMatchObject({ ok: true, problems: [] });
    const alone = world(broken, { encryption: { keys: { current }, current: "current" } }, at.path);
    expect(await alone.saver.turns.stuck()).toMatchObject([{ threadId: "t", error: { message: "out of paper" } }]);
    if (!ON_POSTGRES) expect(readFileSync(at.path).includes("out of paper")).toBe(false);
  });

  test("S9.4 stuck threads come in pages; deleting, rewinding and copying a thread leave no entry of it", async () => {
    const at = world(broken);
    const threads = ["t0", "t1", "t2", "t3"];
    await stepRunner(at.saver, at.ledger).invoke(input, { threadId: "t2", taskId: "first" });
    await crashed(at, ...threads);
    await at.runner.recover({ tries: 1 });
    const first = await at.saver.turns.stuck({ limit: 3 });
    const { cursor } = first;
    expect([ids(first), cursor, ids(await at.saver.turns.stuck({ after: cursor }))]).toEqual([["t0", "t1", "t2"], "t2", ["t3"]]);
    await at.saver.copyThread("t0", "t9");
    await at.saver.deleteThread("t1");
    await at.saver.rewind({ threadId: "t2", toTask: "first", allowUncompensated: true });
    expect(ids(await at.saver.turns.stuck())).toEqual(["t0", "t3"]);
    await at.saver.prune({ keepLast: 1 });
    expect(ids(await at.saver.turns.stuck())).toEqual(["t0", "t3"]);
    expect(await at.saver.verify()).toMatchObject({ ok: true, problems: [] });
    await expect(at.saver.turns.stuck({ limit: -1 })).rejects.toThrow(expect.objectContaining({ code: "INVALID_OPTION" }));
  });
});

describe("workers", () => {
  test("S9.4 a drained process leaves its threads to the next worker, which continues at the next node", async () => {
    let reached = (): void => undefined;
    const arrived = new Promise<void>((resolve) => (reached = resolve));
    const at = world(async () => {
      reached();
      await new Promise((resolve) => setTimeout(resolve, 50));
    });
    const run = failsWith(at.runner.invoke(input, { threadId: "t" }));
    await arrived;
    await at.runner.drain();
    expect(await run).toMatchObject({ code: "STORE_DRAINING" });
    const next = world(undefined, {}, at.path);
    expect(ids((await next.runner.recover()).resumed)).toEqual(["t"]);
    expect(["a", "pays", "b", "c"].map((what) => at.ledger.count(`t ${what}`))).toEqual([1, 1, 1, 1]);
  });

  test("S9.4 a drain waits for recover, whose threads stop at their next node and stay for others; that is no failed try", async () => {
    const at = world();
    await crashed(at, "t", "u");
    let reached = (): void => undefined;
    const arrived = new Promise<void>((resolve) => (reached = resolve));
    const worker = world(
      async () => {
        reached();
        await new Promise((resolve) => setTimeout(resolve, 50));
      },
      {},
      at.path,
    );
    const recovering = worker.runner.recover({ concurrency: 1 });
    await arrived;
    expect(await worker.runner.drain()).toEqual({ done: true, running: [] });
    expect(String(await recovering)).toBe("Nothing to recover.");
    const next = world(undefined, {}, at.path);
    const { store } = internalsOf(next.saver);
    expect(
      [await store.recoveryOf("t", Date.now()), await store.recoveryOf("u", Date.now())].map((row) => row?.tries ?? 0),
    ).toEqual([0, 0]);
    expect(ids((await next.runner.recover()).resumed)).toEqual(["t", "u"]);
    for (const what of ["a", "pays", "b", "c"]) expect([what, at.ledger.count(`t ${what}`)]).toEqual([what, 1]);
  });

  test("S9.4 new input that is refused because of unfinished work leaves the thread to recovery", async () => {
    const at = world();
    await crashed(at, "t");
    await expect(at.runner.invoke(input, { threadId: "t" })).rejects.toThrow(
      expect.objectContaining({ code: "UNFINISHED_WORK" }),
    );
    expect(ids((await at.runner.recover()).resumed)).toEqual(["t"]);
  });

  test("S9.4 a saver that is closed during a run leaves the thread to recovery", async () => {
    let reached = (): void => undefined;
    const arrived = new Promise<void>((resolve) => (reached = resolve));
    const at = world(async () => {
      reached();
      await new Promise((resolve) => setTimeout(resolve, 50));
    });
    const run = failsWith(at.runner.invoke(input, { threadId: "t" }));
    await arrived;
    at.saver.close();
    expect(await run).toMatchObject({ code: "STORE_CLOSED" });
    const next = world(undefined, {}, at.path);
    // On record, not only in this process: others recover it although this one lives on.
    expect(await internalsOf(next.saver).store.listRuns("t")).toEqual([expect.objectContaining({ beatAt: -1 })]);
    expect(ids((await next.runner.recover()).resumed)).toEqual(["t"]);
  });

  test("S9.4 the mark of a run whose end can't be saved is removed as soon as the database answers again", async () => {
    const at = world(broken);
    const { store } = internalsOf(at.saver);
    const { endRun } = store;
    let refused = 0;
    store.endRun = () => {
      refused += 1;
      throw new Error("no route to host");
    };
    await expect(at.runner.invoke(input, { threadId: "t" })).rejects.toThrow("out of paper");
    expect(refused).toBe(1);
    expect(await store.listRuns("t")).toHaveLength(1);
    store.endRun = endRun;
    for (let tries = 0; tries < 1_000 && (await store.listRuns("t")).length > 0; tries += 1)
      await new Promise((resolve) => setTimeout(resolve, 50));
    expect(await store.listRuns("t")).toEqual([]);
    expect(await world(undefined, {}, at.path).runner.recover()).toMatchObject({ resumed: [], skipped: [] });
  });

  test("S9.4 recoveries reports each thread when there is something new, until its signal is aborted or its saver drains", async () => {
    const at = world((threadId) => threadId === "bad" && broken());
    await crashed(at, "good", "bad");
    const stop = new AbortController();
    const seen: string[] = [];
    for await (const report of at.runner.recoveries({ everyMs: 10, waitMs: 0, tries: 2, signal: stop.signal })) {
      seen.push(
        ...ids(report.resumed),
        ...ids(report.failed).map((id) => `${id}!`),
        ...ids(report.givenUp).map((id) => `${id}!!`),
      );
      if (report.givenUp.length > 0) stop.abort();
    }
    expect(seen.sort()).toEqual(["bad!", "bad!!", "good"]);

    const draining = (async () => {
      for await (const _ of at.runner.recoveries({ everyMs: 10 }));
    })();
    await at.runner.drain();
    await draining;
  });

  test.each(["STORE_BUSY", "STORE_UNAVAILABLE", "STORE_FAILED"] as const)(
    "S9.4 a look of recoveries that fails with %s is logged, and the next one resumes what was lost",
    async (code) => {
      const at = world();
      await crashed(at, "t");
      const { store } = internalsOf(at.saver);
      const allRuns = store.allRuns.bind(store);
      store.allRuns = () => {
        store.allRuns = allRuns;
        return Promise.reject(new TurnsError(code, { problem: "The disk is full.", remedy: "Free space." }));
      };
      const seen: string[] = [];
      for await (const { resumed } of at.runner.recoveries({ everyMs: 10 })) {
        seen.push(...ids(resumed));
        break;
      }
      expect(seen).toEqual(["t"]);
      expect(at.logs.filter((line) => /couldn't read the database/.test(line))).toHaveLength(1);
    },
  );

  test.each([
    ["a newer schema", new TurnsError("SCHEMA_TOO_NEW", { problem: "It is newer.", remedy: "Update." })],
    ["a bug", new TypeError("undefined is not a function")],
  ])("S9.4 %s ends recoveries, which throws it", async (_, error) => {
    const at = world();
    const { store } = internalsOf(at.saver);
    store.allRuns = () => Promise.reject(error);
    await expect(at.runner.recoveries({ everyMs: 10 }).next()).rejects.toBe(error);
  });

  test("S9.4 a slow run of recoveries holds back neither other threads nor their reports", async () => {
    let go = (): void => undefined;
    const gate = new Promise<void>((resolve) => (go = resolve));
    const at = world((threadId, node) => (threadId === "slow" && node === "b" ? gate : undefined));
    await crashed(at, "slow");
    const stop = new AbortController();
    const seen: string[] = [];
    const working = (async () => {
      for await (const { resumed } of at.runner.recoveries({ everyMs: 10, concurrency: 2, signal: stop.signal })) {
        seen.push(...ids(resumed));
        if (seen.length === 2) go();
        if (seen.includes("slow")) break;
      }
    })();
    // As long as the slow one runs, others crash.
    while (at.ledger.count("slow pays") === 0 || !(await at.saver.turns.isRunning("slow"))) await pause(10);
    for (const threadId of ["one", "two"]) {
      await crashed(at, threadId);
      while (!seen.includes(threadId)) await pause(10);
    }
    await working;
    expect(seen).toEqual(["one", "two", "slow"]);
    stop.abort();
  });

  test("S9.4 recoveries whose signal is aborted tells of what was still running, too", async () => {
    const stop = new AbortController();
    const at = world(() => {
      stop.abort();
      return pause(100);
    });
    await crashed(at, "t");
    const seen: string[] = [];
    for await (const { resumed } of at.runner.recoveries({ everyMs: 10, signal: stop.signal })) seen.push(...ids(resumed));
    expect(seen).toEqual(["t"]);
  });

  longTest(
    "S9.4 a thread whose process died of it runs alone in recoveries, too, and doesn't wait for the next look",
    async () => {
      const path = tempFile();
      const at = world(undefined, {}, path);
      await crashed(at, "poison", "t");
      expect(child(path, "recover").signal).toBe("SIGKILL");
      const running: string[] = [];
      const other = world(
        async (threadId) => {
          running.push(`${threadId} begins`);
          await pause(50);
          running.push(`${threadId} ends`);
        },
        {},
        path,
      );
      await crashed(other, "u", "v");
      const seen: string[] = [];
      for await (const { resumed } of other.runner.recoveries({ everyMs: 60_000, waitMs: 0 })) {
        seen.push(...ids(resumed));
        if (seen.includes("poison")) break;
      }
      expect(seen).toContain("u");
      const from = running.indexOf("poison begins");
      expect(running.slice(from, from + 4)).toEqual(["poison begins", "poison ends", "poison begins", "poison ends"]);
    },
  );

  longTest("S9.4 recoveries says once why it skips a thread, and takes it when the reason is gone", async () => {
    const path = tempFile();
    expect(child(path, "doubt").signal).toBe("SIGKILL");
    let now = Date.now();
    const at = world(undefined, { clock: () => new Date((now += 1_000)) }, path);
    const reports: string[] = [];
    for await (const { skipped, resumed } of at.runner.recoveries({ everyMs: 10 })) {
      reports.push(...skipped.map(({ reason }) => reason.code), ...ids(resumed));
      if (resumed.length > 0) break;
      await new Promise((resolve) => setTimeout(resolve, 100));
      const [paid] = await at.saver.effects.list("doubt");
      await at.saver.effects.resolve(paid!.id, { outcome: "done", result: undefined });
    }
    expect(reports).toEqual(["EFFECT_IN_DOUBT", "doubt"]);
  });

  test("S9.4 a look reads the threads that it may resume, and none of the others", async () => {
    const at = world();
    await at.runner.invoke(input, { threadId: "first" });
    for (let count = 0; count < 200; count += 1) await at.saver.copyThread("first", `t${count}`);
    await crashed(at, "lost");
    const { store } = internalsOf(at.saver);
    const looked = jest.spyOn(store, "lastRun");
    expect(ids((await at.runner.recover()).resumed)).toEqual(["lost"]);
    expect(new Set(looked.mock.calls.map(([threadId]) => threadId))).toEqual(new Set(["lost"]));
    looked.mockClear();
    await at.runner.recover();
    expect(looked).not.toHaveBeenCalled();
  });

  test("S9.4 the config for resumed runs, for all threads or for each, reaches their nodes", async () => {
    const at = world();
    const seen: unknown[] = [];
    await crashed(at, "t", "u");
    const { GraphRunner } = await import("../../src/index");
    const { steps } = await import("./recover-world");
    const graph = steps(at.saver, at.ledger);
    const runner = new GraphRunner(graph, { drift: "continue" });
    const invoke = jest.spyOn(graph, "invoke");
    await runner.recover({ drift: "continue", config: ({ threadId }) => ({ configurable: { tenant: `of ${threadId}` } }) });
    for (const [, config] of invoke.mock.calls) seen.push((config as { configurable: { tenant: string } }).configurable.tenant);
    expect(seen.sort()).toEqual(["of t", "of u"]);
  });

  test("S9.4 options that don't exist or don't fit are refused", async () => {
    const { runner } = world();
    for (const options of [{ concurency: 2 }, { concurrency: 0 }, { tries: 0 }, { waitMs: -1 }, { signal: true }, { everyMs: 5 }])
      await expect(runner.recover(options as never)).rejects.toThrow(expect.objectContaining({ code: "INVALID_OPTION" }));
    await expect(runner.recoveries({ everyMs: 0 }).next()).rejects.toThrow(TurnsError);
  });

  test("S9.4 S9.7 a thread that moves to another database is recovery's there; if the move fails, it's recovery's where it is", async () => {
    const [at, there, taken] = [world(), world(), world()];
    await crashed(at, "t");
    await stepRunner(taken.saver, taken.ledger).invoke(input, { threadId: "t" });
    await expect(moveThread(at.saver, taken.saver, "t")).rejects.toMatchObject({ code: "THREAD_EXISTS" });
    expect(await taken.runner.recover()).toMatchObject({ resumed: [], skipped: [] });
    expect(await lost(at)).toEqual(["t"]);
    await moveThread(at.saver, there.saver, "t");
    expect(await lost(at)).toEqual([]);
    const moved = stepRunner(there.saver, at.ledger);
    expect(ids((await moved.recover()).resumed)).toEqual(["t"]);
    for (const what of ["a", "pays", "b", "c"]) expect([what, at.ledger.count(`t ${what}`)]).toEqual([what, 1]);
    // A thread that nobody has left isn't.
    await moveThread(there.saver, at.saver, "t");
    expect([await lost(at), await lost(there)]).toEqual([[], []]);
  });

  testOfFiles("S9.4 S9.7 a thread that moved away, or that is damaged, keeps no other thread from recovery", async () => {
    const [at, there] = [world(), world()];
    for (const threadId of ["damaged", "moved"]) await stepRunner(at.saver, at.ledger).invoke(input, { threadId });
    await moveThread(at.saver, there.saver, "moved");
    await crashed(at, "t");
    await crash(at.saver, "moved", "damaged");
    const { default: Database } = await import("better-sqlite3");
    const db = new Database(at.path);
    db.exec("UPDATE langgraph_threads SET created_at = 'never' WHERE thread_id = 'damaged'");
    db.close();
    const reports = [await at.runner.recover(), await at.runner.recover()];
    expect(reports.map(({ resumed }) => ids(resumed))).toEqual([["t"], []]);
    for (const { skipped, failed } of reports)
      expect([skipped, failed]).toMatchObject([[{ threadId: "damaged", reason: { code: "CHECKPOINT_CORRUPTED" } }], []]);
    expect(await lost(at)).toEqual(["damaged"]);
  });

  test("S9.4 a thread whose rewind fails is recovery's again when that rewind is given up", async () => {
    const { saver } = world();
    const ledger = new Deeds();
    const graph = choresOn(saver, ledger);
    for (const task of ["one", "two"]) await graph.invoke({ deeds: [{ name: task }] }, config(task));
    await crash(saver, "t");
    const undos = undosNamed({ back: broken });
    await expect(saver.rewind({ threadId: "t", toTask: "one" }, undos)).rejects.toMatchObject({ code: "UNDO_FAILED" });
    const [rewind] = await saver.rewinds.list("t");
    await saver.rewinds.abandon(rewind!.id);
    expect(await lost({ saver })).toEqual(["t"]);
  });

  longTest(
    "S9.4 a thread whose rewinding process is killed is recovery's when that rewind is given up, if it was before",
    async () => {
      for (const wasLost of [true, false]) {
        const { saver, path } = world();
        const graph = choresOn(saver, new Deeds());
        for (const task of ["one", "two", "three"]) await graph.invoke({ deeds: [{ name: task }] }, config(task));
        if (wasLost) await crash(saver, "t");
        expect(runProgram("runner/rewind-child.ts", path)).toMatchObject({ signal: "SIGKILL" });
        const [rewind] = await saver.rewinds.list("t");
        await saver.rewinds.abandon(rewind!.id);
        expect(await lost({ saver })).toEqual(wasLost ? ["t"] : []);
      }
    },
  );

  const places = ["move-rows.after", "move-hold.after", "move-publish.after", "move-end.after"];
  laneTest.each(points(places, 2))(
    "S9.4 S9.7 a mover is killed at %s: the thread is recovery's where it ends, once, if it was before, and else it isn't",
    async (point) => {
      for (const wasLost of [true, false]) {
        const [at, there] = [world(), world()];
        await failsWith(stepRunner(at.saver, at.ledger, broken).invoke(input, { threadId: "t" }));
        if (wasLost) await crash(at.saver, "t");
        const kind = ON_POSTGRES ? "schema" : "file";
        const died = runProgram("moving/move-child.ts", kind, at.path, kind, there.path, point, "1");
        expect(died).toMatchObject({ signal: "SIGKILL" });
        const target = stepRunner(there.saver, at.ledger);
        // Workers on both look before and after the move is finished.
        const reports = [await stepRunner(at.saver, at.ledger).recover(), await target.recover()];
        if (reports.every(({ resumed }) => resumed.length === 0)) await moveThread(at.saver, there.saver, "t");
        reports.push(await stepRunner(at.saver, at.ledger).recover(), await target.recover());
        expect(reports.flatMap(({ resumed }) => ids(resumed))).toEqual(wasLost ? ["t"] : []);
        expect(reports.flatMap(({ failed, givenUp }) => [...failed, ...givenUp])).toEqual([]);
        expect(at.ledger.count("t pays")).toBe(1);
      }
    },
  );

  testOfFiles("S9.4 S9.7 a copy whose process was killed and repeated isn't recovery's", async () => {
    const [at, there] = [world(), world()];
    await crashed(at, "t");
    const { store } = internalsOf(there.saver);
    // As a process leaves it that was killed while it copied.
    const place = { host: "elsewhere", boot: "", pid: 1, pidStart: "", startedAt: new Date().toISOString(), beatAt: 1 };
    await store.beginHold({ runId: "hold of a dead process", threadId: "t", ...place }, () => ({ over: [], lost: [] }));
    await copyThreadTo(at.saver, there.saver, "t");
    expect(await stepRunner(there.saver, at.ledger).recover()).toMatchObject({ resumed: [] });
    expect(ids((await at.runner.recover()).resumed)).toEqual(["t"]);
  });

  testOfFiles("S9.4 S3.1 nothing of a salvaged file is recovery's: it may have gone further in what is lost", async () => {
    const at = world();
    await crashed(at, "t");
    at.saver.close();
    const target = tempFile();
    expect(await salvage(at.path, target)).toMatchObject({ ok: true });
    const rescued = world(undefined, {}, target);
    const runner = stepRunner(rescued.saver, at.ledger);
    expect(await runner.recover()).toMatchObject({ resumed: [], skipped: [] });
    await runner.resume({ threadId: "t" });
    for (const what of ["a", "pays", "b", "c"]) expect([what, at.ledger.count(`t ${what}`)]).toEqual([what, 1]);
  });

  testOfFiles("S9.4 a damaged record of a try is found, and told by its thread", async () => {
    const at = world(broken);
    await crashed(at, "t");
    await at.runner.recover({ tries: 1 });
    const { default: Database } = await import("better-sqlite3");
    const db = new Database(at.path);
    db.exec("UPDATE langgraph_recoveries SET tries = 7");
    db.close();
    expect((await at.saver.verify()).problems).toMatchObject([
      { kind: "checksum", table: "langgraph_recoveries", threadId: "t" },
    ]);
    await expect(at.saver.turns.stuck()).rejects.toThrow(expect.objectContaining({ code: "CHECKPOINT_CORRUPTED" }));
    // It keeps no other thread from recovery.
    await crashed(at, "u");
    const report = await stepRunner(at.saver, at.ledger).recover({ includeStuck: true });
    expect(ids(report.resumed)).toEqual(["u"]);
    expect(report.skipped).toMatchObject([{ threadId: "t", reason: { code: "CHECKPOINT_CORRUPTED" } }]);
  });
});
