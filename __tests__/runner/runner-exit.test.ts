import { entrypoint, START, StateGraph, task } from "@langchain/langgraph";
import { effect, GraphRunner } from "langgraph-checkpoint-turns";
import { CheckpointFile } from "langgraph-checkpoint-turns/checkpoint-file";
import { answersOf, reportOf } from "../../src/testing-internal";
import { type Body, breaks, line, paths, State, world, type World } from "../support/run-world";
import { inAnotherProcess } from "./run-process";

/** LangGraph saves one checkpoint, when the run ends: neither that of its input nor those of its steps. */
const exit = { threadId: "t", durability: "exit" } as const;

/** A finished run, and one with durability "exit" that failed at b. */
async function failedAtB(at: World, first: "async" | "exit", b: Body = breaks): Promise<void> {
  await line(at, ["a", "b"]).invoke({ log: ["one"] }, { threadId: "t", taskId: "one", durability: first });
  await expect(line(at, ["a", "b"], { b }).invoke({ log: ["two"] }, { ...exit, taskId: "two" })).rejects.toThrow("broken");
}

describe('a run with durability "exit", after an earlier run of its thread', () => {
  test.each(["async", "exit"] as const)(
    "S3.4 S2.5 a gate that rolls back doesn't go back to the earlier run (%s), which would drop the input",
    async (first) => {
      const at = world();
      const answers = [1, 0.1, 0.9];
      const nodes = { b: { validate: () => answers.shift() ?? 1, onFailure: "rollback" as const } };
      const runner = line(at, ["a", "b"], {}, { nodes });
      await runner.invoke({ log: ["one"] }, { threadId: "t", durability: first });
      await expect(runner.invoke({ log: ["two"] }, exit)).rejects.toMatchObject({ code: "VALIDATION_FAILED" });
      expect(await runner.resume({ threadId: "t" })).toEqual({ log: ["one", "a", "b", "two", "a", "b"] });
      expect(at.warnings.filter((warning) => warning.includes("nobody knows where it started"))).toHaveLength(1);
      at.saver.close();
    },
  );

  test("S3.4 S2.5 nor does one in a nested graph", async () => {
    const at = world();
    const answers = [1, 0.1, 0.9];
    const inner = new StateGraph(State).addNode("deep", () => ({ log: ["deep"] })).addEdge(START, "deep");
    const graph = new StateGraph(State)
      .addNode("a", () => ({ log: ["a"] }))
      .addNode("sub", inner.compile())
      .addEdge(START, "a")
      .addEdge("a", "sub")
      .compile({ checkpointer: at.saver });
    const nodes = { "sub|deep": { validate: () => answers.shift() ?? 1, onFailure: "rollback" as const } };
    const runner = new GraphRunner(graph, { nodes });
    await runner.invoke({ log: ["one"] }, { threadId: "t" });
    await expect(runner.invoke({ log: ["two"] }, exit)).rejects.toMatchObject({ code: "VALIDATION_FAILED" });
    expect((await runner.resume({ threadId: "t" })).log).toEqual(expect.arrayContaining(["two"]));
    at.saver.close();
  });

  test.each(["async", "exit"] as const)(
    "S4.2 S2.5 a changed graph doesn't start the earlier run again (%s): the run's own input wasn't saved",
    async (first) => {
      const at = world();
      await failedAtB(at, first);
      const changed = line(at, ["a@2", "b"]);
      expect(await changed.status("t")).toMatchObject({ taskId: "two", onResume: "refuse", reason: { code: "GRAPH_CHANGED" } });
      await expect(changed.resume({ threadId: "t" })).rejects.toMatchObject({ code: "GRAPH_CHANGED" });
      expect(await changed.resume({ threadId: "t", drift: "continue" })).toEqual({ log: ["one", "a", "b", "two", "a", "b"] });
      expect(at.ledger.count("a")).toBe(2);
      at.saver.close();
    },
  );

  test("S4.2 S4.3 with the input passed again, it starts again after the earlier run", async () => {
    const at = world();
    await failedAtB(at, "async");
    const changed = line(at, ["a@2", "b"], { a: () => ({ log: ["new a"] }) });
    const result = await changed.resume({ threadId: "t", drift: "restart", input: { log: ["two"] } });
    expect(result).toEqual({ log: ["one", "a", "b", "two", "new a", "b"] });
    at.saver.close();
  });

  test("S4.2 S2.5 nor does one that is resumed under another task's name, and fails again", async () => {
    const at = world();
    await failedAtB(at, "async");
    await expect(line(at, ["a", "b"], { b: breaks }).resume({ threadId: "t", taskId: "three" })).rejects.toThrow("broken");
    await expect(line(at, ["a@2", "b"]).resume({ threadId: "t" })).rejects.toMatchObject({ code: "GRAPH_CHANGED" });
    at.saver.close();
  });
});

