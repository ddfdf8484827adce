import { type ChildProcess, spawn, spawnSync } from "node:child_process";
import { readdirSync, writeFileSync } from "node:fs";
import { dirname, join } from "node:path";
import { START, StateGraph } from "@langchain/langgraph";
import Database from "better-sqlite3";
import { effect, GraphRunner, type TurnSaver, type TurnSaverOptions } from "../../src/index";
import { setFailpointHandler, thisProcess, uptime, internalsOf } from "../../src/testing-internal";
import { SideEffects, State } from "../support/run-world";
import { childProgram } from "../support/child-program";
import { tempFile } from "../support/temp";
import { points } from "../support/lane";
import { longTest } from "../support/lane-test";
import { openSaver, openWaiting } from "../support/open-saver";
import { testOfFiles } from "../support/test-of-files";

const quiet = { debug() {}, info() {}, warn() {}, error() {} };
const open = (path: string, options: TurnSaverOptions = {}): TurnSaver =>
  openSaver(path, { synchronous: "normal", logger: quiet, ...options });
const pause = (ms = 20): Promise<void> => new Promise((resolve) => setTimeout(resolve, ms));
const refusal = (work: Promise<unknown>): Promise<{ code?: string; data?: unknown }> =>
  work.then(
    () => ({}),
    (error: unknown) => error as { code?: string },
  );

function sqlOn<T>(path: string, work: (db: Database.Database) => T): T {
  const db = new Database(path);
  try {
    return work(db);
  } finally {
    db.close();
  }
}

/** Every row of every table but the marks of runs and of commits, which come and go. */
function rowsOf(path: string): Record<string, unknown[]> {
  return sqlOn(path, (db) => {
    const tables = db
      .prepare("SELECT name FROM sqlite_schema WHERE type = 'table' AND name LIKE 'langgraph_%'")
      .pluck()
      .all() as string[];
    const others = tables.filter((name) => name !== "langgraph_runs" && name !== "langgraph_commits").sort();
    return Object.fromEntries(others.map((name) => [name, db.prepare(`SELECT * FROM ${name}`).all()]));
  });
}

/** Rows of threads without what every commit changes: the number that it takes, and the checksum over it. */
function withoutSeq(threads: unknown[] | undefined): unknown[] {
  return (threads ?? []).map((row) => ({ ...(row as object), seq: undefined, checksum: undefined }));
}

/** As a process of another host: by a host name of its own where the system grants it, else by what its mark says. */
const OTHER_HOST =
  spawnSync("unshare", ["--uts", "true"]).status === 0
    ? ["unshare", "--uts", "sh", "-c", 'hostname elsewhere; exec "$@"', "sh"]
    : [];

interface Child {
  process: ChildProcess;
  told: Promise<{ result?: { log: string[] }; code?: string; data?: { takenBy?: { pid: number } }; signal: string | null }>;
}

function start(within: readonly string[], ...given: string[]): Child {
  const [command = "", ...rest] = [...within, process.execPath, ...childProgram(join(__dirname, "lease-child.ts")), ...given];
  const child = spawn(command, rest, { env: { ...process.env, NODE_OPTIONS: "" }, stdio: ["ignore", "pipe", "pipe"] });
  const told = new Promise<Awaited<Child["told"]>>((resolve, reject) => {
    let out = "";
    let err = "";
    child.stdout.on("data", (text) => (out += String(text)));
    child.stderr.on("data", (text) => (err += String(text)));
    child.on("close", (code, signal) => {
      if (code !== 0 && signal === null) reject(new Error(err));
      else resolve({ signal, ...(JSON.parse(out === "" ? "{}" : out) as object) });
    });
  });
  told.catch(() => undefined);
  return { process: child, told };
}

/** The pid of the child that has come to where it stays. */
async function arrived(path: string): Promise<number> {
  for (;;) {
    const file = readdirSync(dirname(path)).find((name) => name.startsWith("at-"));
    if (file !== undefined) return Number(file.slice(3));
    await pause();
  }
}

/** As the child's, whose compiler gives the functions other texts. */
const LABELS = { stateVersion: "1", nodes: { a: { version: "1" }, b: { version: "1" }, c: { version: "1" } } };

