import { AIMessage, HumanMessage } from "@langchain/core/messages";
import { Annotation, Command, entrypoint, interrupt, MessagesAnnotation, START, StateGraph, task } from "@langchain/langgraph";
import Database from "better-sqlite3";
import { GraphRunner } from "langgraph-checkpoint-turns";
import type { DriftEvent } from "../../src/testing-internal";
import { breaks, line, type lineGraph, paths, type Runner, State, world, type World } from "../support/run-world";
import { effectUndoneBy } from "../support/undo-world";

const config = { configurable: { thread_id: "t" } };
const changed = (what: RegExp): unknown =>
  expect.objectContaining({ code: "GRAPH_CHANGED", message: expect.stringMatching(what) as string });

/** A thread whose run a → b → c failed at c. */
async function failedAtC(at: World, options: object = {}): Promise<void> {
  await expect(line(at, ["a", "b", "c"], { c: breaks }, options).invoke({ log: ["in"] }, { threadId: "t" })).rejects.toThrow(
    "broken",
  );
}

/** Flips a byte of the thread's newest checkpoint through another connection. */
function corruptHead({ path }: World): void {
  const db = new Database(path);
  const { changes } = db
    .prepare(
      "UPDATE langgraph_snapshots SET body = body || ' ' WHERE seq = (SELECT max(seq) FROM langgraph_snapshots WHERE checkpoint_ns = '')",
    )
    .run();
  expect(changes).toBe(1);
  db.close();
}

async function messagesOf(at: World, threadId = "t"): Promise<string[]> {
  const tuples = [];
  for await (const tuple of at.saver.list({ configurable: { thread_id: threadId } })) tuples.push(tuple.checkpoint.id);
  return tuples;
}

