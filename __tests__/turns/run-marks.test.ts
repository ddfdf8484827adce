import { randomUUID } from "node:crypto";
import { START, StateGraph } from "@langchain/langgraph";
import { GraphRunner, type TurnSaver } from "langgraph-checkpoint-turns";
import { internalsOf, RunRegistry } from "../../src/testing-internal";
import { State, world } from "../support/run-world";
import { effectUndoneBy, undosNamed } from "../support/undo-world";
import { openSaver } from "../support/open-saver";
import { quiet as silent } from "../support/s1-tools";

const pause = (ms: number): Promise<void> => new Promise((resolve) => setTimeout(resolve, ms));
const refusal = (work: Promise<unknown> | (() => Promise<unknown>)): Promise<{ code?: string }> =>
  (work instanceof Promise ? work : work()).then(
    () => ({}),
    (error: unknown) => error as { code?: string },
  );

async function until(holds: () => Promise<boolean>): Promise<void> {
  while (!(await holds())) await pause(50);
}

/** LangGraph waits for so long before a retry: in these tests until `go` is called. */
const BACK_OFF_MS = 54_321;
function heldBack(): { go: () => void; restore: () => void } {
  const { setTimeout: real } = globalThis;
  const waiting: (() => void)[] = [];
  const held = ((then: () => void, ms?: number, ...given: []) =>
    ms === BACK_OFF_MS ? (waiting.push(then), 0) : real(then, ms, ...given)) as typeof setTimeout;
  globalThis.setTimeout = Object.assign(held, real);
  return {
    go: () => {
      expect(waiting).toHaveLength(1);
      for (const then of waiting.splice(0)) then();
    },
    restore: () => void (globalThis.setTimeout = real),
  };
}

/** A node that fails once, and is tried again after so long; behind it there is another one. */
function backingOff(saver: TurnSaver, deeds: string[], initialInterval: number) {
  let tries = 0;
  return new StateGraph(State)
    .addNode(
      "pay",
      async () => {
        if (tries++ === 0) throw new Error("flaky");
        await effectUndoneBy("refund", "pay", () => void deeds.push("pay"), { input: 1 });
        return { log: ["pay"] };
      },
      { retryPolicy: { initialInterval, maxAttempts: 2, jitter: false, retryOn: () => true, logWarning: false } },
    )
    .addNode("end", () => ({ log: ["end"] }))
    .addEdge(START, "pay")
    .addEdge("pay", "end")
    .compile({ checkpointer: saver });
}

