import fs, { existsSync } from "node:fs";
import { tmpdir } from "node:os";
import { TurnSaver } from "langgraph-checkpoint-turns";
import {
  type ChildRun,
  crashMatrix,
  type CrashMatrixOptions,
  FAILPOINTS,
  FakeClock,
  Ledger,
  runInProcess,
  type RunOptions,
  runUntilKilled,
  setFailpointHandler,
  withFailpoint,
} from "langgraph-checkpoint-turns/testing";
import { findings, inheritedFlags, ranAgain } from "../../src/testing-internal";
import { line, quietLogger, refusal } from "../support/eff-world";
import { tempFile } from "../support/temp";
import type { Args } from "./testing-graphs";
import { type BuiltPackage, builtPackage } from "./testing-package";

// The functions are those of the sources, the processes they start run the build: so their start takes no compiler.
let mockChild = "";
jest.mock("../../src/testing/child-program", () => ({ childProgram: () => mockChild }));

// Many processes, one after the other; how long each takes to start is the machine's affair.
jest.setTimeout(300_000);

let built: BuiltPackage;
let graphs = "";
const plain: RunOptions = { execArgv: [] };

beforeAll(() => {
  built = builtPackage();
  mockChild = built.child;
  graphs = built.graphModule("testing-graphs");
});

const args = (kind: Args["kind"], more: Partial<Args> = {}): { args: Args; execArgv: string[] } => ({
  args: { kind, ...more },
  execArgv: [],
});
const matrix = (kind: Args["kind"], options: CrashMatrixOptions, more: Partial<Args> = {}) =>
  crashMatrix(graphs, { ...args(kind, more), seed: 1, ...options });

/** Temporary folders that the work made and left. */
async function leftBy(work: () => Promise<unknown>): Promise<string[]> {
  const made = jest.spyOn(fs, "mkdtempSync");
  try {
    await work();
    const folders = made.mock.results.map(({ value }) => value as string);
    expect(folders.length).toBeGreaterThan(0);
    return folders.filter((folder) => existsSync(folder));
  } finally {
    made.mockRestore();
  }
}

test("S6.3 a crash matrix whose processes have clocks that are hours apart finds nothing wrong, and the clocks are what was asked", async () => {
  const { path, remove } = await runInProcess(graphs, { ...args("clean"), clockOffsetMs: -3_600_000 });
  const saver = TurnSaver.fromPath(path, { logger: quietLogger() });
  const [turn] = await saver.turns.list("thread");
  expect(Math.abs(Date.now() - 3_600_000 - turn!.createdAt.getTime())).toBeLessThan(600_000);
  saver.close();
  remove();
  const report = await matrix("clean", { sample: 3, clockOffsetsMs: [3_600_000, -3_600_000] });
  expect(report.problems).toEqual([]);
  expect(report.kills).toBe(3);
  expect(await refusal(matrix("clean", { clockOffsetsMs: [0] as never }))).toMatchObject({ code: "INVALID_OPTION" });
});