describe("S4.2 drift: what stands in the way of a resume", () => {
  const fine: [string, string[]][] = [
    ["nothing changed", ["a", "b", "c"]],
    ["the failed node changed", ["a", "b", "c@2"]],
    ["a node was added behind", ["a", "b", "c", "d"]],
  ];
  test.each(fine)("S4.2 S2.7 %s: completed nodes are reused", async (_, labels) => {
    const at = world();
    await failedAtC(at);
    const result = await line(at, labels, {}, { drift: "refuse" }).resume({ threadId: "t" });
    expect(result).toEqual({ log: ["in", ...labels.map((label) => label.split("@")[0])] });
    expect([at.ledger.count("a"), at.ledger.count("b"), at.ledger.count("c")]).toEqual([1, 1, 2]);
    at.saver.close();
  });

  const drifted: [string, string[], RegExp][] = [
    ["a completed node changed", ["a@2", "b", "c"], /node "a", which had completed, changed: its version, from 1 to 2/],
    ["a completed node is gone", ["a", "c"], /node "b", which had completed, is gone/],
    ["a completed node was renamed", ["a", "bee", "c"], /node "b", which had completed, is gone/],
    ["completed nodes changed places", ["b", "a", "c"], /node "a", which had completed, changed: the edges that leave it/],
    ["a node was put between them", ["a", "b", "x", "c"], /node "b", which had completed, changed: the edges that leave it/],
    ["the failed node is gone", ["a", "b"], /node "c", which is due, is gone/],
    ["the failed node was renamed", ["a", "b", "see"], /node "c", which is due, is gone/],
  ];
  test.each(drifted)("S4.2 S4.3 %s: restart starts again on a new branch, refuse refuses", async (_, labels, what) => {
    const at = world();
    await failedAtC(at);
    const before = await messagesOf(at);
    const events: DriftEvent[] = [];
    at.saver.events.on("drift", (event) => void events.push(event));
    const runner = line(at, labels);
    const ran = at.ledger.all.length;
    await expect(runner.resume({ threadId: "t", drift: "refuse" })).rejects.toThrow(changed(what) as Error);
    expect(at.ledger.all).toHaveLength(ran);
    expect(await messagesOf(at)).toEqual(before);
    const fresh = await line(at, labels).invoke({ log: ["in"] }, { threadId: "fresh" });
    const mark = at.ledger.all.length;
    expect(await runner.resume({ threadId: "t" })).toEqual(fresh);
    expect(at.ledger.all.slice(mark)).toEqual(labels.map((label) => label.split("@")[0]));
    expect(events.map(({ policy, threadId }) => [policy, threadId])).toEqual([
      ["refuse", "t"],
      ["restart", "t"],
    ]);
    expect(events[1]?.changes.join()).toMatch(what);
    expect(at.warnings.find((warning) => warning.includes("starts again"))).toMatch(what);
    // Nothing is destroyed: the old branch can still be read.
    expect(await messagesOf(at)).toEqual(expect.arrayContaining(before));
    for (const checkpoint_id of before) {
      expect(await at.saver.getTuple({ configurable: { thread_id: "t", checkpoint_id } })).toBeDefined();
    }
    expect(await runner.status("t")).toMatchObject({ finished: true, drift: { changes: [] } });
    at.saver.close();
  });

  test("S2.7 continue builds on what was done, and warns", async () => {
    const at = world();
    await failedAtC(at);
    expect(await line(at, ["a@2", "b", "c"]).resume({ threadId: "t", drift: "continue" })).toEqual({
      log: ["in", "a", "b", "c"],
    });
    expect(at.ledger.count("a")).toBe(1);
    expect(at.warnings.join()).toMatch(/Thread "t": the run continues .* the graph changed: node /);
    at.saver.close();
  });

  test("S4.2 S2.7 continue, where the due node is gone: LangGraph has nothing left to do, and that is warned of", async () => {
    const at = world();
    await failedAtC(at);
    const runner = line(at, ["a", "b"], {}, { drift: "continue" });
    expect(await runner.status("t")).toMatchObject({ next: ["c"], finished: false, reason: { code: "GRAPH_CHANGED" } });
    expect(await runner.resume({ threadId: "t" })).toEqual({ log: ["in", "a", "b"] });
    expect(at.ledger.all).toEqual(["a", "b", "c"]);
    expect(at.warnings.join()).toMatch(/Thread "t": the run continues .* the graph changed: node /);
    at.saver.close();
  });

  test("S4.2 pruned turns are forgotten: what is not known is not compared", async () => {
    const at = world();
    await failedAtC(at);
    await at.saver.prune({ threadId: "t", keepLast: 1 });
    const runner = line(at, ["a@2", "b", "c"], {}, { drift: "refuse" });
    expect(await runner.status("t")).toMatchObject({ completed: [], failed: [{ nodeName: "c" }], resumable: true });
    expect(await runner.resume({ threadId: "t" })).toEqual({ log: ["in", "a", "b", "c"] });
    at.saver.close();
  });

  test("S4.2 time travel is of the branch it continues from, no matter what later runs did", async () => {
    const at = world();
    const one = line(at, ["a", "b", "c"]);
    await one.invoke({ log: ["first"] }, { threadId: "t" });
    await one.invoke({ log: ["second"] }, { threadId: "t" });
    const snapshots = [];
    for await (const snapshot of one.graph.getStateHistory(config)) if (snapshot.next[0] === "b") snapshots.push(snapshot);
    const { checkpoint_id } = snapshots.at(-1)!.config.configurable as { checkpoint_id: string };
    const broken = line(at, ["a", "b", "c"], { c: breaks });
    await expect(broken.invoke(null, { threadId: "t", configurable: { checkpoint_id } })).rejects.toThrow("broken");
    const status = await broken.status("t");
    expect([paths(status.completed), paths(status.failed)]).toEqual([["a", "b"], ["c"]]);
    expect(await one.resume({ threadId: "t" })).toEqual({ log: ["first", "a", "b", "c"] });
    // Begun anew, it is the first run again, since that is what the branch is of.
    await expect(broken.invoke(null, { threadId: "t", configurable: { checkpoint_id } })).rejects.toThrow("broken");
    expect(await line(at, ["a@2", "b", "c"]).resume({ threadId: "t" })).toEqual({ log: ["first", "a", "b", "c"] });
    at.saver.close();
  });

  test("S4.2 a restart that fails again is resumed on its own branch, no matter what the other one had", async () => {
    const at = world();
    await failedAtC(at);
    const shorter = line(at, ["a", "c"], { c: breaks });
    await expect(shorter.resume({ threadId: "t" })).rejects.toThrow("broken");
    expect(paths((await shorter.status("t")).completed)).toEqual(["a"]);
    expect(await line(at, ["a", "c@2"], {}, { drift: "refuse" }).resume({ threadId: "t" })).toEqual({ log: ["in", "a", "c"] });
    expect(at.ledger.all).toEqual(["a", "b", "c", "a", "c", "c"]);
    at.saver.close();
  });

  test("S3.3 without labels the source counts, a closure's values do not", async () => {
    const at = world();
    const graph = (first: () => object, value: boolean) =>
      new StateGraph(State)
        .addNode("a", first)
        .addNode("b", () => {
          if (value) throw new Error("broken");
          return {};
        })
        .addEdge(START, "a")
        .addEdge("a", "b")
        .compile({ checkpointer: at.saver });
    const one = () => ({ log: ["one"] });
    await expect(new GraphRunner(graph(one, true)).invoke({ log: [] }, { threadId: "t" })).rejects.toThrow("broken");
    const other = new GraphRunner(
      graph(() => ({ log: ["other"] }), false),
      { drift: "refuse" },
    );
    await expect(other.resume({ threadId: "t" })).rejects.toThrow(
      changed(/node "a", which had completed, changed: its source/) as Error,
    );
    expect(await new GraphRunner(graph(one, false), { drift: "refuse" }).resume({ threadId: "t" })).toEqual({ log: ["one"] });
    at.saver.close();
  });

  test("S3.3 a channel that joins values in another way is drift; a version label of the state answers for its source", async () => {
    const at = world();
    const graph = (reducer: (left: string[], right: string[]) => string[], broken: boolean) =>
      new StateGraph(Annotation.Root({ log: Annotation<string[]>({ reducer, default: () => [] }) }))
        .addNode("a", () => ({ log: ["a"] }))
        .addNode("b", () => {
          if (broken) throw new Error("broken");
          return { log: ["b"] };
        })
        .addEdge(START, "a")
        .addEdge("a", "b")
        .compile({ checkpointer: at.saver });
    const concat = (left: string[], right: string[]) => left.concat(right);
    const spread = (left: string[], right: string[]) => [...left, ...right];
    const refuse = { drift: "refuse" as const };
    for (const [threadId, stateVersion] of [
      ["t", undefined],
      ["u", "1"],
    ] as const) {
      const runner = new GraphRunner(graph(concat, true), { ...(stateVersion === undefined ? {} : { stateVersion }) });
      await expect(runner.invoke({ log: [] }, { threadId })).rejects.toThrow("broken");
    }
    await expect(new GraphRunner(graph(spread, false), refuse).resume({ threadId: "t" })).rejects.toThrow(
      changed(/channel "log" of the state joins values in another way/) as Error,
    );
    await expect(
      new GraphRunner(graph(spread, false), { ...refuse, stateVersion: "2" }).resume({ threadId: "u" }),
    ).rejects.toThrow(changed(/channel "log"/) as Error);
    expect(await new GraphRunner(graph(spread, false), { ...refuse, stateVersion: "1" }).resume({ threadId: "u" })).toEqual({
      log: ["a", "b"],
    });
    at.saver.close();
  });

  test("S3.3 a completed node inside a subgraph counts, by its path", async () => {
    const at = world();
    const runner = (version: string, broken: boolean): GraphRunner<ReturnType<typeof lineGraph>> => {
      const inner = new StateGraph(State)
        .addNode("x", () => (at.ledger.happen("x"), { log: ["x"] }))
        .addNode("y", () => {
          if (broken) throw new Error("broken");
          return { log: ["y"] };
        })
        .addEdge(START, "x")
        .addEdge("x", "y")
        .compile();
      const graph = new StateGraph(State).addNode("sub", inner).addEdge(START, "sub").compile({ checkpointer: at.saver });
      return new GraphRunner(graph as never, { nodes: { "sub|x": { version } } });
    };
    await expect(runner("1", true).invoke({ log: [] }, { threadId: "t" })).rejects.toThrow("broken");
    await expect(runner("2", false).resume({ threadId: "t", drift: "refuse" })).rejects.toThrow(
      changed(/node "sub\|x"/) as Error,
    );
    expect(await runner("2", false).resume({ threadId: "t" })).toEqual({ log: ["x", "y"] });
    expect(at.ledger.count("x")).toBe(2);
    at.saver.close();
  });

  test("S4.3 a restart keeps the earlier turns of the conversation", async () => {
    const at = world();
    const agent = (version: string, bodies: { broken: boolean }) =>
      new GraphRunner(
        new StateGraph(MessagesAnnotation)
          .addNode("think", ({ messages }) => ({ messages: [new AIMessage(`${version} saw ${messages.length}`)] }))
          .addNode("say", () => {
            if (bodies.broken) throw new Error("broken");
            return {};
          })
          .addEdge(START, "think")
          .addEdge("think", "say")
          .compile({ checkpointer: at.saver }),
        { nodes: { think: { version } } },
      );
    await agent("1", { broken: false }).invoke({ messages: [new HumanMessage("first")] }, { threadId: "t" });
    await expect(
      agent("1", { broken: true }).invoke({ messages: [new HumanMessage("second")] }, { threadId: "t" }),
    ).rejects.toThrow();
    const { messages } = await agent("2", { broken: false }).resume({ threadId: "t" });
    expect(messages.map(({ content }) => content)).toEqual(["first", "1 saw 1", "second", "2 saw 3"]);
    at.saver.close();
  });

  test("S4.3 a graph with a memory of its own starts from scratch as well", async () => {
    const at = world();
    const runner = (version: string, broken: boolean) => {
      const inner = new StateGraph(Annotation.Root({ log: State.spec.log, seen: Annotation<number>() }))
        .addNode("count", ({ seen }) => ({ seen: (seen ?? 0) + 1, log: [`call ${(seen ?? 0) + 1}`] }))
        .addEdge(START, "count")
        .compile({ checkpointer: true });
      const graph = new StateGraph(State)
        .addNode("memo", async () => ({ log: [(await inner.invoke({ log: [] })).log.at(-1) ?? ""] }), { subgraphs: [inner] })
        .addNode("end", () => {
          if (broken) throw new Error("broken");
          return {};
        })
        .addEdge(START, "memo")
        .addEdge("memo", "end")
        .compile({ checkpointer: at.saver });
      return new GraphRunner(graph, { nodes: { memo: { version } } });
    };
    await expect(runner("1", true).invoke({ log: [] }, { threadId: "t" })).rejects.toThrow("broken");
    expect(await runner("2", false).resume({ threadId: "t" })).toEqual({ log: ["call 1"] });
    at.saver.close();
  });

  test("S4.3 a functional graph: tasks that finished are reused, a renamed entrypoint is another graph", async () => {
    const at = world();
    const ran: string[] = [];
    const flow = (name: string, broken: boolean) => {
      const one = task("one", () => (ran.push("one"), 1));
      return new GraphRunner(
        entrypoint({ name, checkpointer: at.saver }, async (x: number) => {
          const sum = x + (await one());
          if (broken) throw new Error("broken");
          return sum;
        }),
      );
    };
    await expect(flow("flow", true).invoke(1, { threadId: "t" })).rejects.toThrow("broken");
    await expect(flow("other", false).resume({ threadId: "t" })).rejects.toThrow(
      expect.objectContaining({ code: "WRONG_GRAPH" }),
    );
    expect(await flow("flow", false).resume({ threadId: "t" })).toBe(2);
    expect(ran).toEqual(["one"]);
    at.saver.close();
  });

  test("S4.3 a person's answer is not given to a run that starts from scratch: it asks again", async () => {
    const at = world();
    const ask = { ask: () => ({ log: [interrupt<string, string>("?")] }) };
    await line(at, ["a", "ask"], ask).invoke({ log: [] }, { threadId: "t" });
    const mended = line(at, ["a@2", "ask"], ask);
    const command = new Command({ resume: "yes" });
    expect(await mended.resume({ threadId: "t", command })).toMatchObject({ log: ["a"], __interrupt__: [expect.anything()] });
    expect(await mended.resume({ threadId: "t", command })).toEqual({ log: ["a", "yes"] });
    expect(at.ledger.count("a")).toBe(2);
    at.saver.close();
  });

  test("S4.2 S1.5 a run that starts again stays in its task: a rewind to the task keeps what it answered", async () => {
    for (const taskId of ["second", undefined]) {
      const at = world();
      const ask = { ask: () => ({ log: [interrupt<string, string>("?")] }) };
      const first = line(at, ["a", "ask"], ask);
      await first.invoke({ log: [] }, { threadId: "t", taskId });
      const [asked] = await at.saver.turns.tasks("t");
      const mended = line(at, ["a@2", "ask"], ask);
      await mended.resume({ threadId: "t" });
      expect((await at.saver.turns.tasks("t")).map((task) => task.taskId)).toEqual([asked!.taskId]);
      expect(await mended.resume({ threadId: "t", command: new Command({ resume: "yes" }) })).toEqual({ log: ["a", "yes"] });
      await line(at, ["a@2", "ask"]).invoke({ log: [] }, { threadId: "t", taskId: "third", onUnfinished: "abandon" });
      await mended.rewind({ threadId: "t", toTask: asked!.taskId });
      const { values } = await mended.graph.getState(config);
      expect({ taskId, values: values as unknown }).toEqual({ taskId, values: { log: ["a", "yes"] } });
      at.saver.close();
    }
  });

  test("S4.2 invoke(null) and stream(null) behave as resume", async () => {
    const at = world();
    await failedAtC(at);
    const runner = line(at, ["a@2", "b", "c"], {}, { drift: "refuse" });
    await expect(runner.invoke(null, { threadId: "t" })).rejects.toThrow(changed(/node "a"/) as Error);
    await expect(runner.stream(null, { threadId: "t" })).rejects.toThrow(changed(/node "a"/) as Error);
    const chunks: unknown[] = [];
    for await (const chunk of await runner.stream(null, { threadId: "t", drift: "restart", streamMode: "updates" }))
      chunks.push(chunk);
    expect(chunks).toEqual(["a", "b", "c"].map((name) => ({ [name]: { log: [name] } })));
    at.saver.close();
  });

  test("S4.2 onUnfinished: finish keeps to the call's drift, and its config", async () => {
    const at = world();
    await failedAtC(at);
    const runner = line(at, ["a@2", "b", "c"]);
    const given = { threadId: "t", onUnfinished: "finish" as const };
    await expect(runner.invoke({ log: ["new"] }, { ...given, drift: "refuse" })).rejects.toThrow(changed(/node "a"/) as Error);
    const result = await runner.invoke({ log: ["new"] }, { ...given, drift: "continue", taskId: "second" });
    expect(result).toEqual({ log: ["in", "a", "b", "c", "new", "a", "b", "c"] });
    expect((await at.saver.turns.list("t")).filter(({ taskId }) => taskId === "second")).toHaveLength(6);
    at.saver.close();
  });
});