// These tests wait for seconds of real time, so they wait at once where they can.
describe("a run keeps its thread while it is quiet", () => {
  const quiet: TurnSaver[] = [];
  // What is loaded when it is needed, as verify() and rewinds are, can't be loaded within a concurrent test.
  afterAll(async () => {
    for (const saver of quiet) {
      expect((await saver.verify()).ok).toBe(true);
      saver.close();
    }
  });

  for (const kind of ["a runner's", "an attached graph's"] as const) {
    test(`S3.2 S3.5 ${kind} run that waits for a retry: no other saver runs, resumes or rewinds the thread`, async () => {
      const at = world();
      const other = openSaver(at.path, { synchronous: "normal" });
      const deeds: string[] = [];
      const { go, restore } = heldBack();
      const graph = backingOff(at.saver, deeds, BACK_OFF_MS);
      const others = new GraphRunner(backingOff(other, deeds, 1));
      await others.invoke({ log: [] }, { threadId: "t", taskId: "zero" });
      const run =
        kind === "a runner's"
          ? new GraphRunner(graph).invoke({ log: [] }, { threadId: "t", taskId: "one" })
          : at.saver.attach(graph).invoke({ log: [] }, { configurable: { thread_id: "t", task_id: "one" } });
      await until(
        async () =>
          (await other.turns.list("t")).filter(({ taskId, status }) => taskId === "one" && status === "error").length === 1,
      );
      await pause(3_500);
      expect(await others.status("t")).toMatchObject({ running: true, resumable: false, reason: { code: "THREAD_RUNNING" } });
      expect(await refusal(others.resume({ threadId: "t" }))).toMatchObject({ code: "THREAD_RUNNING" });
      expect(await refusal(others.invoke({ log: [] }, { threadId: "t", onUnfinished: "abandon" }))).toMatchObject({
        code: "THREAD_RUNNING",
      });
      expect(await refusal(others.rewind({ threadId: "t", toTask: "zero" }))).toMatchObject({ code: "THREAD_RUNNING" });
      go();
      restore();
      expect(await run).toEqual({ log: ["pay", "end", "pay", "end"] });
      expect(deeds).toEqual(["pay", "pay"]);
      expect(await other.turns.isRunning("t")).toBe(false);
      quiet.push(at.saver);
      other.close();
    });

    test.concurrent(`S3.2 ${kind} run whose router at the start is slow`, async () => {
      const at = world();
      const other = openSaver(at.path, { synchronous: "normal" });
      let go = (): void => {};
      const gone = new Promise<void>((resolve) => (go = resolve));
      const of = (saver: TurnSaver, wait: Promise<void>) =>
        new StateGraph(State)
          .addNode("a", () => ({ log: ["a"] }))
          .addConditionalEdges(START, async () => (await wait, "a" as const), ["a"])
          .compile({ checkpointer: saver });
      const graph = of(at.saver, gone);
      const run =
        kind === "a runner's"
          ? new GraphRunner(graph).invoke({ log: [] }, { threadId: "t" })
          : at.saver.attach(graph).invoke({ log: [] }, { configurable: { thread_id: "t" } });
      await until(() => other.turns.isRunning("t"));
      await pause(3_500);
      const others = new GraphRunner(of(other, Promise.resolve()));
      expect(await refusal(others.invoke({ log: [] }, { threadId: "t", onUnfinished: "abandon" }))).toMatchObject({
        code: "THREAD_RUNNING",
      });
      go();
      expect(await run).toEqual({ log: ["a"] });
      expect(await others.invoke({ log: [] }, { threadId: "t" })).toEqual({ log: ["a", "a"] });
      at.saver.close();
      other.close();
    });
  }

  test("S3.2 a stream that nobody reads or keeps: its run ends by itself, and then the thread is free", async () => {
    const at = world();
    let open = (): void => undefined;
    const gate = new Promise<void>((resolve) => (open = resolve));
    const graph = new StateGraph(State)
      .addNode("a", async () => (await gate, { log: ["a"] }))
      .addEdge(START, "a")
      .compile({ checkpointer: at.saver });
    const runner = new GraphRunner(graph);
    await (async () => void (await runner.stream({ log: [] }, { threadId: "t", streamMode: "values" })))();
    expect(await at.saver.turns.isRunning("t")).toBe(true);
    expect(await refusal(runner.resume({ threadId: "t" }))).toMatchObject({ code: "THREAD_RUNNING" });
    open();
    await until(async () => !(await at.saver.turns.isRunning("t")));
    expect(await runner.status("t")).toMatchObject({ finished: true });
    expect(await runner.resume({ threadId: "t" })).toEqual({ log: ["a"] });
    at.saver.close();
  });
});

