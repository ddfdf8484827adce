import { START, StateGraph } from "@langchain/langgraph";
import { effect, GraphRunner, type GraphRunnerOptions } from "langgraph-checkpoint-turns";
import type { ValidationEvent } from "../../src/testing-internal";
import { inAnotherProcess, scriptTold } from "./run-process";
import { line, lineGraph, paths, SideEffects, State, world, type World } from "../support/run-world";
import { effectUndoneBy, undosNamed } from "../support/undo-world";

/** What stops a node reaches the caller, and never the console. */
beforeEach(() => void jest.spyOn(console, "error").mockImplementation(() => undefined));
afterEach(() => {
  expect(console.error).not.toHaveBeenCalled();
  jest.restoreAllMocks();
});

const failed = (node: string): Error =>
  expect.objectContaining({ code: "VALIDATION_FAILED", data: expect.objectContaining({ nodeName: node }) as unknown }) as Error;

/** A validator that gives these answers one after the other, the last one for ever. */
function answers(...given: number[]) {
  let asked = 0;
  return () => given[Math.min(asked++, given.length - 1)] ?? 1;
}

const mailing =
  ({ ledger }: World, name: string) =>
  async () => {
    await effectUndoneBy("unmail", "mail", () => void ledger.happen(`mail of ${name}`), { input: name });
    return { log: [name] };
  };

const rollback = (at: World, nodes: GraphRunnerOptions["nodes"]): GraphRunnerOptions => ({
  gates: { onFailure: "rollback" },
  undos: undosNamed({ unmail: ({ input }) => at.ledger.happen(`unmail of ${String(input)}`) }),
  ...(nodes === undefined ? {} : { nodes }),
});

const withoutGates = (error: unknown): boolean => (error as { code?: unknown }).code !== "VALIDATION_FAILED";