describe("S4.3 where a run begins", () => {
  /** a → c, or b → c; a and c of runs before are finished when `begin` comes. */
  const of = (at: World, version: string, bodies: { broken: boolean }) =>
    new GraphRunner(
      new StateGraph(State)
        .addNode("a", () => (at.ledger.happen("a"), { log: ["a"] }))
        .addNode("b", () => (at.ledger.happen("b"), { log: ["b"] }))
        .addNode("c", () => {
          if (bodies.broken) throw new Error("broken");
          return { log: ["c"] };
        })
        .addConditionalEdges(START, () => "a", ["a", "b"])
        .addEdge("a", "c")
        .addEdge("b", "c")
        .compile({ checkpointer: at.saver }),
      { stateVersion: "1", nodes: { a: { version }, b: { version }, c: { version: "1" } } },
    );
  const begins: [string, (runner: ReturnType<typeof of>) => Promise<unknown>, string[], string[]][] = [
    [
      "an updateState",
      async (runner) => {
        await runner.graph.updateState(config, { log: ["by hand"] }, "b");
        return runner.resume({ threadId: "t" });
      },
      [],
      ["in", "a", "c", "by hand", "c"],
    ],
    [
      "several, of which the first leaves nothing due",
      async (runner) => {
        await runner.graph.updateState(config, { log: ["patch"] }, "c");
        await runner.graph.updateState(config, { log: ["on to b"] }, "__start__");
        return runner.resume({ threadId: "t" });
      },
      ["a"],
      ["in", "a", "c", "patch", "on to b", "a", "c"],
    ],
    [
      "a Command's goto",
      (runner) => runner.invoke(new Command({ goto: "b" }), { threadId: "t" }),
      ["b"],
      ["in", "a", "c", "b", "c"],
    ],
  ];
  test.each(begins)(
    "S4.3 %s on a finished thread begins a run: a restart does not reach behind it",
    async (_, begin, ended, log) => {
      const at = world();
      await of(at, "1", { broken: false }).invoke({ log: ["in"] }, { threadId: "t" });
      await expect(begin(of(at, "1", { broken: true }))).rejects.toThrow("broken");
      const mended = of(at, "2", { broken: false });
      const status = await mended.status("t");
      expect([paths(status.completed), paths(status.failed)]).toEqual([ended, ["c"]]);
      expect(status.resumable).toBe(ended.length === 0);
      const before = at.ledger.all;
      expect(await mended.resume({ threadId: "t" })).toEqual({ log });
      expect(at.ledger.all).toEqual([...before, ...ended]);
      at.saver.close();
    },
  );

  test("S4.3 an update in the midst of a run, or that leaves nothing due, begins none", async () => {
    const at = world();
    await expect(of(at, "1", { broken: true }).invoke({ log: ["in"] }, { threadId: "t" })).rejects.toThrow("broken");
    const mended = of(at, "2", { broken: false });
    await mended.graph.updateState(config, { log: ["patch"] }, "a");
    expect(paths((await mended.status("t")).completed)).toEqual(["a"]);
    expect(await mended.resume({ threadId: "t" })).toEqual({ log: ["in", "a", "c"] });
    await mended.graph.updateState(config, { log: ["patch"] }, "c");
    expect(await mended.status("t")).toMatchObject({ finished: true, completed: [{ nodeName: "a" }, { nodeName: "c" }] });
    at.saver.close();
  });
});