describe("a run that failed beside a nested graph that still works", () => {
  /** A node that fails, beside a nested graph whose node works until `go` is called, called or not by a node of its own. */
  function failing(saver: TurnSaver, called: boolean) {
    let go = (): void => undefined;
    const gate = new Promise<void>((resolve) => (go = resolve));
    let began = (): void => undefined;
    const begun = new Promise<void>((resolve) => (began = resolve));
    let repaired = false;
    const inner = new StateGraph(State)
      .addNode("slow", async () => (began(), await gate, { log: ["slow"] }))
      .addEdge(START, "slow")
      .compile();
    const graph = new StateGraph(State)
      .addNode("fails", async () => {
        if (repaired) return { log: ["repaired"] };
        await begun;
        throw new Error("it failed");
      })
      .addNode("nested", called ? async (state) => inner.invoke(state) : inner)
      .addEdge(START, "fails")
      .addEdge(START, "nested")
      .compile({ checkpointer: saver });
    return { runner: new GraphRunner(graph), go, repair: () => (repaired = true) };
  }

  test.each([
    ["as a node", false],
    ["called by a node", true],
  ])("S3.2 %s: THREAD_RUNNING says what still works, and the moment it ends the thread is free", async (_, called) => {
    const at = world();
    const { runner, go, repair } = failing(at.saver, called);
    await expect(runner.invoke({ log: [] }, { threadId: "t", taskId: "one" })).rejects.toThrow("it failed");
    for (const ask of [() => runner.resume({ threadId: "t" }), () => runner.invoke({ log: [] }, { threadId: "t" })]) {
      expect(await refusal(ask())).toMatchObject({
        code: "THREAD_RUNNING",
        message: expect.stringMatching(
          /nobody waits for any more, and \d nodes? of it still working\. Wait for \d nodes? to end/,
        ) as string,
        data: { leftBehind: expect.any(Number) as number },
      });
    }
    repair();
    go();
    // Some turns of the event loop, in which the nodes end: far fewer than the two seconds after which a quiet run counts as over.
    for (let turn = 0; turn < 200 && (await at.saver.turns.isRunning("t")); turn += 1) await new Promise(setImmediate);
    expect(await at.saver.turns.isRunning("t")).toBe(false);
    expect((await runner.resume({ threadId: "t" })).log).toContain("repaired");
    at.saver.close();
  });

  test.each([
    ["a plain node", false],
    ["a subgraph", true],
  ])(
    "S3.2 the body of %s that was aborted runs on: nothing else runs beside it, and then the thread is free",
    async (_, nested) => {
      const at = world();
      let go = (): void => undefined;
      const gate = new Promise<void>((resolve) => (go = resolve));
      let running = 0;
      let most = 0;
      let broken = true;
      const slow = async (): Promise<{ log: string[] }> => {
        most = Math.max(most, (running += 1));
        await gate;
        running -= 1;
        return { log: ["slow"] };
      };
      const inner = new StateGraph(State).addNode("slow", slow).addEdge(START, "slow").compile();
      const graph = new StateGraph(State)
        .addNode("fails", async () => {
          if (!broken) return {};
          broken = false;
          // Not before the body beside it runs: it starts when its own commits are done.
          while (running === 0) await pause(1);
          throw new Error("it failed");
        })
        .addNode("beside", nested ? inner : slow)
        .addEdge(START, "fails")
        .addEdge(START, "beside")
        .compile({ checkpointer: at.saver });
      const runner = new GraphRunner(graph);
      await expect(runner.invoke({ log: [] }, { threadId: "t", taskId: "one" })).rejects.toThrow("it failed");
      expect(running).toBe(1);
      expect(await refusal(runner.resume({ threadId: "t" }))).toMatchObject({ code: "THREAD_RUNNING", data: { leftBehind: 1 } });
      expect(await refusal(at.saver.rewind({ threadId: "t", toTask: "one" }))).toMatchObject({ code: "THREAD_RUNNING" });
      go();
      for (let turn = 0; turn < 200 && (await at.saver.turns.isRunning("t")); turn += 1) await new Promise(setImmediate);
      expect(await at.saver.turns.isRunning("t")).toBe(false);
      await runner.resume({ threadId: "t" });
      expect(most).toBe(1);
      at.saver.close();
    },
  );

  test("S3.2 THREAD_RUNNING names when the run started, in any saver of the process it is asked", async () => {
    const at = world();
    const other = openSaver(at.path, { synchronous: "normal" });
    const release = await internalsOf(at.saver).reserve("t");
    const [row] = await other.turns.liveRuns("t");
    await pause(30);
    for (const saver of [at.saver, other, at.saver]) {
      expect(await refusal(internalsOf(saver).reserve("t"))).toMatchObject({
        code: "THREAD_RUNNING",
        data: { startedAt: row!.startedAt },
      });
    }
    await release();
    at.saver.close();
    other.close();
  });
});

describe("a run that counted as over, and was not", () => {
  /** Registries of two savers on one file, and the first one's run, broken off and quiet until it counts as over. */
  async function lapsed() {
    const at = world();
    await at.saver.put(
      { configurable: { thread_id: "t", checkpoint_ns: "" } },
      {
        v: 4,
        id: "1ef4f797-8335-6428-8001-8a1503f9b875",
        ts: "2026-01-01T00:00:00Z",
        channel_values: {},
        channel_versions: {},
        versions_seen: {},
      },
      { source: "input", step: -1, parents: {} },
      {},
    );
    const others = openSaver(at.path, { synchronous: "normal" });
    const { store } = internalsOf(openSaver(at.path, { synchronous: "normal" }));
    const log = { debug() {}, info() {}, warn() {}, error() {} };
    const runs = new RunRegistry({ store, log, createId: randomUUID, clock: () => new Date() });
    const release = await runs.reserve("t");
    await runs.graphStarted("t", "run", false);
    await release();
    // As a graph run does that is going on when its reader has gone.
    await until(async () => !(await at.saver.turns.isRunning("t")));
    return { at, runs, others };
  }

  test.concurrent("continues if nobody had to do with the thread meanwhile", async () => {
    const { at, runs, others } = await lapsed();
    await Promise.all([runs.nodeStarted("t", "", "run"), runs.nodeStarted("t", "", "run")]);
    expect(await others.turns.isRunning("t")).toBe(true);
    await runs.nodeEnded("t", "", false);
    await runs.nodeEnded("t", "", false);
    await runs.graphEnded("t", "run");
    expect(await others.turns.isRunning("t")).toBe(false);
    at.saver.close();
    others.close();
  });

  test.concurrent.each(["of this saver", "of another"])("S3.5 does not start a node beside another run, %s", async (whose) => {
    const { at, runs, others } = await lapsed();
    const release = await (whose === "of another" ? internalsOf(others) : runs).reserve("t");
    expect(await refusal(async () => runs.nodeStarted("t", "", "run"))).toMatchObject({
      code: "LEASE_LOST",
      data: { threadId: "t", takenBy: { pid: process.pid } },
    });
    await release();
    expect(await others.turns.isRunning("t")).toBe(false);
    // Nor later on: what the other one did is not what this run stands on.
    expect(await refusal(async () => runs.nodeStarted("t", "", "run"))).toMatchObject({ code: "LEASE_LOST" });
    at.saver.close();
    others.close();
  });

  test.concurrent.each(["of this saver", "of another"])(
    "S3.5 does not start a node when another run has come and gone, %s",
    async (whose) => {
      const { at, runs, others } = await lapsed();
      await (
        await (whose === "of another" ? internalsOf(others) : runs).reserve("t")
      )();
      expect(await refusal(async () => runs.nodeStarted("t", "", "run"))).toMatchObject({
        code: "LEASE_LOST",
        data: { takenBy: undefined },
      });
      at.saver.close();
      others.close();
    },
  );

  test.concurrent("S3.5 does not start a node on a thread that was rewound since", async () => {
    const { at, runs, others } = await lapsed();
    await others.put(
      { configurable: { thread_id: "t", checkpoint_ns: "", task_id: "later" } },
      {
        v: 4,
        id: "1ef4f797-8335-6428-8002-8a1503f9b875",
        ts: "2026-01-01T00:00:01Z",
        channel_values: {},
        channel_versions: {},
        versions_seen: {},
      },
      { source: "input", step: 0, parents: {} },
      {},
    );
    const [first] = await others.turns.tasks("t");
    await others.rewind({ threadId: "t", toTask: first!.taskId });
    expect(await refusal(async () => runs.nodeStarted("t", "", "run"))).toMatchObject({ code: "LEASE_LOST" });
    expect(await others.turns.isRunning("t")).toBe(false);
    at.saver.close();
    others.close();
  });
});

