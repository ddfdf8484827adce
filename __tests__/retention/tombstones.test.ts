import { BaseCallbackHandler } from "@langchain/core/callbacks/base";
import { AIMessage } from "@langchain/core/messages";
import { FakeListChatModel } from "@langchain/core/utils/testing";
import { Annotation, Command, END, entrypoint, interrupt, START, StateGraph, task } from "@langchain/langgraph";
import { GraphRunner, type TurnSaver, type TurnSaverOptions } from "langgraph-checkpoint-turns";
import { chain, Log } from "../support/s1-graph";
import { quiet, rowsOfThread } from "../support/s1-tools";
import { tempFile } from "../support/temp";
import { pairs, points } from "../support/lane";
import { laneTest, longTest } from "../support/lane-test";
import { openSaver } from "../support/open-saver";

let path: string;
let saver: TurnSaver;
const savers: TurnSaver[] = [];
beforeEach(() => {
  path = tempFile();
  saver = open();
});
afterEach(() => {
  for (const opened of savers.splice(0)) opened.close();
});

function open(options: TurnSaverOptions = {}): TurnSaver {
  const opened = openSaver(path, { logger: quiet, ...options });
  savers.push(opened);
  return opened;
}

type Durability = "async" | "sync" | "exit";
const at = (threadId = "x", more: object = {}): any => ({ configurable: { thread_id: threadId }, ...more });

/** All that the thread has, but for the marks of processes at work. */
function rows(threadId = "x"): Record<string, unknown[]> {
  const { langgraph_runs: _, ...all } = rowsOfThread(path, threadId);
  return all;
}
const isEmpty = (all: Record<string, unknown[]>): boolean =>
  Object.entries(all).every(([table, found]) => table === "langgraph_tombstones" || found.length === 0);

/** Holds whoever waits at it until it is opened. */
function gate(): { arrived: Promise<void>; wait: () => Promise<void>; open: () => void } {
  let open = (): void => undefined;
  let arrive = (): void => undefined;
  const opened = new Promise<void>((resolve) => (open = resolve));
  const arrived = new Promise<void>((resolve) => (arrive = resolve));
  return { arrived, open, wait: async () => (arrive(), opened) };
}

const model = new FakeListChatModel({ responses: ["spoken"] });
model._generate = async () => {
  const message = new AIMessage({ content: "spoken", usage_metadata: { input_tokens: 7, output_tokens: 3, total_tokens: 10 } });
  return { generations: [{ text: "spoken", message }] };
};

/** pre → plain (a graph) → memo (a graph with a memory of its own) → post. A run whose input is "old" waits where `stop` says. */
function nested(on: TurnSaver, stop: string, held: ReturnType<typeof gate>): any {
  const node =
    (name: string) =>
    async (state: { log: string[] }): Promise<{ log: string[] }> => {
      const isOld = state.log[0] === "old";
      if (isOld && name === stop) await held.wait();
      await model.invoke("speak");
      return { log: [isOld ? `SECRET ${name} ${"·".repeat(200)}` : name] };
    };
  const inner = (name: string): any =>
    new StateGraph(Log)
      .addNode(`${name}1`, node(`${name}1`))
      .addNode(`${name}2`, node(`${name}2`))
      .addEdge(START, `${name}1`)
      .addEdge(`${name}1`, `${name}2`)
      .addEdge(`${name}2`, END);
  return new StateGraph(Log)
    .addNode("pre", node("pre"))
    .addNode("plain", inner("plain").compile())
    .addNode("memo", inner("memo").compile({ checkpointer: true }))
    .addNode("post", node("post"))
    .addEdge(START, "pre")
    .addEdge("pre", "plain")
    .addEdge("plain", "memo")
    .addEdge("memo", "post")
    .addEdge("post", END)
    .compile({ checkpointer: on });
}

const settled = (run: Promise<unknown>): Promise<unknown> => run.catch((error: unknown) => error);