describe("S4.3 effects of a run that would start from scratch", () => {
  /** a does its deed and ends; w does one of which nobody knows how it ended, as long as `lost.now`. */
  const paying = (at: World, version: string, lost: { now: boolean }, drift: "restart" | "continue" = "restart") =>
    new GraphRunner(
      new StateGraph(State)
        .addNode("a", async () => {
          await effectUndoneBy("cancel", "reserve", () => at.ledger.happen("reserve"), { input: 1 });
          return { log: ["a"] };
        })
        .addNode("w", async () => {
          const pay = (): void => {
            at.ledger.happen("pay");
            if (lost.now) throw new Error("timeout");
          };
          await effectUndoneBy("refund", "pay", pay, { input: 1, onError: "unknown" });
          return { log: ["w"] };
        })
        .addNode("end", () => {
          if (lost.now) throw new Error("broken");
          return { log: ["end"] };
        })
        .addEdge(START, "a")
        .addEdge("a", "w")
        .addEdge("w", "end")
        .compile({ checkpointer: at.saver }),
      { drift, stateVersion: "1", nodes: { a: { version }, w: { version: "1" }, end: { version: "1" } } },
    );

  test("S2.9 S4.3 one in doubt stands in the way of a restart until it is settled; the done ones are named", async () => {
    const at = world();
    const events: DriftEvent[] = [];
    at.saver.events.on("drift", (event) => void events.push(event));
    const lost = { now: true };
    const doubt = expect.objectContaining({ code: "EFFECT_IN_DOUBT" }) as Error;
    await expect(paying(at, "1", lost).invoke({ log: [] }, { threadId: "t" })).rejects.toThrow(doubt);
    lost.now = false;
    const before = await messagesOf(at);
    const [reserve, pay] = await at.saver.effects.list("t");
    const refused = await paying(at, "2", lost)
      .resume({ threadId: "t" })
      .catch((error: unknown) => error);
    expect(refused).toMatchObject({
      code: "EFFECT_IN_DOUBT",
      data: { threadId: "t", effectId: pay!.id, effects: [{ effectId: pay!.id, name: "pay", label: pay!.label, key: pay!.key }] },
      cause: { code: "GRAPH_CHANGED" },
    });
    await expect(paying(at, "2", lost).resume({ threadId: "t", input: { log: ["other"] } })).rejects.toThrow(doubt);
    expect(at.ledger.all).toEqual(["reserve", "pay"]);
    expect(await messagesOf(at)).toEqual(before);
    await at.saver.effects.resolve(pay!.id, { outcome: "not-done" });
    expect(await paying(at, "2", lost).resume({ threadId: "t" })).toEqual({ log: ["a", "w", "end"] });
    expect(at.ledger.all).toEqual(["reserve", "pay", "reserve", "pay"]);
    const done = { name: "reserve", label: reserve!.label, key: reserve!.key };
    expect(events.map(({ effects }) => effects)).toEqual([[done], [done], [done]]);
    expect(at.warnings.find((warning) => warning.includes("starts again"))).toContain(reserve!.key);
    at.saver.close();
  });

  test("S4.3 effects of runs before are none of it", async () => {
    const at = world();
    const lost = { now: false };
    await paying(at, "1", lost).invoke({ log: [] }, { threadId: "t" });
    await failedAtC(at).catch(() => undefined);
    const events: DriftEvent[] = [];
    at.saver.events.on("drift", (event) => void events.push(event));
    expect(await line(at, ["a@2", "b", "c"]).resume({ threadId: "t" })).toMatchObject({
      log: ["a", "w", "end", "in", "a", "b", "c"],
    });
    expect(events).toMatchObject([{ effects: [] }]);
    at.saver.close();
  });
});

