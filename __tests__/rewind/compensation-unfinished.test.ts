import { GraphRunner, type TurnSaver, type UndoCall } from "langgraph-checkpoint-turns";
import { OpenWork, TurnRecorder } from "../../src/testing-internal";
import { attached, closeAll, Deeds, fresh, line, open, refusal, thread } from "../support/eff-world";
import { rowsOfThread, sqlOn } from "../support/s1-tools";
import { choresOn, config, deeds, doing, stateRows, undoing, undone, undosOf, undosNamed } from "../support/undo-world";

afterEach(closeAll);

const TO_A = { threadId: "t", toTask: "a" };

/** Tasks a, b and c with the effects one (a), two, three (b) and four (c). */
async function lived(path = fresh()) {
  const ledger = new Deeds();
  const saver = open(path);
  const graph = choresOn(saver, ledger);
  await graph.invoke({ deeds: deeds("one") }, config("a"));
  await graph.invoke({ deeds: deeds("two", "three") }, config("b"));
  await graph.invoke({ deeds: deeds("four") }, config("c"));
  const broken = new Set<string>();
  const undos = {
    back: (call: UndoCall) => {
      if (broken.has((call.input as { what: string }).what)) throw new Error("no way back");
      undoing(ledger)(call);
    },
  };
  return { ledger, saver, graph, path, broken, undos };
}

/** The same, and a rewind to task a that stopped at the undo of two. */
async function stopped(path = fresh()) {
  const world = await lived(path);
  world.broken.add("two");
  const { data } = await refusal(world.saver.rewind(TO_A, undosNamed(world.undos)));
  world.broken.clear();
  return { ...world, rewindId: data!["rewindId"] as string, effectId: data!["effectId"] as string };
}