test("S3.5 S3.7 a thread with an unfinished rewind is not copied: the copy would take for done what was undone", async () => {
  const at = world();
  const stuck = { now: true };
  const undone: string[] = [];
  const graph = new StateGraph(State)
    .addNode("book", async ({ log }) => {
      await effectUndoneBy("cancel", "book", () => undefined, { input: log.at(-1) });
      return {};
    })
    .addEdge(START, "book")
    .compile({ checkpointer: at.saver });
  const cancel = ({ input }: { input: unknown }): void => {
    if (input === "B" && stuck.now) throw new Error("not now");
    undone.push(String(input));
  };
  const runner = new GraphRunner(graph, { undos: undosNamed({ cancel }) });
  for (const taskId of ["A", "B", "C"]) await runner.invoke({ log: [taskId] }, { threadId: "t", taskId });
  expect(await refusal(runner.rewind({ threadId: "t", toTask: "A" }))).toMatchObject({ code: "UNDO_FAILED" });
  expect(await refusal(at.saver.copyThread("t", "copy"))).toMatchObject({
    code: "REWIND_UNFINISHED",
    data: { threadId: "t", toTask: "A", rewindId: (await at.saver.rewinds.unfinished("t"))!.id },
  });
  expect(await at.saver.getTuple({ configurable: { thread_id: "copy" } })).toBeUndefined();
  expect(await refusal(runner.invoke({ log: ["D"] }, { threadId: "t" }))).toMatchObject({ code: "REWIND_UNFINISHED" });
  stuck.now = false;
  await runner.finishRewind({ threadId: "t" });
  expect(undone).toEqual(["C", "B"]);
  await at.saver.copyThread("t", "copy");
  expect(await runner.status("copy")).toMatchObject({ finished: true, completed: [{ taskId: "A" }] });
  at.saver.close();
});

test("S3.2 a run that starts while the last node of a failed one ends keeps its thread", async () => {
  // A server takes a moment to tell the run that it has its thread.
  for (let tenths = 0; tenths < 60; tenths += 3) {
    const saver = openSaver(":memory:", { logger: silent });
    let isFirst = true;
    let lets = (): void => undefined;
    const graph = saver.attach(
      new StateGraph(State)
        .addNode("fails", () => {
          if (isFirst) throw new Error("503");
          return { log: ["fails"] };
        })
        .addNode("slow", async () => {
          if (isFirst) await new Promise<void>((resolve) => (lets = resolve));
          return { log: ["slow"] };
        })
        .addEdge(START, "fails")
        .addEdge(START, "slow")
        .compile({ checkpointer: saver }),
    );
    const config = { configurable: { thread_id: "t" } };
    await expect(graph.invoke({ log: [] }, config)).rejects.toThrow("503");
    isFirst = false;
    const again = graph.invoke(null, config);
    for (const since = performance.now(); performance.now() - since < tenths / 10;)
      await new Promise((resolve) => setImmediate(resolve));
    lets();
    expect(((await again) as { log: string[] }).log.toSorted()).toEqual(["fails", "slow"]);
    await (saver.close() as unknown);
  }
});