/** The same graph here, which stays nowhere. */
function runnerOn(saver: TurnSaver, path: string, options: { idempotent?: boolean } = {}) {
  const ledger = new SideEffects(`${path}.ledger`);
  const graph = new StateGraph(State)
    .addNode("a", () => ({ log: ["a"] }))
    .addNode("b", async () => {
      await effect("first", () => ledger.happen("first"), { idempotent: options.idempotent === true });
      await effect("second", () => ledger.happen("second"));
      return { log: ["b"] };
    })
    .addNode("c", () => (ledger.happen("c"), { log: ["c"] }))
    .addEdge(START, "a")
    .addEdge("a", "b")
    .addEdge("b", "c")
    .compile({ checkpointer: saver });
  return { ledger, runner: new GraphRunner(graph, LABELS), graph };
}

/** A child of another host that was stopped where it stays, for longer than its signs of life last. */
async function stopped(what: string, stay: string) {
  const path = tempFile();
  const child = start(OTHER_HOST, path, what, stay);
  const pid = await Promise.race([arrived(path), child.told.then((told) => Promise.reject(new Error(JSON.stringify(told))))]);
  process.kill(pid, "SIGSTOP");
  sqlOn(path, (db) => {
    if (OTHER_HOST.length === 0) db.exec("UPDATE langgraph_runs SET host = 'elsewhere'");
    expect(db.prepare("SELECT host FROM langgraph_runs").pluck().all()).toEqual(["elsewhere"]);
    db.exec("UPDATE langgraph_runs SET beat_at = beat_at - 31000");
  });
  return {
    path,
    goOn: () => {
      writeFileSync(join(dirname(path), "go"), "");
      process.kill(pid, "SIGCONT");
      return child.told;
    },
  };
}

describe("a thread that is taken over", () => {
  test("S4.7 of 8 processes that resume the thread of a killed one at once exactly one does, and no side effect is repeated", async () => {
    const path = tempFile();
    const owner = start([], path, "run", "between");
    process.kill(await arrived(path), "SIGKILL");
    expect(await owner.told).toEqual({ signal: "SIGKILL" });
    const racers = Array.from({ length: 8 }, () => start([], path, "race", "nowhere", "7"));
    const told = await Promise.all(racers.map((racer) => racer.told));
    expect(told.map(({ result, code }) => code ?? result?.log.join()).sort()).toEqual(
      [...Array<string>(7).fill("THREAD_RUNNING"), "in,a,b,c"].sort(),
    );
    expect(new SideEffects(`${path}.ledger`).all).toEqual(["first", "second", "c"]);
    const saver = open(path);
    expect(await saver.verify()).toMatchObject({ ok: true });
    saver.close();
  }, 300_000);

  test.each(["run", "attached", "off"])(
    "S4.7 S2.9 from a stopped process of another host (%s): when it wakes up it is refused, writes nothing and does nothing",
    async (what) => {
      const { path, goOn } = await stopped(what, "between");
      const saver = open(path);
      const { runner, ledger } = runnerOn(saver, path);
      expect(await runner.resume({ threadId: "t" })).toEqual({ log: ["in", "a", "b", "c"] });
      const before = rowsOf(path);
      expect(await goOn()).toMatchObject({ code: "LEASE_LOST", data: { threadId: "t" } });
      expect(rowsOf(path)).toEqual(before);
      expect(ledger.all).toEqual(["first", "second", "c"]);
      expect(await saver.verify()).toMatchObject({ ok: true });
      expect(await runner.invoke({ log: [] }, { threadId: "t" })).toMatchObject({ log: ["in", "a", "b", "c", "a", "b", "c"] });
      saver.close();
    },
    300_000,
  );

  test("S2.9 in the middle of a side effect: nobody repeats it, and its late outcome settles the doubt", async () => {
    const { path, goOn } = await stopped("run", "within");
    const saver = open(path);
    const { runner, ledger } = runnerOn(saver, path);
    expect(await refusal(runner.resume({ threadId: "t" }))).toMatchObject({ code: "EFFECT_IN_DOUBT" });
    const { langgraph_effects: effects, langgraph_threads: before, ...others } = rowsOf(path);
    expect(effects).toMatchObject([{ name: "first", status: "intent", tries: 1 }]);
    expect(await goOn()).toMatchObject({ code: "LEASE_LOST" });
    const { langgraph_effects: settled, langgraph_threads: after, langgraph_chunks: _, ...left } = rowsOf(path);
    expect(settled).toMatchObject([{ name: "first", status: "done", tries: 1 }]);
    const { langgraph_chunks: __, ...were } = others;
    expect(left).toEqual(were);
    expect(withoutSeq(after)).toEqual(withoutSeq(before));
    expect(await runner.resume({ threadId: "t" })).toEqual({ log: ["in", "a", "b", "c"] });
    expect(ledger.all).toEqual(["first", "second", "c"]);
    saver.close();
  }, 300_000);

  test("S3.5 by a rewind: the run that counted as dead cannot build on what is gone", async () => {
    const path = tempFile();
    const saver = open(path);
    const { runner } = runnerOn(saver, path);
    await runner.invoke({ log: ["zero"] }, { threadId: "t", taskId: "zero" });
    const child = start(OTHER_HOST, path, "attached", "between");
    const pid = await arrived(path);
    process.kill(pid, "SIGSTOP");
    sqlOn(path, (db) => db.exec("UPDATE langgraph_runs SET host = 'elsewhere', beat_at = beat_at - 31000"));
    await runner.rewind({ threadId: "t", toTask: "zero", allowUncompensated: true });
    const before = rowsOf(path);
    writeFileSync(join(dirname(path), "go"), "");
    process.kill(pid, "SIGCONT");
    expect(await child.told).toMatchObject({ code: "LEASE_LOST", data: { threadId: "t" } });
    expect(rowsOf(path)).toEqual(before);
    saver.close();
  }, 300_000);
});