describe("S3.4 runner: a gate that rolls back", () => {
  test.each([
    ["LangGraph retries first, and that undoes nothing", undefined, ["mail of b", "unmail of b", "mail of b"], 4],
    ["a policy that excludes the gate's error rolls back at once", withoutGates, ["mail of b", "unmail of b", "mail of b"], 2],
  ])("S3.4 with a retryPolicy around a gate: %s", async (_, retryOn, mails, scores) => {
    const at = world();
    let scored = 0;
    const validate = (): number => (++scored < scores ? 0.1 : 1);
    const graph = new StateGraph(State)
      .addNode("b", mailing(at, "b"), {
        retryPolicy: { maxAttempts: 2, initialInterval: 1, jitter: false, logWarning: false, ...(retryOn && { retryOn }) },
      })
      .addEdge(START, "b")
      .compile({ checkpointer: at.saver });
    const runner = new GraphRunner(graph, rollback(at, { b: { validate, maxRollbacks: 1 } }));
    expect(await runner.invoke({ log: [] }, { threadId: "t" })).toEqual({ log: ["b"] });
    expect([at.ledger.all, scored]).toEqual([mails, scores]);
    expect(await at.saver.rewinds.list("t")).toHaveLength(1);
  });

  test("S3.4 with a retryPolicy and maxRollbacks 0, the node still runs as often as its policy says", async () => {
    const at = world();
    let scored = 0;
    const graph = new StateGraph(State)
      .addNode("b", mailing(at, "b"), { retryPolicy: { maxAttempts: 3, initialInterval: 1, jitter: false, logWarning: false } })
      .addEdge(START, "b")
      .compile({ checkpointer: at.saver });
    const validate = (): number => (++scored, 0);
    const runner = new GraphRunner(graph, rollback(at, { b: { validate, maxRollbacks: 0 } }));
    await expect(runner.invoke({ log: [] }, { threadId: "t" })).rejects.toEqual(failed("b"));
    expect([at.ledger.all, scored]).toEqual([["mail of b"], 3]);
  });

  test.each(["invoke", "stream"] as const)(
    "S3.4 %s goes back to the checkpoint before the node, effects undone, and tries again",
    async (how) => {
      const at = world();
      const found: ValidationEvent[] = [];
      at.saver.events.on("validation", (event) => void found.push(event));
      const runner = line(
        at,
        ["a", "b", "c"],
        { b: mailing(at, "b") },
        rollback(at, { b: { validate: answers(0.2, 0.3, 0.8) } }),
      );
      const chunks: unknown[] = [];
      if (how === "invoke") await runner.invoke({ log: ["in"] }, { threadId: "t" });
      else
        for await (const chunk of await runner.stream({ log: ["in"] }, { threadId: "t", streamMode: "updates" }))
          chunks.push(chunk);
      expect((await runner.graph.getState({ configurable: { thread_id: "t" } })).values).toEqual({ log: ["in", "a", "b", "c"] });
      if (how === "stream")
        // What the failed attempts had told already stays told.
        expect(chunks.map((chunk) => Object.keys(chunk as object)[0])).toEqual(["a", "b", "b", "b", "c"]);
      expect(at.ledger.all).toEqual([
        "a",
        "b",
        "mail of b",
        "unmail of b",
        "b",
        "mail of b",
        "unmail of b",
        "b",
        "mail of b",
        "c",
      ]);
      expect(found.map(({ verdict, confidence }) => [verdict, confidence])).toEqual([
        ["failed", 0.2],
        ["failed", 0.3],
        ["warning", 0.8],
      ]);
      expect(at.warnings.filter((warning) => warning.includes("goes back to the checkpoint before it"))).toHaveLength(2);
      const status = await runner.status("t");
      expect(status.completed.find(({ nodeName: node }) => node === "b")?.validation).toMatchObject({
        verdict: "warning",
        confidence: 0.8,
      });
      at.saver.close();
    },
  );

  test("S3.4 the cap: VALIDATION_FAILED, the run stands where the node failed, and a resume does not roll back again", async () => {
    const at = world();
    const capped = { b: { validate: () => 0.1, maxRollbacks: 2 } };
    const runner = line(at, ["a", "b", "c"], { b: mailing(at, "b") }, rollback(at, capped));
    await expect(runner.invoke({ log: [] }, { threadId: "t" })).rejects.toThrow(failed("b"));
    expect([at.ledger.count("a"), at.ledger.count("b")]).toEqual([1, 3]);
    const status = await runner.status("t");
    expect([paths(status.completed), paths(status.failed)]).toEqual([["a"], ["b"]]);
    expect(status.failed[0]?.validation).toMatchObject({ verdict: "failed", recommendation: "previous-checkpoint" });
    await expect(runner.resume({ threadId: "t" })).rejects.toThrow(failed("b"));
    expect(at.ledger.count("b")).toBe(4);
    expect(at.ledger.count("unmail of b")).toBe(2);
    expect(at.warnings.join()).toMatch(/rolled back as often as it may be/);
    at.saver.close();
  });

  test("S3.4 maxRollbacks 0 never rolls back; record and throw are as they say", async () => {
    for (const [options, runs, throws] of [
      [{ onFailure: "rollback", maxRollbacks: 0 }, 1, true],
      [{ onFailure: "throw" }, 1, true],
      [{ onFailure: "record" }, 1, false],
    ] as const) {
      const at = world();
      const run = line(at, ["a"], {}, { nodes: { a: { validate: () => 0, ...options } } }).invoke({ log: [] }, { threadId: "t" });
      if (throws) await expect(run).rejects.toThrow(failed("a"));
      else await run;
      expect(at.ledger.count("a")).toBe(runs);
      expect(await at.saver.rewinds.list("t")).toEqual([]);
      at.saver.close();
    }
  });

  test("S3.4 siblings of the same superstep go back with the node, their effects undone too; the last node too", async () => {
    const at = world();
    const graph = new StateGraph(State)
      .addNode("one", mailing(at, "one"))
      .addNode("two", async () => {
        while (at.ledger.count("mail of one") === 0) await new Promise((resolve) => setTimeout(resolve, 5));
        await new Promise((resolve) => setTimeout(resolve, 20));
        return mailing(at, "two")();
      })
      .addEdge(START, "one")
      .addEdge(START, "two")
      .compile({ checkpointer: at.saver });
    const runner = new GraphRunner(graph, rollback(at, { two: { validate: answers(0.1, 1) } }));
    const { log } = await runner.invoke({ log: [] }, { threadId: "t" });
    expect(log.sort()).toEqual(["one", "two"]);
    expect(at.ledger.all.slice(0, 4)).toEqual(["mail of one", "mail of two", "unmail of two", "unmail of one"]);
    expect(at.ledger.all.slice(4).sort()).toEqual(["mail of one", "mail of two"]);
    at.saver.close();
  });

  test("S3.4 a node inside a subgraph goes back to the checkpoint of its own graph", async () => {
    const at = world();
    const inner = new StateGraph(State)
      .addNode("x", () => (at.ledger.happen("x"), { log: ["x"] }))
      .addNode("y", mailing(at, "y"))
      .addEdge(START, "x")
      .addEdge("x", "y")
      .compile();
    const graph = new StateGraph(State)
      .addNode("first", () => (at.ledger.happen("first"), { log: ["first"] }))
      .addNode("sub", async () => ({ log: (await inner.invoke({ log: [] })).log }), { subgraphs: [inner] })
      .addEdge(START, "first")
      .addEdge("first", "sub")
      .compile({ checkpointer: at.saver });
    const runner = new GraphRunner(graph, rollback(at, { "sub|y": { validate: answers(0.1, 1) } }));
    expect(await runner.invoke({ log: [] }, { threadId: "t" })).toEqual({ log: ["first", "x", "y"] });
    expect(at.ledger.all).toEqual(["first", "x", "mail of y", "unmail of y", "mail of y"]);
    expect(await runner.status("t")).toMatchObject({ finished: true });
    at.saver.close();
  });

  test("S3.4 S3.5 a rollback that cannot undo is refused by name, and the run stands where the node failed", async () => {
    const at = world();
    const bodies = { b: () => effect("mail", () => void at.ledger.happen("mail")) };
    const runner = line(at, ["a", "b", "c"], bodies, rollback(at, { b: { validate: answers(0.1, 1) } }));
    await expect(runner.invoke({ log: [] }, { threadId: "t" })).rejects.toThrow(
      expect.objectContaining({ code: "EFFECT_UNCOMPENSATED" }),
    );
    expect(await runner.status("t")).toMatchObject({
      resumable: true,
      failed: [{ nodeName: "b" }],
      completed: [{ nodeName: "a" }],
    });
    expect(await at.saver.turns.isRunning("t")).toBe(false);
    await runner.resume({ threadId: "t" });
    expect([at.ledger.count("a"), at.ledger.count("b"), at.ledger.count("mail")]).toEqual([1, 2, 1]);
    at.saver.close();
  });

  test("S3.4 without turns a node of the outermost graph still goes back", async () => {
    const at = world(undefined, { turns: "off" });
    const runner = line(at, ["a", "b"], {}, rollback(at, { b: { validate: answers(0.1, 1) } }));
    expect(await runner.invoke({ log: [] }, { threadId: "t" })).toEqual({ log: ["a", "b"] });
    expect(await at.saver.rewinds.list("t")).toHaveLength(1);
    expect(at.ledger.all).toEqual(["a", "b", "b"]);
    at.saver.close();
  });
});