describe("runUntilKilled", () => {
  test("S1.6 S4.7 it dies by SIGKILL at exactly the named point, the database shows it, and another process continues there", async () => {
    const killed = await runUntilKilled(graphs, { point: "effect-outcome.within", node: "pay", effect: "charge" }, args("clean"));
    expect(killed).toMatchObject({ outcome: "killed", killed: true, result: undefined, error: undefined });
    expect(killed.points.at(-1)).toMatchObject({ point: "effect-outcome.within", node: "pay", effect: "charge" });
    const saver = TurnSaver.fromPath(killed.path, { logger: quietLogger() });
    // The transaction was open: neither its outcome nor what comes behind it is there, and all before it is.
    expect(await saver.effects.list("thread")).toMatchObject([{ name: "charge", status: "in-doubt", tries: 1 }]);
    const turns = (await saver.turns.list("thread")).map(({ turnType, nodeName }) => `${turnType} ${nodeName}`);
    expect(turns).toEqual(["Thought look", "Action look", "Thought pay"]);
    saver.close();
    expect(killed.ledgerEntries.map(({ what }) => what)).toEqual(["charged"]);

    const resumed = await runInProcess(graphs, { ...args("clean"), path: killed.path });
    expect(resumed).toMatchObject({ outcome: "finished", killed: false });
    expect(resumed.result).toEqual({ log: ["looked", "paid", "yes to ship?"] });
    expect(resumed.final).toEqual({ result: resumed.result, values: resumed.result });
    expect(resumed.points.filter(({ point, node }) => point === "thought.after" && node === "look")).toEqual([]);
    expect(resumed.ledgerEntries).toEqual(killed.ledgerEntries);
    expect(resumed.before?.effects).toMatchObject([{ status: "in-doubt" }]);
    expect(resumed.after?.effects).toMatchObject([{ status: "done", settledBy: "probe" }]);
    resumed.remove();
    expect(existsSync(killed.path)).toBe(true);
    killed.remove();
    expect(existsSync(killed.path)).toBe(false);
  });

  test("an answer that a nested graph took before the crash isn't given to its next question", async () => {
    const { points, remove } = await runInProcess(graphs, { ...args("asks twice"), durability: "sync" });
    remove();
    const writes = points.filter(({ point }) => point === "writes.before").length;
    for (let nth = writes - 4; nth <= writes; nth += 1) {
      const killed = await runUntilKilled(graphs, { point: "writes.before", nth }, { ...args("asks twice"), durability: "sync" });
      const resumed = await runInProcess(graphs, { ...args("asks twice"), durability: "sync", path: killed.path });
      expect({ nth, result: resumed.result }).toEqual({ nth, result: { log: ["yes to one?,yes to two?"] } });
      killed.remove();
    }
  });

  test("the n-th time counts, and a point that is not reached kills nobody", async () => {
    const [second, never] = await Promise.all([
      runUntilKilled(graphs, { point: "thought.before", nth: 2 }, args("outside")),
      runUntilKilled(graphs, { point: "thought.before", nth: 3 }, args("outside")),
    ]);
    expect(second.points.filter(({ point }) => point === "thought.before").map(({ node }) => node)).toEqual(["look", "post"]);
    expect(second.killed).toBe(true);
    expect(never).toMatchObject({ killed: false, outcome: "finished", result: { log: ["looked", "posted"] } });
    for (const run of [second, never]) run.remove();
  });

  test("bad input: a bad point, options that are none, and args that JSON cannot say are refused by name", async () => {
    expect(await refusal(runUntilKilled(graphs, "effect.before" as never))).toMatchObject({
      code: "INVALID_OPTION",
      data: { option: "point" },
    });
    expect(await refusal(runUntilKilled(graphs, { point: "thought.before", nth: 0 }))).toMatchObject({ data: { option: "nth" } });
    for (const [option, value] of Object.entries({ path: "", timeoutMs: 0, durability: "often", threadId: "", args: 1n, x: 1 })) {
      const refused = await refusal(runUntilKilled(graphs, "thought.before", { [option]: value }));
      expect(refused).toMatchObject({ code: "INVALID_OPTION", data: { option } });
    }
    expect(await refusal(crashMatrix(graphs, { points: ["tought" as never] }))).toMatchObject({ data: { option: "points.0" } });
    expect(await refusal(crashMatrix(graphs, { points: [] }))).toMatchObject({ data: { option: "points" } });
  });

  test("bad input: a module that is none, does not load, or exports something else is GRAPH_MODULE_INVALID and says what is wrong", async () => {
    const throws = built.written("throws.mjs", "throw new Error('it is broken');");
    const empty = built.written("empty.mjs", "export const input = 1;");
    const both = built.written("both.mjs", "export const graph = () => 1, input = 1, steps = [];");
    const settle = built.written("settle.mjs", "export const graph = () => 1, input = 1, settle = true;");
    const cases: [string | URL, RunOptions, string][] = [
      ["nowhere.mjs", plain, "it is none at"],
      [tmpdir(), plain, "it is none at"],
      [new URL("https://example.org/graph.mjs"), plain, "an instance of URL"],
      [throws, plain, "it is broken"],
      [empty, plain, "an export `graph` that is a function; it is the exports input"],
      [both, plain, "it is both"],
      [settle, plain, "an export `settle` that is a function; it is a boolean"],
      [graphs, args("no graph"), "a `graph` that returns a graph"],
      [graphs, args("throws"), "no graph today"],
    ];
    await Promise.all(
      cases.map(async ([module, options, message]) => {
        const refused = await refusal(runUntilKilled(module, "thought.before", options));
        expect(refused).toMatchObject({ code: "GRAPH_MODULE_INVALID", message: expect.stringContaining(message) });
      }),
    );
  });

  test("a child that hangs is killed after its time and named, one that leaves by itself too, and nothing stays behind", async () => {
    const left = await leftBy(async () => {
      const hangs = runUntilKilled(graphs, "rewind.before", { ...args("hang"), timeoutMs: 3_000 });
      expect(await refusal(hangs)).toMatchObject({ code: "CHILD_TIMED_OUT", data: { timeoutMs: 3_000 } });
      const leaves = await refusal(runUntilKilled(graphs, "rewind.before", args("exit")));
      expect(leaves).toMatchObject({ code: "CHILD_FAILED", data: { code: 3, signal: null, lastPoint: "thought.after" } });
    });
    expect(left).toEqual([]);
  });
});