describe("S3.2 S3.7 the wrong thread, graph or format is refused by name", () => {
  test("S3.2 a graph none of whose nodes ran, and another graph id", async () => {
    const at = world();
    await failedAtC(at, { graphId: "flow" });
    const wrong = expect.objectContaining({ code: "WRONG_GRAPH" }) as Error;
    await expect(line(at, ["x", "y"]).resume({ threadId: "t" })).rejects.toThrow(wrong);
    await expect(line(at, ["a", "b", "c"], {}, { graphId: "other" }).resume({ threadId: "t" })).rejects.toThrow(wrong);
    await expect(line(at, ["a", "b", "c"]).resume({ threadId: "t", graphId: "other" })).rejects.toThrow(wrong);
    at.saver.close();
  });

  test("S4.3 a deployment that replaces every node of a graph with an id of its own is a change, and follows the policy", async () => {
    const at = world();
    await failedAtC(at, { graphId: "flow" });
    const runner = line(at, ["x", "y"], {}, { graphId: "flow" });
    await expect(runner.resume({ threadId: "t", drift: "refuse" })).rejects.toThrow(changed(/it is another one/) as Error);
    expect(await runner.resume({ threadId: "t" })).toEqual({ log: ["in", "x", "y"] });
    at.saver.close();
  });

  test("a thread that ran without a graph id takes one later", async () => {
    const at = world();
    await failedAtC(at);
    expect(await line(at, ["a", "b", "c"], {}, { graphId: "flow" }).resume({ threadId: "t" })).toMatchObject({
      log: { length: 4 },
    });
    at.saver.close();
  });

  test("S3.2 a newer checkpoint format is refused regardless of the policy", async () => {
    const at = world();
    await failedAtC(at);
    const head = (await at.saver.getTuple(config))!;
    const id = head.checkpoint.id.replace(/^./, (first) => (first === "f" ? "f" : "2"));
    await at.saver.put(head.config, { ...head.checkpoint, v: 5, id }, { source: "loop", step: 3, parents: {} }, {});
    const refused = expect.objectContaining({ code: "SCHEMA_TOO_NEW" }) as Error;
    await expect(line(at, ["a", "b", "c"]).resume({ threadId: "t" })).rejects.toThrow(refused);
    at.saver.close();
  });
});