describe("S3.5 while a rewind is unfinished", () => {
  test("S3.5 no run begins: neither by a runner nor by the attached graph itself, nor in another process's saver", async () => {
    const { saver, graph, rewindId, path, ledger } = await stopped();
    const before = stateRows(path);
    const runner = new GraphRunner(graph, { undos: undosOf(ledger) });
    const other = choresOn(open(path), ledger);
    const input = { deeds: deeds("more") };
    for (const attempt of [
      () => runner.invoke(input, { threadId: "t" }),
      () => runner.resume({ threadId: "t" }),
      async () => {
        for await (const _ of await runner.stream(input, { threadId: "t" })) expect(_).toBe("nothing");
      },
      () => graph.invoke(input, thread()),
      () => graph.invoke(null, thread()),
      () => other.invoke(input, thread()),
    ]) {
      expect(await refusal(attempt())).toMatchObject({ code: "REWIND_UNFINISHED", data: { rewindId } });
    }
    expect(stateRows(path)).toEqual(before);
    expect(await saver.turns.liveRuns("t")).toEqual([]);
    await runner.finishRewind({ threadId: "t" });
    expect(undone(ledger)).toEqual(["four", "three", "two"]);
    await runner.invoke({ deeds: deeds("more") }, { threadId: "t" });
    expect(ledger.count("do more")).toBe(1);
  });

  test("S3.5 no body begins in a graph that a node of another thread calls there", async () => {
    const { saver, graph, ledger, rewindId } = await stopped();
    const outer = attached(saver, line({ call: async () => void (await graph.invoke({ deeds: deeds("more") }, thread())) }));
    expect(await refusal(outer.invoke({ log: [] }, config("x", "other")))).toMatchObject({
      code: "REWIND_UNFINISHED",
      data: { rewindId },
    });
    expect(ledger.count("do more")).toBe(0);
    expect(await saver.turns.liveRuns("t")).toEqual([]);
    expect(await saver.turns.liveRuns("other")).toEqual([]);
  });

  test("S3.5 a refused run leaves nothing behind in the recorder: later runs of other threads are known as before", async () => {
    const { saver, graph } = await stopped();
    for (let round = 0; round < 3; round += 1) await refusal(graph.invoke({ deeds: [] }, thread()));
    await graph.invoke({ deeds: [] }, config("x", "other"));
    expect(await saver.turns.liveRuns("t")).toEqual([]);
    expect(await saver.turns.liveRuns("other")).toEqual([]);
    expect((await saver.turns.list("other")).map(({ turnType }) => turnType)).toEqual(["Thought", "Action"]);
  });

  test("S3.5 a rewind to another target is refused, its dry run too, and one that means the same continues", async () => {
    const { saver, undos, rewindId, ledger, path } = await stopped();
    const before = rowsOfThread(path, "t");
    const error = await refusal(saver.rewind({ threadId: "t", toTask: "b" }, undosNamed(undos)));
    expect(error).toMatchObject({ code: "REWIND_UNFINISHED", data: { rewindId, toTask: "a" } });
    expect(await refusal(saver.rewind({ threadId: "t", toTask: "c" }, undosNamed(undos)))).toMatchObject({
      code: "REWIND_UNFINISHED",
    });
    const dry = { threadId: "t", toTask: "b", dryRun: true };
    expect(await refusal(saver.rewind(dry, undosNamed(undos)))).toMatchObject({
      code: "REWIND_UNFINISHED",
      data: { rewindId, toTask: "a" },
    });
    expect(rowsOfThread(path, "t")).toEqual(before);
    expect(await saver.rewind(TO_A, undosNamed(undos))).toMatchObject({ rewindId });
    expect(undone(ledger)).toEqual(["four", "three", "two"]);
  });

  test("S3.5 nothing is pruned of the thread, so that the rewind can still go where it was going", async () => {
    const { saver, undos, graph, path, ledger } = await stopped();
    await graph.invoke({ deeds: [] }, config("x", "other"));
    await graph.invoke({ deeds: [] }, config("y", "other"));
    const before = rowsOfThread(path, "t");
    for (const dryRun of [false, true]) {
      const error = await refusal(saver.prune({ threadId: "t", keepLast: 1, dryRun }));
      expect(error).toMatchObject({ code: "REWIND_UNFINISHED" });
    }
    const report = await saver.prune({ keepLast: 1 });
    expect(report.failed).toMatchObject([{ threadId: "t", error: { code: "REWIND_UNFINISHED" } }]);
    expect(report.checkpoints).toBeGreaterThan(0);
    expect((await saver.prune({ idleMs: 0, threadId: "t" })).deletedThreads).toEqual([]);
    expect(rowsOfThread(path, "t")).toEqual(before);
    await saver.rewind(TO_A, undosNamed(undos));
    expect(undone(ledger)).toEqual(["four", "three", "two"]);
    expect(await saver.prune({ threadId: "t", keepLast: 1 })).toMatchObject({ done: true });
  });

  test("S3.5 a prune that was planned before the rewind began does nothing any more", async () => {
    const { saver, undos, path, ledger } = await lived();
    const slow = {
      back: async (call: UndoCall) => {
        await new Promise((resolve) => setTimeout(resolve, 20));
        undos.back(call);
      },
    };
    const pruned = saver.prune({ threadId: "t", keepLast: 1, batchSize: 1 });
    const rewound = saver.rewind(TO_A, undosNamed(slow));
    const [prune, rewind] = await Promise.allSettled([pruned, rewound]);
    // Whoever came first, the other one was refused: never is an effect undone for a rewind that cannot end any more.
    if (rewind.status === "rejected") {
      expect(rewind.reason).toMatchObject({ code: "CHECKPOINT_NOT_FOUND" });
      expect(undone(ledger)).toEqual([]);
      expect(prune.status).toBe("fulfilled");
    } else {
      expect(undone(ledger)).toEqual(["four", "three", "two"]);
      expect(await saver.rewinds.unfinished("t")).toBeUndefined();
    }
    expect(rowsOfThread(path, "t")["langgraph_runs"]).toEqual([]);
  });

  test("S3.5 checkpoints of single runs are not deleted either", async () => {
    const ledger = new Deeds();
    const path = fresh();
    const saver = open(path);
    const graph = choresOn(saver, ledger);
    await graph.invoke({ deeds: [] }, config("a"));
    await graph.invoke({ deeds: deeds("one") }, { ...config("b"), metadata: { run_id: "the run" } });
    const back = () => {
      throw new Error("no");
    };
    await refusal(saver.rewind(TO_A, undosNamed({ back })));
    const before = rowsOfThread(path, "t");
    expect(await refusal(saver.retention.deleteForRuns(["the run"]))).toMatchObject({
      code: "REWIND_UNFINISHED",
      message: expect.stringContaining('or saver.rewinds.finish({"threadId":"t"}), which continues where it was;') as string,
    });
    expect(rowsOfThread(path, "t")).toEqual(before);
  });

  test("S3.5 updateState is saved, and goes with all else behind the target", async () => {
    const { saver, graph, undos, rewindId } = await stopped();
    await graph.updateState(thread(), { log: ["by hand"] }, "chores");
    expect((await graph.getState(thread())).values.log.at(-1)).toBe("by hand");
    const report = await saver.rewind(TO_A, undosNamed(undos));
    expect(report.rewindId).toBe(rewindId);
    expect((await graph.getState(thread())).values.log).toHaveLength(1);
  });

  test("S3.5 a rewind that was done before cannot be taken back meanwhile", async () => {
    const { saver, graph, ledger, undos, broken } = await lived();
    const { rewindId } = await saver.rewind({ threadId: "t", toTask: "b" }, undosNamed(undos));
    await graph.invoke({ deeds: deeds("five") }, config("d"));
    broken.add("five");
    await refusal(saver.rewind(TO_A, undosNamed(undos)));
    expect(await refusal(saver.rewinds.takeBack(rewindId!, { despiteUndone: true }))).toMatchObject({
      code: "REWIND_UNFINISHED",
    });
    expect(undone(ledger)).toEqual(["four"]);
  });

  test("S3.5 deleting the thread ends it; the id may start from scratch", async () => {
    const { saver, graph, ledger, path } = await stopped();
    await saver.deleteThread("t");
    expect(await saver.rewinds.unfinished("t")).toBeUndefined();
    expect(rowsOfThread(path, "t")["langgraph_rewinds"]).toEqual([]);
    await graph.invoke({ deeds: deeds("anew") }, config("z"));
    expect(ledger.count("do anew")).toBe(1);
  });

  test("S3.5 the thread is not copied; once it is given up, the copy has nothing of the rewind", async () => {
    const { saver, graph, ledger, undos } = await stopped();
    expect(await refusal(saver.copyThread("t", "copy"))).toMatchObject({ code: "REWIND_UNFINISHED" });
    await saver.rewinds.abandon((await saver.rewinds.unfinished("t"))!.id);
    await saver.copyThread("t", "copy");
    expect(await saver.rewinds.unfinished("copy")).toBeUndefined();
    await graph.invoke({ deeds: deeds("more") }, config("d", "copy"));
    await saver.rewind({ threadId: "copy", toTask: "a" }, undosNamed(undos));
    expect(undone(ledger)).toEqual(["four", "three", "more"]);
  });
});