describe("crashMatrix", () => {
  test("S2.8 S2.9 a clean graph has no problems, and its report says so", async () => {
    const seen: number[] = [];
    const report = await matrix("clean", { sample: 4, onRun: (_, done) => seen.push(done) });
    expect(report.problems).toEqual([]);
    expect(report).toMatchObject({ ok: true, stable: true, kills: 4, unreached: [], inDoubt: [] });
    expect(report.runs.map(({ outcome }) => outcome)).toEqual(Array(4).fill("finished"));
    expect(seen).toEqual([1, 2, 3, 4]);
    expect(report.places).toBeGreaterThan(40);
    expect(String(report)).toContain(`4 kills of ${report.places} places, drawn with seed 1`);
    expect(String(report)).toMatch(/^ {2}lost +0$/m);
  });

  test("what a node does outside of effect() is found repeated, exactly where it had happened", async () => {
    const report = await matrix("outside", { points: ["thought.before", "action.within"] });
    expect(report.runs).toHaveLength(4);
    expect(report.problems).toEqual([
      expect.objectContaining({
        kind: "repeated-side-effect",
        kill: { point: "action.within", nth: 1, node: "post", effect: undefined },
        what: '"posted" is in the ledger 2 times, after the uncrashed run once',
      }),
    ]);
    expect(report.ok).toBe(false);
    const text = String(report);
    expect(text).toContain('killed at action.within of node "post" (async): "posted" is in the ledger 2 times');
    // The Thought of "post" and the Action of "look" are one transaction: killed before it, "look" runs again too.
    expect([...report.ranAgain]).toEqual([
      ["look", 2],
      ["post", 1],
    ]);
    expect(text).toContain('ran again, and with it what it does outside of effect():\n  node "look" after 2 kills\n');
    expect([report.ledgerEntries, text.includes("the ledger is empty")]).toEqual([1, false]);
  });

  test("a state that depends on the time is found different, and a comparison of one's own can pardon it", async () => {
    const [strict, pardoned] = await Promise.all([
      matrix("timed", { points: ["action.before"] }),
      matrix("timed", { points: ["action.before"], sample: 1, compare: () => true }),
    ]);
    expect(strict.of("different")).toHaveLength(2);
    expect(strict.of("different")[0]?.what).toBe("the state differs from that of the uncrashed run at final.result.log.1");
    expect(strict.stable).toBe(false);
    expect(String(strict)).toContain("give the module a `normalise`");
    // This graph tells its ledger nothing, so that nobody can say what was done twice.
    expect(strict.ledgerEntries).toBe(0);
    expect(String(strict)).toContain("the ledger is empty: what nodes do outside of effect() was not watched");
    expect(pardoned).toMatchObject({ ok: true, stable: true, kills: 1 });
  });

  test("what was kept in memory is found lost, in every durability", async () => {
    const report = await matrix("lost", {
      points: ["checkpoint.after", "thought.after"],
      durabilities: ["sync", "exit"],
      sample: 5,
    });
    const lost = report.of("lost");
    expect(lost.length).toBeGreaterThan(0);
    expect(report.problems).toEqual(lost);
    expect(lost[0]?.what).toBe('"shipped" is in the ledger 0 times, after the uncrashed run once');
    expect(report.of("lost").every(({ durability }) => durability === "sync")).toBe(true);
  });

  test("S2.9 an effect in doubt is told and is no problem; settled by the module the run continues; idempotent ones may repeat", async () => {
    const points = ["effect-body.after" as const];
    const [doubt, settled, idempotent] = await Promise.all([
      matrix("doubt", { points }),
      matrix("doubt", { points }, { settle: true }),
      matrix("idempotent", { points }),
    ]);
    expect(doubt).toMatchObject({ ok: true, kills: 1, inDoubt: [{ outcome: "in-doubt" }] });
    expect(doubt.runs[0]?.error).toContain("never reported its outcome");
    expect(String(doubt)).toMatch(/in doubt:\n {2}killed at effect-body.after of node "pay", effect "charge" \(async\)/);
    expect(settled).toMatchObject({ ok: true, kills: 1, inDoubt: [], runs: [{ outcome: "finished" }] });
    expect(idempotent).toMatchObject({ ok: true, kills: 1, inDoubt: [], runs: [{ outcome: "finished" }] });
  });

  test("a probe that lies lets an effect happen twice, which is found; a resume that fails is found", async () => {
    const [liar, fails] = await Promise.all([
      matrix("liar", { points: ["effect-body.after"] }),
      matrix("fails again", { points: ["action.before"] }),
    ]);
    expect(liar.problems.map(({ kind }) => kind)).toEqual(["repeated-unknown", "repeated-side-effect"]);
    expect(fails.problems).toMatchObject([{ kind: "failed", what: "the resume failed: not twice" }]);
  });

  test("S3.5 killed around an undo, the rewind is finished by another process, and each undo has run once, or is in doubt", async () => {
    const report = await matrix("undo", { points: ["undo-body", "rewind.before"] });
    expect(report.problems).toEqual([]);
    expect(report.runs.map(({ kill, outcome }) => [kill.point, outcome])).toEqual([
      ["undo-body.before", "in-doubt"],
      ["undo-body.after", "in-doubt"],
      ["rewind.before", "finished"],
    ]);
  });

  test("a graph that does not come to an end undisturbed, or is nowhere where it should die, makes no matrix", async () => {
    const left = await leftBy(async () => {
      expect(await refusal(matrix("outside", { points: ["undo-body"] }))).toMatchObject({
        code: "MATRIX_IMPOSSIBLE",
        message: expect.stringContaining("found none of undo-body"),
      });
      expect(await refusal(matrix("fails", {}))).toMatchObject({
        code: "MATRIX_IMPOSSIBLE",
        message: expect.stringContaining("found one that is failed: never"),
      });
    });
    expect(left).toEqual([]);
  });
});