describe("the fence", () => {
  /** Runs the graph, and lets another saver take the thread over, as from a dead process, before its n-th commit of a kind. */
  async function takenBefore(nth: number, options: TurnSaverOptions, kind: "runner" | "attached") {
    const path = tempFile();
    let taken: Promise<() => Promise<void>> | undefined;
    const saver = openWaiting(path, { synchronous: "normal", logger: quiet, ...options }, () => taken);
    const other = open(path);
    const { runner, graph, ledger } = runnerOn(saver, path);
    let commits = 0;
    let point = "";
    let before: Promise<ReturnType<typeof rowsOf>> | undefined;
    setFailpointHandler((at, { threadId }) => {
      if (!at.endsWith(".before") || at.startsWith("run-mark") || at.startsWith("effect-body")) return;
      commits += 1;
      if (commits !== nth) return;
      expect(threadId).toBe("t");
      point = at;
      sqlOn(path, (db) => db.exec("UPDATE langgraph_runs SET host = 'elsewhere', beat_at = 1"));
      taken = internalsOf(other).reserve("t");
      // An engine that answers later takes it over a moment later.
      before = taken.then(() => rowsOf(path));
    });
    try {
      const error =
        kind === "runner"
          ? await refusal(runner.invoke({ log: ["in"] }, { threadId: "t" }))
          : await refusal(graph.invoke({ log: ["in"] }, { configurable: { thread_id: "t" } }));
      const after = rowsOf(path);
      const holds = await other.turns.isRunning("t");
      await (
        await taken
      )?.();
      return { path, point, error, before: await before, after, holds, ledger, saver };
    } finally {
      setFailpointHandler(undefined);
      saver.close();
      other.close();
    }
  }

  const surroundings = [
    ["runner", {}],
    ["attached", {}],
    ["runner", { onCheckpointError: "continue", onTurnError: "continue" }],
    ["runner", { turns: "off" }],
  ] as const;
  longTest.each(points(surroundings, 1))(
    "S4.7 stands before every commit of a run: %s, %j",
    async (kind, options) => {
      const points = new Set<string>();
      for (let nth = 1; ; nth += 1) {
        const { point, error, before, after, holds } = await takenBefore(nth, options, kind);
        if (point === "") break;
        points.add(point.slice(0, -".before".length));
        expect([point, error]).toMatchObject([
          point,
          { code: "LEASE_LOST", data: { threadId: "t", takenBy: { pid: process.pid } } },
        ]);
        expect([point, holds]).toEqual([point, true]);
        if (point !== "effect-outcome.before") expect([point, after]).toEqual([point, before]);
        else
          expect(after).toMatchObject({
            langgraph_effects: expect.arrayContaining([expect.objectContaining({ status: "done" })]) as unknown,
          });
      }
      const all = ["checkpoint", "effect-intent", "effect-outcome", "writes"];
      expect([...points].sort()).toEqual("turns" in options ? all : [...all, "action", "thought"].sort());
    },
    300_000,
  );

  test("a new run of the same process is let in behind one that lost the thread, and only with a mark of its own", async () => {
    const path = tempFile();
    const saver = open(path);
    const other = open(path);
    let go = (): void => undefined;
    let here = (): void => undefined;
    const [gone, arrivedThere] = [
      new Promise<void>((resolve) => (go = resolve)),
      new Promise<void>((resolve) => (here = resolve)),
    ];
    let first = true;
    const graph = saver.attach(
      new StateGraph(State)
        .addNode("a", async () => {
          if (first) {
            first = false;
            here();
            await gone;
          }
          return { log: ["a"] };
        })
        .addEdge(START, "a")
        .compile({ checkpointer: saver }),
    );
    const late = refusal(graph.invoke({ log: ["late"] }, { configurable: { thread_id: "t" } }));
    await arrivedThere;
    sqlOn(path, (db) => db.exec("UPDATE langgraph_runs SET host = 'elsewhere', beat_at = 1"));
    await (
      await internalsOf(other).reserve("t")
    )();
    expect(await graph.invoke({ log: ["new"] }, { configurable: { thread_id: "t" } })).toEqual({ log: ["late", "new", "a"] });
    go();
    expect(await late).toMatchObject({ code: "LEASE_LOST" });
    expect((await graph.getState({ configurable: { thread_id: "t" } })).values).toEqual({ log: ["late", "new", "a"] });
    saver.close();
    other.close();
  });

  test("S2.9 what the new owner began again is not overwritten by the late outcome of the try before", async () => {
    const path = tempFile();
    const saver = open(path);
    const other = open(path);
    const late = internalsOf(other).store;
    const { runner } = runnerOn(saver, path, { idempotent: true });
    setFailpointHandler((at) => {
      if (at.startsWith("effect-outcome")) throw new Error("the outcome is not committed");
    });
    await refusal(runner.invoke({ log: ["in"] }, { threadId: "t" }));
    setFailpointHandler(undefined);
    const [row] = await late.listEffects({ threadId: "t" });
    expect(row).toMatchObject({ name: "first", tries: 1 });
    const begun = (await late.retryEffect(
      row!,
      { ...row!, claim: { taskId: undefined, graphId: undefined, kind: "resume", name: "x" } } as never,
      false,
    ))!;
    expect(begun).toMatchObject({ status: "intent", tries: 2 });
    const failed = { status: "failed", outcome: undefined, endedAt: "2026-01-01T00:00:00.000Z", settledBy: undefined } as const;
    expect(await late.settleEffect(row!.id, { ...failed, seen: row! })).toMatchObject({ status: "intent", tries: 2 });
    expect(await late.settleEffect(row!.id, { ...failed, status: "done", seen: row! })).toMatchObject({
      status: "intent",
      tries: 2,
    });
    expect(await late.settleEffect(row!.id, { ...failed, status: "done", seen: begun })).toMatchObject({
      status: "done",
      tries: 2,
    });
    expect(await late.settleEffect(row!.id, { ...failed, seen: begun })).toMatchObject({ status: "done", tries: 2 });
    other.close();
    saver.close();
  });
});

testOfFiles("S6.3 a mark from before the machine was started does not lock a thread, no matter what its beat says", async () => {
  const path = tempFile();
  const saver = open(path);
  const mark = (boot: string, beat: number): void =>
    sqlOn(path, (db) => {
      db.exec("DELETE FROM langgraph_runs");
      db.prepare("INSERT INTO langgraph_runs VALUES ('r', 't', 'elsewhere', ?, 1, '', '2026-01-01T00:00:00Z', ?)").run(
        boot,
        beat,
      );
    });
  mark(thisProcess().boot, uptime() - 10_000);
  expect(await saver.turns.isRunning("t")).toBe(true);
  mark("an earlier one", uptime() - 10_000);
  expect(await saver.turns.isRunning("t")).toBe(false);
  await (
    await internalsOf(saver).reserve("t")
  )();
  saver.close();
});