describe("S3.5 while undos are running", () => {
  /** A rewind that stands in the undo of `four` until `go` is called. */
  async function halfway() {
    const world = await lived();
    let go = (): void => undefined;
    let reached = (): void => undefined;
    const waits = new Promise<void>((resolve) => (go = resolve));
    const there = new Promise<void>((resolve) => (reached = resolve));
    const back = async (call: UndoCall): Promise<void> => {
      reached();
      await waits;
      world.undos.back(call);
    };
    const rewound = world.saver.rewind(TO_A, undosNamed({ back }));
    rewound.catch(() => undefined);
    await there;
    return { ...world, go, rewound };
  }

  test("S3.5 runs and other rewinds are refused, in the same saver and in another one", async () => {
    const { saver, graph, path, go, rewound, undos, ledger } = await halfway();
    const other = open(path);
    const otherGraph = choresOn(other, ledger);
    const unfinished = (await saver.rewinds.unfinished("t"))!;
    expect(await refusal(graph.invoke({ deeds: [] }, thread()))).toMatchObject({ code: "THREAD_RUNNING" });
    expect(await refusal(otherGraph.invoke({ deeds: [] }, thread()))).toMatchObject({ code: "REWIND_UNFINISHED" });
    for (const one of [saver, other]) {
      expect(await refusal(one.rewind(TO_A, undosNamed(undos)))).toMatchObject({ code: "THREAD_RUNNING" });
      expect(await refusal(one.rewinds.finish({ threadId: "t" }, undosNamed(undos)))).toMatchObject({ code: "THREAD_RUNNING" });
      expect(await refusal(one.rewinds.abandon(unfinished.id))).toMatchObject({ code: "THREAD_RUNNING" });
      expect(await one.turns.isRunning("t")).toBe(true);
    }
    go();
    await rewound;
    expect(undone(ledger)).toEqual(["four", "three", "two"]);
    expect(await saver.turns.isRunning("t")).toBe(false);
  });

  test("S3.5 an undo that takes longer than an idle run lives keeps the thread", async () => {
    const { saver, go, rewound } = await halfway();
    await new Promise((resolve) => setTimeout(resolve, 3_500));
    expect(await saver.turns.isRunning("t")).toBe(true);
    go();
    await rewound;
  });

  test("S3.5 a thread that is deleted during it is told, and nothing of it reappears", async () => {
    const { saver, path, go, rewound, ledger } = await halfway();
    await saver.deleteThread("t");
    go();
    const error = await refusal(rewound);
    expect(error).toMatchObject({ code: "THREAD_DELETED" });
    expect(error.message).toContain("This effect was undone");
    expect(undone(ledger)).toEqual(["four"]);
    const { langgraph_tombstones: _, ...rows } = rowsOfThread(path, "t");
    expect(Object.values(rows).flat()).toEqual([]);
  });

  test("S3.5 updateState on the way is not deleted unseen: the rewind stops, and the next call continues", async () => {
    const { saver, graph, go, rewound, undos, ledger } = await halfway();
    await graph.updateState({ configurable: { thread_id: "t", task_id: "by hand" } }, { log: ["by hand"] }, "chores");
    go();
    expect(await refusal(rewound)).toMatchObject({ code: "STATE_INVARIANT_VIOLATED" });
    expect((await graph.getState(thread())).values.log.at(-1)).toBe("by hand");
    const report = await saver.rewind(TO_A, undosNamed(undos));
    expect(report.tasks).toEqual(["b", "c", "by hand"]);
    expect(undone(ledger)).toEqual(["four", "three", "two"]);
  });
});