describe("the verdict", () => {
  const none = { thoughts: [], durable: [], effects: [], rewinds: 0 };
  const run = (of: Partial<ChildRun>): ChildRun =>
    ({ outcome: "finished", points: [], ledgerEntries: [], final: {}, before: none, after: none, ...of }) as ChildRun;
  const verdict = (killed: Partial<ChildRun>, resumed: Partial<ChildRun>) =>
    findings(run({}), { killed: run(killed), resumed: run(resumed) }, () => true);
  const a = { nodeTaskId: "1", node: "a" };
  const known = { key: "k", name: "charge", idempotent: false } as never as { key: string };

  test("S1.6 a durable node task that runs again is found, but not behind a rewind", () => {
    const before = { ...none, durable: [a] };
    const after = before;
    const again = { point: "thought.before", ...a } as const;
    expect(verdict({}, { before, after, points: [again] })).toEqual([
      { kind: "repeated-node", what: 'node "a" ran again although its Action was durable' },
    ]);
    expect(verdict({}, { before, after, points: [{ point: "rewind.after" }, again] })).toEqual([]);
  });

  test("S2.9 a node that was running and runs again is told; not one whose work had not begun, or that a rewind took", () => {
    const at = (point: string, of = a) => ({ point, ...of }) as never;
    const told = (killed: never[], resumed: never[]) =>
      ranAgain({ killed: run({ points: killed }), resumed: run({ points: resumed }) });
    const again = [at("thought.before"), at("thought.before")];
    expect(told([at("thought.after"), at("action.before")], again)).toEqual(["a"]);
    expect(told([at("thought.after"), at("thought.after", { nodeTaskId: "2", node: "b" })], again)).toEqual(["a"]);
    expect(told([at("thought.before"), at("thought.after")], again)).toEqual([]);
    expect(told([at("thought.after"), at("action.before")], [at("rewind.after"), ...again])).toEqual([]);
    expect(told([at("thought.after"), at("action.after")], [])).toEqual([]);
  });

  test("S2.9 S3.5 a completed effect or undo that runs again is found", () => {
    const done = (more: object) => ({ ...none, effects: [{ ...known, ...more }] }) as never;
    const at = (point: "effect-body.before" | "undo-body.before") => [{ point, key: "k" }];
    for (const status of ["done", "failed-for-good"]) {
      expect(verdict({}, { before: done({ status }), points: at("effect-body.before") })).toMatchObject([
        { kind: "repeated-effect" },
      ]);
    }
    expect(verdict({}, { before: done({ status: "failed" }), points: at("effect-body.before") })).toEqual([]);
    expect(verdict({}, { before: done({ undoStatus: "done" }), points: at("undo-body.before") })).toMatchObject([
      { kind: "repeated-effect" },
    ]);
  });

  test("S3.8 what was committed and is gone is found: a Thought, an outcome, a durable Action; what a rewind took is not lost", () => {
    const thought = { point: "thought.after", ...a } as const;
    expect(verdict({ points: [thought] }, {})).toMatchObject([
      { kind: "lost", what: expect.stringContaining("a Thought of node a") },
    ]);
    expect(verdict({ points: [thought, { point: "rewind.within" }] }, {})).toEqual([]);
    const outcome = [
      { point: "effect-body.after", key: "k" },
      { point: "effect-outcome.after", key: "k", effect: "charge" },
    ] as const;
    const open = { ...none, effects: [{ ...known, status: "in-doubt" }] } as never;
    expect(verdict({ points: outcome }, { before: open })).toMatchObject([{ kind: "lost" }]);
    const before = { ...none, durable: [a] };
    expect(verdict({}, { before })).toMatchObject([{ kind: "lost", what: expect.stringContaining('the Action of node "a"') }]);
    expect(verdict({}, { before, points: [{ point: "rewind.within" }] })).toEqual([]);
  });
});

