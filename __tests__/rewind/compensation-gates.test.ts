import { internalsOf } from "../../src/testing-internal";
import { START, StateGraph } from "@langchain/langgraph";
import { GraphRunner, type GraphRunnerOptions, type TurnSaver } from "langgraph-checkpoint-turns";
import { closeAll, Deeds, fresh, Log, open, refusal, thread } from "../support/eff-world";
import { choresOn, config, doing, undoing, undone, undosNamed, undosOf } from "../support/undo-world";

afterEach(closeAll);

const pause = (ms: number) => new Promise((resolve) => setTimeout(resolve, ms));

/** first → (judged ∥ sibling) → last, each with an effect; the sibling takes as long as it is told. */
function fork(saver: TurnSaver, ledger: Deeds, siblingMs: number) {
  const node = (name: string, ms: number) => async () => {
    const done = await doing(ledger, { name });
    await pause(ms);
    return { log: [done] };
  };
  return new StateGraph(Log)
    .addNode("first", node("first", 0))
    .addNode("judged", node("judged", siblingMs > 0 ? 0 : 30))
    .addNode("sibling", node("sibling", siblingMs))
    .addNode("last", node("last", 0))
    .addEdge(START, "first")
    .addEdge("first", "judged")
    .addEdge("first", "sibling")
    .addEdge(["judged", "sibling"], "last")
    .compile({ checkpointer: saver });
}

function judging(verdicts: number[], undos: GraphRunnerOptions["undos"]): GraphRunnerOptions {
  const validate = (): number => verdicts.shift() ?? 1;
  return { undos, nodes: { judged: { validate, onFailure: "rollback" } } };
}

const inTurns = (ledger: Deeds, name: string): string[] => ledger.lines().filter((line) => line.endsWith(` ${name}`));

describe("S3.4 S3.5 a gate that rolls back", () => {
  test.each([
    ["has ended", 0],
    ["is still at work", 200],
  ])("S3.4 S3.5 undoes its node's effects and those of a parallel node that %s, and both run again", async (_, siblingMs) => {
    const ledger = new Deeds();
    const saver = open(fresh());
    const runner = new GraphRunner(fork(saver, ledger, siblingMs), judging([0.1], undosOf(ledger)));
    const { log } = await runner.invoke({ log: [] }, { threadId: "t" });
    expect(log).toHaveLength(4);
    expect(inTurns(ledger, "judged")).toEqual(["do judged", "undo judged", "do judged"]);
    expect(inTurns(ledger, "sibling")).toEqual(["do sibling", "undo sibling", "do sibling"]);
    expect(inTurns(ledger, "first")).toEqual(["do first"]);
    expect(inTurns(ledger, "last")).toEqual(["do last"]);
    expect(await saver.rewinds.list("t")).toMatchObject([{ status: "done", reason: expect.stringMatching(/^gate:/) }]);
    expect((await saver.effects.list("t")).map(({ name }) => name).toSorted()).toEqual(["first", "judged", "last", "sibling"]);
    expect(await saver.turns.isRunning("t")).toBe(false);
  });

  test("S3.4 S3.5 a gap refuses the rollback, and nothing is undone", async () => {
    const ledger = new Deeds();
    const saver = open(fresh());
    const runner = new GraphRunner(fork(saver, ledger, 0), judging([0.1], []));
    expect(await refusal(runner.invoke({ log: [] }, { threadId: "t" }))).toMatchObject({ code: "EFFECT_UNCOMPENSATED" });
    expect(undone(ledger)).toEqual([]);
    expect(await saver.rewinds.unfinished("t")).toBeUndefined();
    expect(await saver.turns.isRunning("t")).toBe(false);
  });

  test("S3.4 S3.5 an undo that fails stops the run; finishRewind and resume continue, and the rollback counts once", async () => {
    const ledger = new Deeds();
    const saver = open(fresh());
    const broken = { now: true };
    const undos = undosNamed({
      back: (call) => {
        if (broken.now && call.input.what === "judged") throw new Error("no way back");
        undoing(ledger)(call);
      },
    });
    const runner = new GraphRunner(fork(saver, ledger, 0), judging([0.1], undos));
    expect(await refusal(runner.invoke({ log: [] }, { threadId: "t" }))).toMatchObject({ code: "UNDO_FAILED" });
    expect(await saver.turns.isRunning("t")).toBe(false);
    expect(await refusal(runner.resume({ threadId: "t" }))).toMatchObject({ code: "REWIND_UNFINISHED" });
    broken.now = false;
    await runner.finishRewind({ threadId: "t" });
    expect((await runner.resume({ threadId: "t" })).log).toHaveLength(4);
    expect(undone(ledger).toSorted()).toEqual(["judged", "sibling"]);
    const [rewind] = await saver.rewinds.list("t");
    expect(await internalsOf(saver).countRewinds("t", rewind!.reason!)).toBe(1);
  });
});

describe("S3.5 a rewind to a checkpoint", () => {
  test("S3.5 undoes what was done on its grounds and later, and keeps the checkpoint with its input", async () => {
    const ledger = new Deeds();
    const saver = open(fresh());
    const graph = saver.attach(fork(saver, ledger, 0));
    await graph.invoke({ log: [] }, config("a"));
    const turns = await saver.turns.list("t");
    const { checkpointId } = turns.find(({ nodeName }) => nodeName === "judged") as { checkpointId: string };
    const report = await saver.rewinds.toCheckpoint({ threadId: "t", checkpointId, reason: "test" }, undosOf(ledger));
    expect(undone(ledger)[0]).toBe("last");
    expect(undone(ledger).toSorted()).toEqual(["judged", "last", "sibling"]);
    expect(report).toMatchObject({ toTask: "a", tasks: ["a"], removed: { effects: 3 } });
    const state = await graph.getState(thread());
    expect(state.config.configurable!["checkpoint_id"]).toBe(checkpointId);
    expect(state.next.toSorted()).toEqual(["judged", "sibling"]);
    expect((await graph.invoke(null, thread())).log).toHaveLength(4);
    expect(ledger.count("do first")).toBe(1);
  });

  test("S3.5 one that does not exist is refused by name", async () => {
    const saver = open(fresh());
    const request = { threadId: "t", checkpointId: "nothing", reason: "test" };
    expect(await refusal(saver.rewinds.toCheckpoint(request))).toMatchObject({ code: "THREAD_NOT_FOUND" });
    await choresOn(saver, new Deeds()).invoke({ deeds: [] }, config("a"));
    expect(await refusal(saver.rewinds.toCheckpoint(request))).toMatchObject({ code: "CHECKPOINT_NOT_FOUND" });
    expect(await refusal(saver.rewinds.toCheckpoint({ ...request, reason: "" }))).toMatchObject({ code: "INVALID_OPTION" });
  });
});