describe("S3.5 giving a rewind up", () => {
  test("S3.5 keeps the state; what was undone is done again with another key, and nothing is undone twice", async () => {
    const { saver, graph, ledger, undos, rewindId, path } = await stopped();
    const before = stateRows(path);
    await saver.rewinds.abandon(rewindId);
    expect(stateRows(path)).toEqual(before);
    expect(await saver.rewinds.unfinished("t")).toBeUndefined();
    expect(await saver.rewinds.list("t")).toMatchObject([{ id: rewindId, status: "abandoned" }]);
    await graph.invoke({ deeds: deeds("five") }, config("d"));
    const report = await saver.rewind(TO_A, undosNamed(undos));
    expect(report.rewindId).not.toBe(rewindId);
    expect(undone(ledger)).toEqual(["four", "three", "five", "two"]);
    expect(report.effects.undoneBefore.map(({ name }) => name)).toEqual(["four", "three"]);
  });

  test("S3.5 a node that runs again after it does the undone side effect again", async () => {
    const ledger = new Deeds();
    const saver = open(fresh());
    const fails = { now: true };
    const graph = attached(
      saver,
      line({
        start: () => ({ log: ["start"] }),
        work: async () => {
          const log = [await doing(ledger, { name: "one" }), await doing(ledger, { name: "two" })];
          if (fails.now) throw new Error("after the deeds");
          return { log };
        },
      }),
    );
    await graph.invoke({ log: [] }, config("a")).catch(() => undefined);
    fails.now = false;
    const back = (call: UndoCall) => {
      if ((call.input as { what: string }).what === "one") throw new Error("no way back");
      undoing(ledger)(call);
    };
    const { checkpointId } = (await saver.turns.list("t")).find(({ nodeName }) => nodeName === "work") as {
      checkpointId: string;
    };
    const { data } = await refusal(
      saver.rewinds.toCheckpoint({ threadId: "t", checkpointId, reason: "test" }, undosNamed({ back })),
    );
    await saver.rewinds.abandon(data!["rewindId"] as string);
    await graph.invoke(null, thread());
    expect(ledger.lines()).toEqual(["do one", "do two", "undo two", "do two"]);
    const [first, second] = (await saver.effects.list("t")).filter(({ name }) => name === "two");
    expect(first!.key).not.toBe(second!.key);
  });

  test("S3.5 only an unfinished one can be given up, and none whose undo is in doubt", async () => {
    const { saver, rewindId, undos } = await stopped();
    expect(await refusal(saver.rewinds.abandon("nothing"))).toMatchObject({ code: "REWIND_NOT_FOUND" });
    await saver.rewinds.abandon(rewindId);
    expect(await refusal(saver.rewinds.abandon(rewindId))).toMatchObject({ code: "REWIND_CONFLICT" });
    expect(await refusal(saver.rewinds.takeBack(rewindId))).toMatchObject({ code: "REWIND_CONFLICT" });
    const done = await saver.rewind(TO_A, undosNamed(undos));
    expect(await refusal(saver.rewinds.abandon(done.rewindId!))).toMatchObject({ code: "REWIND_CONFLICT" });
  });
});