describe("withFailpoint", () => {
  const graph = (saver: TurnSaver) =>
    saver.attach(line({ a: () => ({ log: ["a"] }), b: () => ({ log: ["b"] }) }).compile({ checkpointer: saver }));
  const thread = { configurable: { thread_id: "t" } };

  test("makes the n-th commit of a node fail, and takes itself away", async () => {
    const saver = TurnSaver.fromPath(":memory:", { logger: quietLogger(), onTurnError: "throw" });
    const run = () => withFailpoint("thought.within", { node: "b", do: "throw" }, () => graph(saver).invoke({ log: [] }, thread));
    expect(await refusal(run())).toMatchObject({ code: "FAILPOINT_REACHED", data: { point: "thought.within", node: "b" } });
    expect((await saver.turns.list("t")).map(({ nodeName }) => nodeName)).toEqual(["a", "a"]);
    expect(setFailpointHandler(undefined)).toBeUndefined();
    expect(await graph(saver).invoke(null, thread)).toEqual({ log: ["a", "b"] });
    saver.close();
  });

  test.each(["checkpoint", "writes", "thought"])("stops the %s of a node that is named", async (what) => {
    const saver = TurnSaver.fromPath(":memory:", { onTurnError: "throw", onCheckpointError: "throw", logger: quietLogger() });
    const at = `${what}.within` as (typeof FAILPOINTS)[number];
    const where = what === "checkpoint" ? { nth: 2 } : { node: "b" };
    expect(
      await refusal(withFailpoint(at, { ...where, do: "throw" }, () => graph(saver).invoke({ log: [] }, thread))),
    ).toMatchObject({
      code: "FAILPOINT_REACHED",
    });
    saver.close();
  });

  test("work that never comes there is refused; a function is called once, also beside another one", async () => {
    const saver = TurnSaver.fromPath(":memory:", { logger: quietLogger() });
    const seen: string[] = [];
    const note = (name: string) => ({ do: (point: string) => void seen.push(`${name} ${point}`) });
    const both = withFailpoint("thought.before", note("outer"), () =>
      withFailpoint("action.after", { ...note("inner"), nth: 2 }, () => graph(saver).invoke({ log: [] }, thread)),
    );
    expect(await both).toEqual({ log: ["a", "b"] });
    expect(seen).toEqual(["outer thought.before", "inner action.after"]);
    expect(await refusal(withFailpoint("undo-body.before", note("x"), () => 1))).toMatchObject({ code: "FAILPOINT_NOT_REACHED" });
    expect(await refusal(withFailpoint("undo-body.before", { do: "explode" as never }, () => 1))).toMatchObject({
      code: "INVALID_OPTION",
    });
    // One that began first and ends first leaves the other one at work.
    let end = (): void => undefined;
    const first = withFailpoint("thought.before", note("first"), () => new Promise<void>((resolve) => (end = resolve)));
    const second = withFailpoint("thought.before", note("second"), async () => {
      end();
      await first.catch(() => undefined);
      return graph(saver).invoke({ log: [] }, { configurable: { thread_id: "u" } });
    });
    await Promise.allSettled([first, second]);
    expect(seen.slice(2)).toEqual(["second thought.before"]);
    setFailpointHandler(undefined);
    saver.close();
  });

  test("FAILPOINTS names each place once", () => {
    expect(new Set(FAILPOINTS).size).toBe(FAILPOINTS.length);
    expect(FAILPOINTS).toEqual(expect.arrayContaining(["checkpoint.within", "take-back.after", "undo-body.before"]));
    expect(FAILPOINTS).not.toContain("effect-body.within");
  });
});