describe("S3.7 a late run of a deleted thread", () => {
  const cases = (["async", "sync", "exit"] as const).flatMap((durability) =>
    [true, false].flatMap((attached) =>
      ["pre", "plain1", "plain2", "memo1", "memo2", "post"].map((stop) => [durability, attached, stop] as const),
    ),
  );

  laneTest.each(points(cases, 6))(
    "S3.7 writes nothing under the id: durability %s, attached %s, running in %s",
    async (durability, attached, stop) => {
      saver.close();
      // Nothing stops the run: each of its late saves has to be refused by itself.
      saver = open({ onCheckpointError: "continue", onTurnError: "continue" });
      const held = gate();
      const graph = nested(saver, stop, held);
      if (attached) saver.attach(graph);
      const late = settled(graph.invoke({ log: ["old"] }, at("x", { durability })));
      await held.arrived;
      await saver.deleteThread("x");
      held.open();
      await late;
      expect(isEmpty(rows())).toBe(true);
    },
  );

  laneTest.each(points(cases, 6))(
    "S3.7 writes nothing into the thread that has begun: durability %s, attached %s, running in %s",
    async (durability, attached, stop) => {
      saver.close();
      saver = open({ onCheckpointError: "continue", onTurnError: "continue" });
      const held = gate();
      const graph = nested(saver, stop, held);
      if (attached) saver.attach(graph);
      const late = settled(graph.invoke({ log: ["old"] }, at("x", { durability })));
      await held.arrived;
      await saver.deleteThread("x");
      await graph.invoke({ log: ["new"] }, at("x", { durability }));
      const before = rows();
      held.open();
      await late;
      expect(rows()).toEqual(before);
      expect((await saver.getTuple(at()))!.checkpoint.channel_values["log"]).toEqual(expect.arrayContaining(["new", "post"]));
      expect((await saver.turns.list("x")).length).toBe(attached ? 16 : (await saver.turns.list("x")).length);
    },
  );

  test("S3.7 is told so, and its turns are not shown", async () => {
    const held = gate();
    const graph = saver.attach(nested(saver, "plain1", held) as object) as any;
    const late = settled(graph.invoke({ log: ["old"] }, at()));
    await held.arrived;
    await saver.deleteThread("x");
    await graph.invoke({ log: ["new"] }, at());
    held.open();
    expect(await late).toMatchObject({ code: "THREAD_DELETED" });
    const states = await Promise.all((await saver.turns.list("x")).map((turn) => saver.turns.state(turn)));
    expect(JSON.stringify(states)).not.toContain("SECRET");
    expect((await saver.turns.list("x")).length).toBe(16);
  });

  test.each(["async", "exit"] as const)(
    "S3.7 deleted and started from scratch by another saver on the file, durability %s",
    async (durability) => {
      const held = gate();
      const graph = saver.attach(nested(saver, "pre", held) as object) as any;
      const late = settled(graph.invoke({ log: ["old"] }, at("x", { durability })));
      await held.arrived;
      const other = open();
      await other.deleteThread("x");
      await (other.attach(nested(other, "", gate()) as object) as any).invoke({ log: ["new"] }, at("x", { durability }));
      const before = rows();
      held.open();
      expect(await late).toMatchObject({ code: "THREAD_DELETED" });
      expect(rows()).toEqual(before);
    },
  );

  longTest("S3.7 does not depend on the clock: it stands still, and it goes back", async () => {
    for (const later of [0, -3_600_000]) {
      let now = Date.now();
      const timed = open({ clock: () => new Date(now) });
      const held = gate();
      const graph = timed.attach(nested(timed, "pre", held) as object) as any;
      const threadId = `clock ${later}`;
      const late = settled(graph.invoke({ log: ["old"] }, at(threadId)));
      await held.arrived;
      await timed.deleteThread(threadId);
      now += later;
      await graph.invoke({ log: ["new"] }, at(threadId, { durability: "exit" }));
      await timed.deleteThread(threadId);
      await graph.invoke({ log: ["new"] }, at(threadId));
      const before = rows(threadId);
      held.open();
      expect(await late).toMatchObject({ code: "THREAD_DELETED" });
      expect(rows(threadId)).toEqual(before);
    }
  });

  test("S3.7 does not take the new run's task from it", async () => {
    const held = gate();
    const graph = saver.attach(nested(saver, "pre", held) as object) as any;
    const late = settled(graph.invoke({ log: ["old"] }, at("x", { durability: "exit" })));
    await held.arrived;
    await saver.deleteThread("x");
    // The old node ends between the new run's beginning and its first Thought.
    const begun = graph.withConfig({
      callbacks: [
        BaseCallbackHandler.fromMethods({
          async handleChainStart(_chain, _inputs, _runId, parentRunId) {
            if (parentRunId !== undefined) return;
            held.open();
            await new Promise((resolve) => setTimeout(resolve, 50));
          },
        }),
      ],
    });
    await begun.invoke(
      { log: ["new"] },
      { ...at("x", { durability: "exit" }), configurable: { thread_id: "x", task_id: "mine" } },
    );
    expect((await saver.turns.tasks("x")).map(({ taskId }) => taskId)).toEqual(["mine"]);
    expect((await saver.turns.list("x")).map(({ taskId }) => taskId)).toEqual(Array(16).fill("mine"));
    expect(await late).toMatchObject({ code: "THREAD_DELETED" });
  });

  test.each(["async", "exit"] as const)("S3.7 of a functional entrypoint, durability %s", async (durability) => {
    const held = gate();
    const first = task("first", async (word: string) => {
      if (word === "old") await held.wait();
      return `${word} first`;
    });
    const second = task("second", async (word: string) => `${word} second`);
    const program: any = saver.attach(
      entrypoint({ name: "program", checkpointer: saver }, async (word: string) => second(await first(word))),
    );
    const late = settled(program.invoke("old", at("x", { durability })));
    await held.arrived;
    await saver.deleteThread("x");
    expect(await program.invoke("new", at("x", { durability }))).toBe("new first second");
    const before = rows();
    held.open();
    expect(await late).toMatchObject({ code: "THREAD_DELETED" });
    expect(rows()).toEqual(before);
    expect(await program.invoke("again", at("x", { durability }))).toBe("again first second");
  });

  test("S3.7 that waits for a person when the thread goes is not continued", async () => {
    const graph: any = saver.attach(
      new StateGraph(Log)
        .addNode("ask", () => ({ log: [interrupt<string, string>("?")] }))
        .addEdge(START, "ask")
        .addEdge("ask", END)
        .compile({ checkpointer: saver }),
    );
    for (const durability of ["async", "exit"] as const) {
      await graph.invoke({ log: ["old"] }, at("x", { durability }));
      await saver.deleteThread("x");
      await settled(graph.invoke(new Command({ resume: "yes" }), at("x", { durability })));
      expect(JSON.stringify(rows())).not.toContain("old");
      await saver.deleteThread("x");
    }
  });
});

