import { internalsOf } from "../../src/testing-internal";
import { Annotation, Command, entrypoint, interrupt, START, StateGraph, task } from "@langchain/langgraph";
import { inspect } from "node:util";
import Database from "better-sqlite3";
import { effect, GraphRunner } from "langgraph-checkpoint-turns";
import { inAnotherProcess } from "./run-process";
import { breaks, line, paths, State, world } from "../support/run-world";

const config = { configurable: { thread_id: "t" } };

describe("S4.1 status: what finished, failed, was running, and whether it can continue", () => {
  test("S4.1 a thread that never ran", async () => {
    const at = world();
    const status = await line(at, ["a"]).status("t");
    expect(status).toMatchObject({
      threadId: "t",
      ...{ graphId: undefined, taskId: undefined, running: false, finished: false, resumable: false, next: [], drift: undefined },
      ...{ completed: [], failed: [], inFlight: [], waiting: [], inDoubt: [], undoFailed: [] },
      reason: { code: "NOTHING_TO_RESUME" },
    });
    await expect(line(at, ["a"]).status("")).rejects.toThrow(expect.objectContaining({ code: "INVALID_CONFIG" }));
    at.saver.close();
  });

  test("S4.1 a finished one: every node with its attempt, fingerprint and time; nothing can be resumed", async () => {
    const at = world();
    const runner = line(at, ["a", "b"], {}, { graphId: "flow" });
    await runner.invoke({ log: [] }, { threadId: "t", taskId: "T" });
    const status = await runner.status("t");
    expect(status).toMatchObject({
      graphId: "flow",
      taskId: "T",
      finished: true,
      resumable: false,
      reason: { code: "FINISHED" },
    });
    expect(status.completed).toEqual(
      ["a", "b"].map((node) =>
        expect.objectContaining({
          ...{ nodeName: node, path: node, taskId: "T", attempt: 1, status: "ok", error: undefined, validation: undefined },
          at: expect.any(Date) as Date,
          fingerprint: expect.stringMatching(/.{10}/) as string,
        }),
      ),
    );
    expect(status.drift).toMatchObject({ changes: [] });
    at.saver.close();
  });

  test("S4.1 a failed one names the node, its error and its attempts; several inputs of one task id are several runs", async () => {
    const at = world();
    const bodies = { b: () => undefined as unknown };
    const runner = line(at, ["a", "b", "c"], { b: (...given) => (bodies.b as typeof breaks)(...given) });
    await runner.invoke({ log: [] }, { threadId: "t", taskId: "T" });
    bodies.b = breaks as never;
    await expect(runner.invoke({ log: [] }, { threadId: "t", taskId: "T" })).rejects.toThrow("it is broken");
    await expect(runner.resume({ threadId: "t" })).rejects.toThrow("it is broken");
    const status = await runner.status("t");
    expect([paths(status.completed), paths(status.failed), paths(status.inFlight)]).toEqual([["a"], ["b"], []]);
    expect(status.failed[0]).toMatchObject({ attempt: 2, status: "error", error: { name: "Error", message: "it is broken" } });
    expect(status).toMatchObject({ finished: false, resumable: true, reason: undefined, next: ["b"], taskId: "T" });
    at.saver.close();
  });

  test("S4.1 S4.7 running in another process; in flight after its SIGKILL", async () => {
    const at = world();
    expect(await inAnotherProcess(at.path, "invoke", "a,b,c", "b", "die")).toMatchObject({ signal: "SIGKILL" });
    const runner = line(at, ["a", "b", "c"]);
    const status = await runner.status("t");
    expect([paths(status.completed), paths(status.failed), paths(status.inFlight)]).toEqual([["a"], [], ["b"]]);
    expect(status).toMatchObject({ running: false, resumable: true, finished: false });
    expect(status.inFlight[0]).toMatchObject({ status: undefined, attempt: 1 });
    const release = await internalsOf(at.saver).reserve("t");
    expect(await runner.status("t")).toMatchObject({
      running: true,
      finished: false,
      resumable: false,
      reason: { code: "THREAD_RUNNING" },
    });
    await release();
    at.saver.close();
  });

  test("S4.1 waiting for a person; a pending answer; finished", async () => {
    const at = world();
    const runner = line(at, ["a", "ask"], { ask: () => ({ log: [interrupt<string, string>("?")] }) });
    await runner.invoke({ log: [] }, { threadId: "t" });
    const status = await runner.status("t");
    expect([paths(status.completed), paths(status.waiting)]).toEqual([["a"], ["ask"]]);
    expect(status).toMatchObject({ finished: false, resumable: true, next: ["ask"], failed: [] });
    await runner.resume({ threadId: "t", command: new Command({ resume: "yes" }) });
    expect(await runner.status("t")).toMatchObject({ finished: true, waiting: [] });
    at.saver.close();
  });

  test("S4.1 nested and parallel nodes have paths; an error that the node around it deals with is no obstacle", async () => {
    const at = world();
    const inner = new StateGraph(State)
      .addNode("x", () => ({ log: ["x"] }))
      .addNode("y", () => {
        throw new Error("y is broken");
      })
      .addEdge(START, "x")
      .addEdge("x", "y")
      .compile();
    const graph = new StateGraph(State)
      .addNode("sub", inner)
      .addNode("beside", () => ({ log: ["beside"] }))
      .addEdge(START, "sub")
      .addEdge(START, "beside")
      .compile({ checkpointer: at.saver });
    const runner = new GraphRunner(graph);
    await expect(runner.invoke({ log: [] }, { threadId: "t" })).rejects.toThrow("y is broken");
    const status = await runner.status("t");
    expect([paths(status.completed).sort(), paths(status.failed).sort()]).toEqual([
      ["beside", "sub|x"],
      ["sub", "sub|y"],
    ]);
    const careful = new GraphRunner(
      new StateGraph(State)
        .addNode("calls", async (state) => {
          await inner.invoke({ log: [] }).catch(() => undefined);
          return { log: [`${state.log.length}`] };
        })
        .addEdge(START, "calls")
        .compile({ checkpointer: at.saver }),
    );
    await careful.invoke({ log: [] }, { threadId: "u" });
    expect(await careful.status("u")).toMatchObject({ finished: true, reason: { code: "FINISHED" } });
    at.saver.close();
  });

  test("S4.1 a functional graph: its tasks are nodes inside the entrypoint", async () => {
    const at = world();
    let broken = true;
    const one = task("one", () => 1);
    const two = task("two", () => {
      if (broken) throw new Error("two is broken");
      return 2;
    });
    const runner = new GraphRunner(
      entrypoint({ name: "flow", checkpointer: at.saver }, async (x: number) => x + (await one()) + (await two())),
    );
    await expect(runner.invoke(1, { threadId: "t" })).rejects.toThrow("two is broken");
    const status = await runner.status("t");
    expect([paths(status.completed), paths(status.failed).sort()]).toEqual([["flow|one"], ["flow", "flow|two"]]);
    expect(status).toMatchObject({ resumable: true, next: ["flow"] });
    broken = false;
    expect(await runner.resume({ threadId: "t" })).toBe(4);
    expect(await runner.status("t")).toMatchObject({ finished: true, failed: [] });
    at.saver.close();
  });

  test("S4.1 a retried node counts once, with its last attempt", async () => {
    const at = world();
    let calls = 0;
    const retryPolicy = { maxAttempts: 3, initialInterval: 1, jitter: false, retryOn: () => true, logWarning: false };
    const runner = new GraphRunner(
      new StateGraph(State)
        .addNode("a", () => (++calls < 3 ? breaks({ log: [] }) : { log: ["a"] }) as { log: string[] }, { retryPolicy })
        .addEdge(START, "a")
        .compile({ checkpointer: at.saver }),
    );
    await runner.invoke({ log: [] }, { threadId: "t" });
    const status = await runner.status("t");
    expect(status.completed).toMatchObject([{ nodeName: "a", attempt: 3 }]);
    expect(status.failed).toEqual([]);
    at.saver.close();
  });

  test("S4.1 a fork by updateState has the nodes of its own branch", async () => {
    const at = world();
    const runner = line(at, ["a", "b", "c"]);
    await runner.invoke({ log: [] }, { threadId: "t" });
    const afterA = [];
    for await (const snapshot of runner.graph.getStateHistory(config)) if (snapshot.next[0] === "b") afterA.push(snapshot);
    await runner.graph.updateState(afterA[0]!.config, { log: ["by hand"] });
    const status = await runner.status("t");
    expect(paths(status.completed)).toEqual(["a"]);
    expect(status).toMatchObject({ finished: false, resumable: true, next: ["b"] });
    expect(await runner.resume({ threadId: "t" })).toEqual({ log: ["a", "by hand", "b", "c"] });
    expect(paths((await runner.status("t")).completed)).toEqual(["a", "b", "c"]);
    at.saver.close();
  });

  test("S4.1 updateState on a run that failed keeps the siblings that finished", async () => {
    const at = world();
    const graph = new StateGraph(State)
      .addNode("ok", () => ({ log: ["ok"] }))
      .addNode("bad", async () => {
        while ((await at.saver.turns.list("t")).every((turn) => turn.nodeName !== "ok" || !turn.durable)) {
          await new Promise((resolve) => setTimeout(resolve, 5));
        }
        throw new Error("bad is broken");
      })
      .addNode("end", () => ({ log: ["end"] }))
      .addEdge(START, "ok")
      .addEdge(START, "bad")
      .addEdge(["ok", "bad"], "end")
      .compile({ checkpointer: at.saver });
    const runner = new GraphRunner(graph);
    await expect(runner.invoke({ log: [] }, { threadId: "t" })).rejects.toThrow("bad is broken");
    await graph.updateState(config, { log: ["bad, by hand"] }, "bad");
    const status = await runner.status("t");
    const { log } = await runner.resume({ threadId: "t" });
    expect(log).toEqual(expect.arrayContaining(["ok", "bad, by hand", "end"]));
    expect(paths(status.completed)).toEqual(["ok"]);
    at.saver.close();
  });

  /** With "exit" LangGraph 1.4 saves the checkpoint that a run began from again when the run stops there. */
  test("S4.1 a checkpoint that is saved again, with itself as parent, begins its run where it was first saved", async () => {
    const at = world();
    let broken = false;
    const graph = new StateGraph(State)
      .addNode("ok", () => ({ log: ["ok"] }))
      .addNode("bad", async () => {
        while (
          broken &&
          (await at.saver.turns.list("t")).filter((turn) => turn.nodeName === "ok" && turn.turnType === "Action").length < 2
        ) {
          await new Promise((resolve) => setTimeout(resolve, 5));
        }
        if (broken) throw new Error("bad is broken");
        return { log: ["bad"] };
      })
      .addEdge(START, "ok")
      .addEdge(START, "bad")
      .compile({ checkpointer: at.saver });
    const runner = new GraphRunner(graph);
    await runner.invoke({ log: [] }, { threadId: "t" });
    broken = true;
    await graph.updateState(config, { log: ["once more"] }, "__start__");
    await expect(graph.invoke(null, { ...config, durability: "exit" })).rejects.toThrow("bad is broken");
    const before = await runner.status("t");
    const { config: head, checkpoint, metadata } = (await at.saver.getTuple(config))!;
    await at.saver.put({ ...head, callbacks: graph.config?.callbacks }, checkpoint, metadata!, {});
    for (const status of [before, await runner.status("t")]) {
      expect([paths(status.completed), paths(status.failed)]).toEqual([["ok"], ["bad"]]);
    }
    at.saver.close();
  });

  test("S4.1 without turns the position is still known; drift is not", async () => {
    const at = world(undefined, { turns: "off" });
    const runner = line(at, ["a", "b"], { b: breaks });
    await expect(runner.invoke({ log: [] }, { threadId: "t" })).rejects.toThrow("it is broken");
    expect(await runner.status("t")).toMatchObject({ completed: [], failed: [], drift: undefined, next: ["b"], resumable: true });
    at.saver.close();
  });

  test("S4.1 S3.2 drifted, another graph, a newer format, corrupted: each says why it cannot continue", async () => {
    const at = world();
    await expect(line(at, ["a", "b", "c"], { c: breaks }).invoke({ log: [] }, { threadId: "t" })).rejects.toThrow("broken");
    const drifted = await line(at, ["a@2", "b", "c"]).status("t");
    expect(drifted).toMatchObject({ resumable: false, finished: false, reason: { code: "GRAPH_CHANGED" } });
    expect(drifted.drift?.changes).toEqual([expect.stringMatching(/node "a".*version, from 1 to 2/)]);
    expect(await line(at, ["x", "y"]).status("t")).toMatchObject({ resumable: false, reason: { code: "WRONG_GRAPH" } });
    expect(await line(at, ["a", "b", "c"]).status("t")).toMatchObject({ resumable: true });
    const db = new Database(at.path);
    db.exec("UPDATE langgraph_snapshots SET checksum = 'x' WHERE seq = (SELECT max(seq) FROM langgraph_snapshots)");
    db.close();
    const corrupted = await line(at, ["a", "b", "c"]).status("t");
    expect(corrupted).toMatchObject({ resumable: false, reason: { code: "CHECKPOINT_CORRUPTED" } });
    expect([paths(corrupted.completed), paths(corrupted.failed)]).toEqual([["a", "b"], ["c"]]);
    at.saver.close();
  });

  test("S4.1 effects in doubt are listed, those of the last run only", async () => {
    const at = world();
    const send = { send: () => effect("mail", () => Promise.reject(new Error("timeout")), { input: 1 }) };
    const runner = line(at, ["send"], send);
    await expect(runner.invoke({ log: [] }, { threadId: "t" })).rejects.toThrow();
    const listed = (await runner.status("t")).inDoubt;
    expect(listed).toEqual((await runner.effects.list("t")).filter(({ status }) => status === "in-doubt"));
    at.saver.close();
  });

  test("S4.1 a long history is not read: only the turns of the last run are asked for", async () => {
    const at = world();
    const runner = line(at, ["a", "b"]);
    for (let run = 0; run < 30; run += 1) await runner.invoke({ log: [] }, { threadId: "t", taskId: "always the same" });
    const list = jest.spyOn(at.saver.turns, "list");
    const tasks = jest.spyOn(at.saver.turns, "tasks");
    const status = await runner.status("t");
    expect(paths(status.completed)).toEqual(["a", "b"]);
    const read = await Promise.all(list.mock.results.map(({ value }) => value as Promise<unknown[]>));
    expect(read.map((turns) => turns.length)).toEqual([4]);
    expect(tasks).not.toHaveBeenCalled();
    at.saver.close();
  });
});