describe("FakeClock", () => {
  test("stands still, runs and is set; the saver takes its time", async () => {
    const fake = new FakeClock("2030-05-01T00:00:00Z");
    expect(fake.clock()).toEqual(fake.clock());
    expect(fake.clock()).not.toBe(fake.clock());
    expect(fake.advance(1_500).toISOString()).toBe("2030-05-01T00:00:01.500Z");
    expect(fake.set(new Date(0)).getTime()).toBe(0);
    const saver = TurnSaver.fromPath(":memory:", { clock: fake.clock });
    fake.set("2031-01-01T00:00:00Z");
    await saver
      .attach(line({ a: () => ({}) }).compile({ checkpointer: saver }))
      .invoke({ log: [] }, { configurable: { thread_id: "t" } });
    expect((await saver.turns.list("t"))[0]?.createdAt.toISOString()).toBe("2031-01-01T00:00:00.000Z");
    saver.close();
  });

  test.each([
    ["start", () => new FakeClock("tomorrow")],
    ["start", () => new FakeClock(null as never)],
    ["advance", () => new FakeClock().advance(-1)],
    ["advance", () => new FakeClock().advance(Number.NaN)],
    ["advance", () => new FakeClock().advance(Infinity)],
    ["set", () => new FakeClock().set(new Date(NaN))],
  ])("bad input: %s of a FakeClock is refused", (what, call) => {
    expect(call).toThrow(new RegExp(`${what}.* is .+\\. It must be`));
  });
});

test("a ledger keeps what was done, tells side effects apart by their key, and refuses anything else", () => {
  const ledger = new Ledger(`${tempFile()}.ledger`);
  expect(ledger.entries()).toEqual([]);
  ledger.append("sent", "k1");
  ledger.append("sent", "k2");
  ledger.append("line\nbreak");
  expect([ledger.count("sent"), ledger.count("sent", "k2"), ledger.count("line\nbreak")]).toEqual([2, 1, 1]);
  expect(ledger.entries()[0]).toEqual({ what: "sent", key: "k1", pid: process.pid });
  expect(() => ledger.append("")).toThrow(/What a ledger is told/);
  expect(() => ledger.append("x", 1 as never)).toThrow(/The key that a ledger is told/);
  expect(() => new Ledger("")).toThrow(/The path of a ledger/);
});

test("children inherit loaders, and not what is this process's own affair", () => {
  const flags = [
    "--inspect-brk=9229",
    "--import",
    "tsx",
    "-e",
    "1 + 1",
    "--input-type=module",
    "--watch",
    "--max-old-space-size=99",
  ];
  expect(inheritedFlags(flags)).toEqual(["--import", "tsx", "--max-old-space-size=99"]);
});