describe("S3.4 S4.7 runner: rollbacks over crashes and processes", () => {
  const child = (path: string, what: string, dieIn = "") => scriptTold("run-gate-child.ts", [path, what, dieIn]);

  test("S3.4 the cap counts rollbacks of processes that died", async () => {
    const at = world();
    const ledger = new SideEffects(`${at.path}.ledger`);
    expect(await child(at.path, "invoke", "undo")).toMatchObject({ signal: "SIGKILL" });
    const runner = new GraphRunner(lineGraph(at, ["a", "b", "c"]), { undos: undosNamed({ unmail: () => undefined }) });
    // Until the rollback is finished nothing runs.
    const refused = expect.objectContaining({ code: "REWIND_UNFINISHED" }) as Error;
    await expect(runner.resume({ threadId: "t" })).rejects.toThrow(refused);
    await expect(runner.invoke({ log: [] }, { threadId: "t" })).rejects.toThrow(refused);
    const status = await runner.status("t");
    expect(status).toMatchObject({ resumable: false, reason: { code: "REWIND_UNFINISHED" } });
    expect(String(status).split("\n")[0]).toMatch(/ has an unfinished rewind\.$/);
    at.saver.close();
    // Whether the undo ran nobody knows: the undo in doubt is settled by hand.
    expect((await child(at.path, "finish")).code).toBe("EFFECT_IN_DOUBT");
    const again = world(at.path);
    const [doubtful] = await again.saver.effects.list("t");
    await again.saver.effects.resolve(doubtful!.id, { undo: "not-done" });
    again.saver.close();
    expect(await child(at.path, "finish")).toMatchObject({ code: "done" });
    expect(await child(at.path, "resume", "validator")).toMatchObject({ signal: "SIGKILL" });
    expect(await child(at.path, "resume")).toMatchObject({ code: "VALIDATION_FAILED" });
    const last = world(at.path);
    expect(await last.saver.rewinds.list("t")).toHaveLength(2);
    expect([ledger.count("a"), ledger.count("mail"), ledger.count("unmail")]).toEqual([1, 3, 2]);
    last.saver.close();
  });
});