describe("S8.3 status: the questions that wait, and how it reads", () => {
  test("S8.3 each waiting interrupt has its id, value, innermost node, namespace and task", async () => {
    const at = world();
    const inner = new StateGraph(State)
      .addNode("ask", () => ({ log: [interrupt<object, string>({ question: "inner?" })] }))
      .addEdge(START, "ask")
      .compile();
    const graph = new StateGraph(State)
      .addNode("sub", inner)
      .addNode("calls", async () => ({ log: (await inner.invoke({ log: [] })).log }))
      .addNode("beside", () => ({ log: [interrupt<string, string>("beside?")] }))
      .addEdge(START, "sub")
      .addEdge(START, "calls")
      .addEdge(START, "beside")
      .compile({ checkpointer: at.saver });
    const runner = new GraphRunner(graph);
    const told = await runner.invoke({ log: [] }, { threadId: "t", taskId: "T" });
    const asked = (told as { __interrupt__?: { id: string; value: unknown }[] }).__interrupt__!;
    const { waiting } = await runner.status("t");
    expect(waiting.map(({ id, value }) => ({ id, value }))).toEqual(expect.arrayContaining(asked));
    expect(waiting).toHaveLength(3);
    const at_ = (path: string) => waiting.find((each) => each.path === path);
    const common = {
      id: expect.stringMatching(/^[0-9a-f]{32}$/) as string,
      taskId: "T",
      nodeTaskId: expect.any(String) as string,
    };
    const nested = { ...common, nodeName: "ask", value: { question: "inner?" } };
    expect(at_("sub|ask")).toEqual({ ...nested, path: "sub|ask", checkpointNs: expect.stringMatching(/^sub:/) as string });
    expect(at_("calls|ask")).toEqual({ ...nested, path: "calls|ask", checkpointNs: expect.stringMatching(/^calls:/) as string });
    expect(at_("beside")).toEqual({ ...common, nodeName: "beside", value: "beside?", path: "beside", checkpointNs: "" });
    const answered = new Command({ resume: { [at_("sub|ask")!.id!]: "yes" } });
    await runner.resume({ threadId: "t", command: answered });
    expect(paths((await runner.status("t")).waiting).sort()).toEqual(["beside", "calls|ask"]);
    at.saver.close();
  });

  test("S8.3 a functional task that asks; without turns the node of the outermost graph is named", async () => {
    for (const [turns, nodeName] of [
      ["full", "one"],
      ["metadata", "one"],
      ["off", "flow"],
    ] as const) {
      const at = world(undefined, { turns });
      const one = task("one", async () => interrupt<string, string>("sure?"));
      const flow = new GraphRunner(entrypoint({ name: "flow", checkpointer: at.saver }, async (_: number) => one()));
      await flow.invoke(1, { threadId: "t" });
      expect((await flow.status("t")).waiting).toMatchObject([{ nodeName, value: "sure?" }]);
      at.saver.close();
    }
  });

  test("S8.3 the calls to settle and to resume are whole, however long the names around them are", async () => {
    const at = world();
    const threadId = "t".repeat(200);
    const name = (letter: string): string => letter.repeat(90);
    const doubt = (letter: string) => () =>
      effect(name(letter), () => Promise.reject(new Error("timeout")), { onError: "unknown" });
    const runner = line(at, [name("n")], {
      [name("n")]: async () => void (await Promise.allSettled([doubt("x")(), doubt("y")()])),
    });
    await expect(runner.invoke({ log: [] }, { threadId })).rejects.toThrow();
    const [, , , resume, effects] = String(await runner.status(threadId)).split("\n");
    const [{ id } = { id: "" }] = (await runner.status(threadId)).inDoubt;
    expect(resume).toBe(`Resume: await runner.resume({ threadId: "${threadId}" })`);
    expect(effects).toContain(`settle it: await runner.effects.resolve("${id}", { outcome: "done", result })`);
    expect(effects!.length).toBeLessThanOrEqual(300);
    at.saver.close();
  });

  test("S8.3 as text and in the console a status has five lines; one is the call that continues the thread", async () => {
    const at = world();
    const bodies: Record<string, typeof breaks> = { ask: () => ({ log: [interrupt<object, string>({ send: "it?" })] }) };
    const runner = line(at, ["a", "ask", "z"], bodies, { graphId: "flow" });
    const lines = async (threadId: string): Promise<string[]> => {
      const status = await runner.status(threadId);
      const text = String(status);
      expect(inspect(status)).toBe(text);
      expect(text.split("\n")).toHaveLength(5);
      expect(JSON.parse(JSON.stringify(status))).toMatchObject({ threadId });
      return text.split("\n");
    };
    expect(await lines("t")).toEqual([
      'Thread "t" has no checkpoint.',
      "Completed: none.",
      "Waiting: nothing. In flight: nothing.",
      'Nothing to resume. New input: await runner.invoke(input, { threadId: "t" })',
      "Tokens: 0 in, 0 out. Effects in doubt: none.",
    ]);
    await runner.invoke({ log: [] }, { threadId: "t", taskId: "T" });
    const id = (await runner.status("t")).waiting[0]!.id!;
    expect(await lines("t")).toEqual([
      'Thread "t" (task "T", graph "flow") waits for an answer.',
      "Completed: a. Next: ask.",
      `Waiting: ask asks { send: 'it?' } (interrupt ${id})`,
      `Resume: await runner.resume({ threadId: "t", command: new Command({ resume: { "${id}": answer } }) })`,
      "Tokens: 0 in, 0 out. Effects in doubt: none.",
    ]);
    bodies["z"] = breaks;
    await expect(runner.resume({ threadId: "t", command: new Command({ resume: "yes" }) })).rejects.toThrow();
    expect((await lines("t")).slice(0, 4)).toEqual([
      'Thread "t" (task "T", graph "flow") stopped: "z" failed.',
      "Completed: a, ask. Next: z.",
      "Failed: z, attempt 1: Error: it is broken",
      'Resume: await runner.resume({ threadId: "t" })',
    ]);
    bodies["z"] = () => Promise.reject(new RangeError());
    await expect(runner.resume({ threadId: "t" })).rejects.toThrow();
    expect((await lines("t"))[2]).toBe("Failed: z, attempt 2: RangeError");
    bodies["z"] = async () => void (await effect("mail", () => Promise.reject(new Error("timeout")), { onError: "unknown" }));
    await expect(runner.resume({ threadId: "t" })).rejects.toThrow();
    const effectId = (await runner.status("t")).inDoubt[0]!.id;
    expect((await lines("t")).at(-1)).toBe(
      `Tokens: 0 in, 0 out. Effects in doubt: "mail" of z. Unless it has a probe, settle it: await runner.effects.resolve("${effectId}", { outcome: "done", result })`,
    );
    await runner.effects.resolve(effectId, { outcome: "done", result: "sent" });
    await runner.resume({ threadId: "t" });
    expect((await lines("t")).slice(0, 4)).toEqual([
      'Thread "t" (task "T", graph "flow") is finished.',
      "Completed: a, ask, z.",
      "Waiting: nothing. In flight: nothing.",
      'Nothing to resume. New input: await runner.invoke(input, { threadId: "t" })',
    ]);
    const release = await internalsOf(at.saver).reserve("t");
    expect((await lines("t"))[3]).toBe("Not now: a live process is running the thread.");
    await release();
    at.saver.close();
  });
});