test("S3.5 a run that is refused as it begins is forgotten by the recorder, so that its id can come again", async () => {
  const started: string[] = [];
  const refuses = { now: true };
  const sink = {
    deletionOf: async () => undefined,
    graphStarts: async (_threadId: string, runId: string) => {
      started.push(runId);
      if (refuses.now) throw new Error("refused");
    },
    graphEnds: async (_threadId: string, runId: string) => void started.push(`end of ${runId}`),
  };
  const recorder = new TurnRecorder(sink as never, new OpenWork());
  const run = { runId: "r", parentRunId: undefined, tags: [], metadata: { thread_id: "t" }, runName: "graph" };
  await expect(recorder.chainStarts(undefined, {}, run)).rejects.toThrow("refused");
  // LangGraph reports no end of it.
  refuses.now = false;
  await recorder.chainStarts(undefined, {}, run);
  await recorder.chainEnds("r", "ok", {});
  expect(started).toEqual(["r", "r", "end of r"]);
});

describe("S3.5 somebody who takes a live rewind for dead, as another host may", () => {
  /** Undoes `four`, in the course of which the mark of the rewinding process runs out and `meanwhile` happens; then goes on. */
  async function overtaken(meanwhile: (other: TurnSaver, ledger: Deeds) => Promise<void>) {
    const { saver, path, ledger } = await lived();
    const other = open(path);
    const undoesOnce = {
      run: async (call: UndoCall) => {
        undoing(ledger)(call);
        if ((call.input as { what: string }).what !== "four") return;
        sqlOn(path, "UPDATE langgraph_runs SET host = 'elsewhere', beat_at = 0");
        await meanwhile(other, ledger);
      },
      probe: (call: UndoCall) => undone(ledger).includes((call.input as { what: string }).what),
    };
    return {
      saver,
      path,
      ledger,
      undos: { back: undoesOnce },
      error: await refusal(saver.rewind(TO_A, undosNamed({ back: undoesOnce }))),
    };
  }

  test("S3.5 and continues with it: what that one undid is not undone again", async () => {
    const { error, ledger, saver, undos } = await overtaken(async (other, deedsDone) => {
      const back = (call: UndoCall) => {
        if ((call.input as { what: string }).what === "two") throw new Error("no way back");
        undoing(deedsDone)(call);
      };
      const probe = () => true;
      await refusal(other.rewind(TO_A, undosNamed({ back: { run: back, probe } })));
    });
    expect(error).toMatchObject({ code: "LEASE_LOST" });
    expect(undone(ledger)).toEqual(["four", "three"]);
    await saver.rewind(TO_A, undosNamed(undos));
    expect(undone(ledger)).toEqual(["four", "three", "two"]);
  });

  test("S3.5 and gives it up: nothing more is undone", async () => {
    const { error, ledger, saver } = await overtaken(async (other) => {
      const { id } = (await other.rewinds.unfinished("t"))!;
      const { data } = await refusal(other.rewinds.abandon(id));
      await other.effects.resolve(data!["effectId"] as string, { undo: "done" });
      await other.rewinds.abandon(id);
    });
    expect(error).toMatchObject({ code: "LEASE_LOST" });
    expect(undone(ledger)).toEqual(["four"]);
    expect(await saver.rewinds.unfinished("t")).toBeUndefined();
    expect(await saver.effects.list("t")).toHaveLength(4);
  });
});