describe("S4.3 nothing to resume, or nothing that can be read", () => {
  test("S4.3 no checkpoint: named, or begun with the input that is given", async () => {
    const at = world();
    const runner = line(at, ["a"]);
    await expect(runner.resume({ threadId: "t" })).rejects.toThrow(expect.objectContaining({ code: "NOTHING_TO_RESUME" }));
    expect(await runner.resume({ threadId: "t", input: { log: ["in"] } })).toEqual({ log: ["in", "a"] });
    at.saver.close();
  });

  const corrupted = expect.objectContaining({ code: "CHECKPOINT_CORRUPTED" }) as Error;
  const restarts: [string, (runner: Runner) => Promise<unknown>, string[]][] = [
    ["from the run's own input", (runner) => runner.resume({ threadId: "t" }), ["old", "a", "b", "c", "in", "a", "b", "c"]],
    [
      "from an input that is given, on the state before the run",
      (runner) => runner.resume({ threadId: "t", input: { log: ["other"] } }),
      ["old", "a", "b", "c", "other", "a", "b", "c"],
    ],
  ];
  test.each(restarts)("S4.3 a corrupted head: the run starts from scratch %s", async (_, resume, log) => {
    const at = world();
    await line(at, ["a", "b", "c"]).invoke({ log: ["old"] }, { threadId: "t" });
    await failedAtC(at);
    corruptHead(at);
    const runner = line(at, ["a", "b", "c"]);
    await expect(line(at, ["a", "b", "c"], {}, { onCorrupted: "refuse" }).resume({ threadId: "t" })).rejects.toThrow(corrupted);
    expect(await resume(runner)).toEqual({ log });
    expect(at.warnings.join()).toMatch(/starts again/);
    expect(await runner.status("t")).toMatchObject({ finished: true });
    expect(await runner.invoke({ log: ["next"] }, { threadId: "t" })).toEqual({ log: [...log, "next", "a", "b", "c"] });
    at.saver.close();
  });

  test("S4.3 nothing of the thread can be read: named without an input, begun on an empty state with one", async () => {
    const at = world();
    await failedAtC(at);
    const db = new Database(at.path);
    db.exec("UPDATE langgraph_snapshots SET body = body || ' '");
    db.close();
    const runner = line(at, ["a", "b", "c"]);
    await expect(runner.resume({ threadId: "t" })).rejects.toThrow(corrupted);
    expect(await runner.resume({ threadId: "t", input: { log: ["anew"] } })).toEqual({ log: ["anew", "a", "b", "c"] });
    at.saver.close();
  });
});