test("S3.7 two runners on one saver: a checkpoint of one thread never resumes another", async () => {
  const at = world();
  const [one, other] = [line(at, ["a", "b"], { b: breaks }, { graphId: "A" }), line(at, ["a", "b"], {}, { graphId: "B" })];
  await expect(one.invoke({ log: ["one"] }, { threadId: "t" })).rejects.toThrow("broken");
  await expect(other.resume({ threadId: "t" })).rejects.toThrow(expect.objectContaining({ code: "WRONG_GRAPH" }));
  await expect(other.resume({ threadId: "u" })).rejects.toThrow(expect.objectContaining({ code: "NOTHING_TO_RESUME" }));
  expect(await other.invoke({ log: ["other"] }, { threadId: "u" })).toEqual({ log: ["other", "a", "b"] });
  expect(await line(at, ["a", "b"], {}, { graphId: "A" }).resume({ threadId: "t" })).toEqual({ log: ["one", "a", "b"] });
  at.saver.close();
});

test("the result of invoke has the type of the graph's own", async () => {
  const at = world();
  const Typed = Annotation.Root({ count: Annotation<number>() });
  const graph = new StateGraph(Typed)
    .addNode("n", () => ({ count: 2 }))
    .addEdge(START, "n")
    .compile({ checkpointer: at.saver });
  const result = await new GraphRunner(graph).invoke({ count: 1 }, { threadId: "t" });
  const count: number = result.count;
  // @ts-expect-error -- there is no such channel
  void result.other;
  expect(count).toBe(2);
  at.saver.close();
});