describe("S3.7 a new beginning under a deleted id", () => {
  const cases = pairs(["async", "sync", "exit"] as const, [true, false]);

  laneTest.each(cases)("S3.7 is a thread of its own: durability %s, attached %s", async (durability, attached) => {
    const graph = nested(saver, "", gate());
    if (attached) saver.attach(graph);
    const run = async (on = graph): Promise<unknown> => (await on.invoke({ log: ["new"] }, at("x", { durability }))).log;
    const [first, second] = [await run(), await run()];
    await saver.deleteThread("x");
    expect([await run(), await run()]).toEqual([first, second]);
    await saver.deleteThread("x");
    saver.close();
    saver = open();
    const again = nested(saver, "", gate());
    if (attached) saver.attach(again);
    expect([await run(again), await run(again)]).toEqual([first, second]);
    expect((await again.getState(at())).values.log).toEqual(second);
  });

  test.each(cases)(
    "S3.7 a graph on a thread of its own that a node deletes: durability %s, attached %s",
    async (durability, attached) => {
      const own: any = nested(saver, "", gate());
      const states: number[] = [];
      const outer: any = new StateGraph(Log)
        .addNode("work", async () => {
          for (let i = 0; i < 2; i++) {
            await own.invoke({ log: ["new"] }, at("scratch"));
            await own.invoke({ log: ["new"] }, at("scratch"));
            const { log } = await own.invoke({ log: ["new"] }, at("scratch"));
            states.push(log.filter((word: string) => word === "new").length);
            await saver.deleteThread("scratch");
          }
          return { log: ["work"] };
        })
        .addEdge(START, "work")
        .addEdge("work", END)
        .compile({ checkpointer: saver });
      if (attached) saver.attach(outer);
      for (let i = 0; i < 2; i++) expect((await outer.invoke({ log: [] }, at("x", { durability }))).log.length).toBe(i + 1);
      expect(states.length).toBe(4);
      expect(isEmpty(rows("scratch"))).toBe(true);
    },
  );

  test.each(cases)(
    "S3.7 a graph on a thread of its own that is deleted and started from scratch meanwhile: durability %s, attached %s",
    async (durability, attached) => {
      saver.close();
      saver = open({ onCheckpointError: "continue", onTurnError: "continue" });
      const held = gate();
      const own: any = nested(saver, "plain1", held);
      const outer: any = new StateGraph(Log)
        .addNode("work", async (state) => {
          await own.invoke({ log: state.log }, at("scratch"));
          return {};
        })
        .addEdge(START, "work")
        .addEdge("work", END)
        .compile({ checkpointer: saver });
      if (attached) saver.attach(outer);
      const late = outer.invoke({ log: ["old"] }, at("x", { durability }));
      await held.arrived;
      await saver.deleteThread("scratch");
      await own.invoke({ log: ["new"] }, at("scratch"));
      const before = rows("scratch");
      held.open();
      await late;
      expect(rows("scratch")).toEqual(before);
      expect((await outer.getState(at("x"))).values).toEqual({ log: ["old"] });
    },
  );

  test("S3.7 a late node that reads the new state is late still", async () => {
    saver.close();
    saver = open({ onCheckpointError: "continue", onTurnError: "continue" });
    const held = gate();
    const memo = new StateGraph(Log)
      .addNode("m", () => ({ log: ["SECRET"] }))
      .addEdge(START, "m")
      .addEdge("m", END);
    const graph: any = saver.attach(
      new StateGraph(Log)
        .addNode("look", async (state, config) => {
          if (state.log[0] === "new") return {};
          await held.wait();
          await graph.getState(config);
          await graph.getState(at());
          return {};
        })
        .addNode("memo", memo.compile({ checkpointer: true }))
        .addEdge(START, "look")
        .addEdge("look", "memo")
        .addEdge("memo", END)
        .compile({ checkpointer: saver }),
    );
    const late = settled(graph.invoke({ log: ["old"] }, at("x", { durability: "exit" })));
    await held.arrived;
    await saver.deleteThread("x");
    await graph.invoke({ log: ["new"] }, at());
    const before = rows();
    held.open();
    await late;
    expect(rows()).toEqual(before);
  });

  test("S3.7 GraphRunner, updateState, and a copy", async () => {
    const graph = chain(saver);
    const runner = new GraphRunner(graph);
    await runner.invoke({ log: ["old"] }, { threadId: "x" });
    await saver.deleteThread("x");
    expect(await runner.invoke({ log: ["new"] }, { threadId: "x" })).toEqual({ log: ["new", "a", "b", "c"] });
    await saver.deleteThread("x");
    await graph.updateState(at(), { log: ["by hand"] }, "a");
    expect((await graph.getState(at())).values).toEqual({ log: ["by hand"] });
    expect(await runner.resume({ threadId: "x" })).toEqual({ log: ["by hand", "b", "c"] });
    await saver.deleteThread("x");
    await runner.invoke({ log: ["source"] }, { threadId: "source" });
    await saver.copyThread("source", "x");
    await graph.updateState(at(), { log: ["by hand"] }, "c");
    expect(await runner.invoke({ log: ["more"] }, { threadId: "x" })).toEqual({
      log: ["source", "a", "b", "c", "by hand", "more", "a", "b", "c"],
    });
    await expect(saver.deleteThread("x").then(() => runner.resume({ threadId: "x" }))).rejects.toMatchObject({
      code: "NOTHING_TO_RESUME",
    });
  });

  test.each([false, true])("S3.7 a copy under the id keeps late saves out, deletion final: %s", async (final) => {
    await new GraphRunner(chain(saver)).invoke({ log: ["source"] }, { threadId: "source" });
    const held = gate();
    const graph = saver.attach(nested(saver, "plain1", held) as object) as any;
    const late = settled(graph.invoke({ log: ["old"] }, at()));
    await held.arrived;
    await saver.deleteThread("x", { final });
    await saver.copyThread("source", "x");
    const before = rows();
    held.open();
    expect(await late).toMatchObject({ code: "THREAD_DELETED" });
    expect(rows()).toEqual(before);
    expect(await new GraphRunner(chain(saver)).invoke({ log: ["more"] }, { threadId: "x" })).toEqual({
      log: ["source", "a", "b", "c", "more", "a", "b", "c"],
    });
  });

  test.each(cases)(
    "S3.7 is refused after a final deletion: durability %s, attached %s",
    async (durability: Durability, attached) => {
      const graph = nested(saver, "", gate());
      if (attached) saver.attach(graph);
      await graph.invoke({ log: ["new"] }, at("x", { durability }));
      await saver.deleteThread("x", { final: true });
      await expect(graph.invoke({ log: ["new"] }, at("x", { durability }))).rejects.toMatchObject({ code: "THREAD_DELETED" });
      await expect(chain(saver).updateState(at(), { log: ["by hand"] }, "a")).rejects.toMatchObject({ code: "THREAD_DELETED" });
      expect(isEmpty(rows())).toBe(true);
      await saver.retention.reuseThread("x");
      await graph.invoke({ log: ["new"] }, at("x", { durability }));
    },
  );

  test("S3.7 may save again when the id was allowed again, also if the deleted thread had been rewound", async () => {
    const graph = chain(saver);
    for (const task of ["one", "two"]) await graph.invoke({ log: [task] }, { configurable: { thread_id: "x", task_id: task } });
    await saver.rewind({ threadId: "x", toTask: "one" });
    const held = gate();
    const waiting = chain(saver, async (node) => (node === "a" ? held.wait() : undefined));
    // "sync": with "async" LangGraph runs the node while an engine that answers later still has its checkpoint to save.
    const late = waiting.invoke({ log: ["three"] }, at("x", { durability: "sync" }));
    await held.arrived;
    await saver.deleteThread("x");
    await saver.retention.reuseThread("x");
    held.open();
    expect((await late).log.slice(-4)).toEqual(["three", "a", "b", "c"]);
  });

  test("S3.7 saves by hand, without a run, go by the checkpoints they name", async () => {
    const Plain = Annotation.Root({ n: Annotation<number>() });
    const graph = new StateGraph(Plain)
      .addNode("a", () => ({ n: 1 }))
      .addEdge(START, "a")
      .addEdge("a", END);
    const compiled = graph.compile({ checkpointer: saver });
    await compiled.invoke({ n: 0 }, at());
    const old = await saver.getTuple(at());
    await saver.deleteThread("x");
    await compiled.invoke({ n: 0 }, at());
    const before = rows();
    const below = { configurable: { thread_id: "x", checkpoint_ns: "sub:1" } };
    const metadata = { source: "loop" as const, step: 0, parents: { "": old!.checkpoint.id } };
    const refused = { code: "THREAD_DELETED" };
    await expect(saver.put(below, old!.checkpoint, metadata, {})).rejects.toMatchObject(refused);
    await expect(saver.putWrites(old!.config, [["n", 2]], "t")).rejects.toMatchObject(refused);
    expect(rows()).toEqual(before);
    const head = (await saver.getTuple(at()))!;
    await saver.put(below, old!.checkpoint, { ...metadata, parents: { "": head.checkpoint.id } }, {});
  });
});