test("S5.6 checkpointFile: kept up to date in each run, after a crash of another too, by path or by function", async () => {
  const { existsSync, readFileSync } = await import("node:fs");
  const at = world();
  for (const [threadId, checkpointFile] of [
    ["t", `${at.path}.t.md`],
    ["u", (id: string) => `${at.path}.${id}.md`],
  ] as const) {
    const broken = { now: true };
    const b = () => {
      if (broken.now) throw new Error("it is broken");
    };
    const runner = line(at, ["a", "b"], { b }, { checkpointFile });
    await expect(runner.invoke({ log: [] }, { threadId, taskId: "write" })).rejects.toThrow("it is broken");
    const file = `${at.path}.${threadId}.md`;
    expect(existsSync(file)).toBe(true);
    expect(readFileSync(file, "utf8")).toMatch(/\| write \|.*failed/);
    broken.now = false;
    await runner.resume({ threadId });
    expect(readFileSync(file, "utf8")).toMatch(/\| write \|.*completed/);
  }
  at.saver.close();
});

test("S5.6 checkpointFile: it says in-progress while the run works, and is right after a crash of another process", async () => {
  const { existsSync, readFileSync } = await import("node:fs");
  const at = world();
  const file = `${at.path}.md`;
  const read = (): string => (existsSync(file) ? readFileSync(file, "utf8") : "");
  expect(await inAnotherProcess(at.path, "invoke", "a,b,c", "b", "die")).toMatchObject({ signal: "SIGKILL" });
  const c = async () => {
    while (!/^\| .* in-progress/m.test(read())) await new Promise((resolve) => setTimeout(resolve, 20));
  };
  await line(at, ["a", "b", "c"], { c }, { checkpointFile: file }).resume({ threadId: "t" });
  expect(read()).toMatch(/^\| .* completed/m);
  expect(read()).not.toMatch(/^\| .* in-progress/m);
  at.saver.close();
});

test("S3.4 options are refused by name", () => {
  const at = world();
  const graph = lineGraph(at, ["a"]);
  for (const [options, name] of [
    [{ nodes: { a: { minConfidence: 2 } } }, "nodes.a.minConfidence"],
    [{ nodes: { a: { validate: 1 } } }, "nodes.a.validate"],
    [{ nodes: { a: { validate: () => 1, warnBelow: 0.1 } } }, "nodes.a.warnBelow"],
    [{ drift: "maybe" }, "drift"],
    [{ onCorrupted: "ignore" }, "onCorrupted"],
    [{ graphId: "" }, "graphId"],
    [{ stateVersion: 1 }, "stateVersion"],
    [{ checkpointFile: "" }, "checkpointFile"],
    [{ undos: [{ x: 1 }] }, "undos.0"],
  ] as const) {
    expect(() => new GraphRunner(graph, options as never)).toThrow(
      expect.objectContaining({ code: "INVALID_OPTION", message: expect.stringContaining(name) as string }),
    );
  }
  at.saver.close();
});