describe('S4.1 the completed nodes of a run with durability "exit"', () => {
  test.each([true, false])("S4.1 S3.3 are known when it has failed (after another run: %s)", async (isLater) => {
    const at = world();
    if (isLater) await line(at, ["a", "b"]).invoke({ log: ["one"] }, { threadId: "t", taskId: "one" });
    await expect(line(at, ["a", "b"], { b: breaks }).invoke({ log: ["two"] }, { ...exit, taskId: "two" })).rejects.toThrow(
      "broken",
    );
    const runner = line(at, ["a", "b"]);
    const status = await runner.status("t");
    expect([paths(status.completed), paths(status.failed)]).toEqual([["a"], ["b"]]);
    const changed = await line(at, ["a@2", "b"]).status("t");
    expect(changed.drift?.changes).toEqual([expect.stringMatching(/node "a".*version, from 1 to 2/)]);
    await runner.resume({ ...exit });
    expect(paths((await runner.status("t")).completed)).toEqual(["a", "b"]);
    at.saver.close();
  });

  test.each([true, false])(
    "S4.1 are those of a functional graph too, with its effects in doubt (after another run: %s)",
    async (isLater) => {
      const at = world();
      const lost = (): never => {
        throw Object.assign(new Error("the line broke"), { code: "ECONNRESET" });
      };
      const runner = (isBroken: boolean) => {
        const pay = task("pay", (what: string) => effect("pay", () => at.ledger.happen(`${what} paid`)).then(() => what));
        const ship = task("ship", (what: string) => effect("ship", () => (isBroken ? lost() : what)));
        return new GraphRunner(
          entrypoint({ name: "order", checkpointer: at.saver }, async (what: string) => ship(await pay(what))),
        );
      };
      if (isLater) await runner(false).invoke("one", { threadId: "t", taskId: "one" });
      await expect(runner(true).invoke("two", { ...exit, taskId: "two" })).rejects.toMatchObject({ code: "EFFECT_IN_DOUBT" });
      const { completed, failed, inDoubt } = await runner(false).status("t");
      expect([paths(completed), paths(failed)]).toEqual([["order|pay"], ["order", "order|ship"]]);
      expect(inDoubt.map(({ name }) => name)).toEqual(["ship"]);
      await at.saver.effects.resolve(inDoubt[0]!.id, { outcome: "not-done" });
      expect(await runner(false).resume({ threadId: "t" })).toBe("two");
      expect(at.ledger.all).toEqual([...(isLater ? ["one paid"] : []), "two paid"]);
      at.saver.close();
    },
  );

  test("S4.1 are those of nested graphs too, and none of a run that was lost", async () => {
    const at = world();
    const run = { configurable: { thread_id: "t" }, durability: "exit" } as const;
    const inner = new StateGraph(State).addNode("deep", () => ({ log: ["deep"] })).addEdge(START, "deep");
    const graph = (b: () => unknown) => {
      const made = new StateGraph(State)
        .addNode("sub", inner.compile())
        .addNode("b", b as never)
        .addEdge(START, "sub")
        .addEdge("sub", "b")
        .compile({ checkpointer: at.saver });
      return at.saver.attach(made);
    };
    // It never ends.
    await new Promise<void>((begun) => void graph(() => new Promise(() => void begun())).invoke({ log: ["in"] }, run));
    expect((await at.saver.turns.list("t")).filter(({ durable }) => durable)).toEqual([]);
    await expect(graph(breaks as never).invoke({ log: ["in"] }, run)).rejects.toThrow("broken");
    const runner = new GraphRunner(graph(breaks as never));
    expect(paths((await runner.status("t")).completed)).toEqual(["sub", "sub|deep"]);
    at.saver.close();
  });
});

describe('a run with durability "exit" whose process was killed', () => {
  test.each([true, false])("S4.3 S4.7 is lost, and not taken for the one before it (after another run: %s)", async (isLater) => {
    const at = world();
    if (isLater) await line(at, ["a", "b"]).invoke({ log: ["one"] }, { threadId: "t", taskId: "one" });
    expect((await inAnotherProcess(at.path, "exit", "a,b", "b", "die")).signal).toBe("SIGKILL");
    const runner = line(at, ["a", "b"]);
    const status = await runner.status("t");
    expect(status).toMatchObject({ taskId: "lost", finished: false, resumable: false, onResume: "refuse" });
    expect([paths(status.completed), paths(status.inFlight), status.reason?.code]).toEqual([[], ["a", "b"], "NOTHING_TO_RESUME"]);
    const [first, , , way] = String(status).split("\n");
    expect(first).toBe('Thread "t" (task "lost") lost its run: nothing of it was saved.');
    expect(way).toBe('Nothing to resume. Start it again with its input: await runner.resume({ threadId: "t", input })');
    const refusal = { code: "NOTHING_TO_RESUME", message: expect.stringContaining('durability "exit"') as string };
    await expect(runner.resume({ threadId: "t" })).rejects.toMatchObject(refusal);
    expect(await runner.recover()).toMatchObject({ resumed: [], failed: [] });
    const report = await reportOf(at.saver, "t");
    expect(report).toMatchObject({
      state: "interrupted",
      lost: true,
      needsPerson: true,
      resume: { can: "no", kept: [], runs: [] },
    });
    expect((await answersOf(at.saver, report)).resume).toMatchObject({
      headline: "There is nothing to resume",
      text: expect.stringContaining("start it again with its input") as string,
      command: null,
    });
    const { resume } = await CheckpointFile.fromThread(at.saver, "t");
    expect(resume).toMatchObject({ nextPhase: "lost", nextStep: "start it again with its input", canResume: false });
    expect(at.warnings).toEqual([]);
    const result = await runner.resume({ threadId: "t", input: { log: ["in"] } });
    expect(result.log).toEqual([...(isLater ? ["one", "a", "b"] : []), "in", "a", "b"]);
    expect((await at.saver.turns.tasks("t")).map(({ taskId }) => taskId)).toEqual(isLater ? ["one", "lost"] : ["lost"]);
    expect(await runner.status("t")).toMatchObject({ finished: true, inFlight: [] });
    expect(await reportOf(at.saver, "t")).toMatchObject({ state: "finished", lost: false, needsPerson: false });
    at.saver.close();
  });
});
