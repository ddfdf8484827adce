import { AIMessage, HumanMessage, RemoveMessage } from "@langchain/core/messages";
import {
  Annotation,
  Command,
  DeltaChannel,
  END,
  interrupt,
  messagesDeltaReducer,
  messagesStateReducer,
  Overwrite,
  Send,
  START,
  StateGraph,
} from "@langchain/langgraph";
import { BaseCheckpointSaver } from "@langchain/langgraph-checkpoint";
import Database from "better-sqlite3";
import { TurnsError } from "langgraph-checkpoint-turns";
import { collect, quiet, thread } from "../support/diff-harness";
import { tempFile } from "../support/temp";
import { openSaver } from "../support/open-saver";

const append = (state: string[], writes: string[][]): string[] => state.concat(...writes);
const delta = (snapshotFrequency: number): any =>
  new DeltaChannel<string[], string[]>(append, { snapshotFrequency, initialValueFactory: () => [] });

/** Every node writes the same to an ordinary channel and to a delta channel: the ordinary one says what is right. */
const stateOf = (snapshotFrequency = 1000): any =>
  Annotation.Root({
    log: Annotation<string[]>({ reducer: (left, right) => left.concat(right), default: () => [] }),
    delta: () => delta(snapshotFrequency),
  } as any);
const both = (...items: string[]): any => ({ log: items, delta: items });
const node = (name: string) => () => both(name);
const asks = (name: string) => () => both(`${name}:${interrupt(name)}`);

function chain(names: readonly string[], bodies: Record<string, any> = {}, snapshotFrequency?: number): any {
  const builder: any = new StateGraph(stateOf(snapshotFrequency));
  for (const name of names) builder.addNode(name, bodies[name] ?? node(name));
  for (const [index, name] of names.entries()) builder.addEdge(index === 0 ? START : names[index - 1], name);
  return builder;
}

function setup(builder: any) {
  const path = tempFile();
  const saver = openSaver(path, { logger: quiet });
  const graph = saver.attach(builder.compile({ checkpointer: saver }) as object) as any;
  return { path, saver, graph, builder };
}
type Setup = ReturnType<typeof setup>;

/** What a new process reads of every checkpoint, newest first. */
async function reloaded({ path, builder }: Pick<Setup, "path" | "builder">): Promise<any[]> {
  const saver = openSaver(path, { logger: quiet });
  const history = await collect(builder.compile({ checkpointer: saver }).getStateHistory(thread()));
  saver.close();
  return history;
}

/** Every checkpoint of the thread reads the same through both channels. */
async function expectAgreement(at: Setup, inAnyOrder = false): Promise<void> {
  const order = (items: string[] = []): string[] => (inAnyOrder ? items.toSorted() : items);
  const states = await reloaded(at);
  expect(states.length).toBeGreaterThan(0);
  expect(states.map(({ values }) => order(values.delta))).toEqual(states.map(({ values }) => order(values.log)));
}

/** The live result, the reloaded head and both channels are one. */
async function expectLive(at: Setup, live: any, wanted: string[]): Promise<void> {
  expect(live).toMatchObject({ log: wanted, delta: wanted });
  expect((await at.graph.getState(thread())).values).toMatchObject({ log: wanted, delta: wanted });
  await expectAgreement(at);
}

/** The one query of the saver against the walk of the base class, for every checkpoint. */
async function expectBaseWalk({ saver, graph }: Setup): Promise<void> {
  const states: any[] = await collect(graph.getStateHistory(thread()));
  for (const { config } of states) {
    const asked = { config, channels: ["delta", "log", "nothing"] };
    const walked = await BaseCheckpointSaver.prototype.getDeltaChannelHistory.call(saver, asked);
    expect(await saver.getDeltaChannelHistory(asked)).toEqual(walked);
  }
}

const before = async (graph: any, name: string): Promise<any> => {
  const states: any[] = await collect(graph.getStateHistory(thread()));
  return states.find(({ next }) => next.includes(name)).config;
};

describe.each([1000, 2, 1])("contract: delta channels, a snapshot every %d updates", (frequency) => {
  const linear = (bodies: Record<string, any> = {}): any => chain(["a", "b", "c"], bodies, frequency);

  test("contract: plain runs over several turns", async () => {
    const at = setup(linear());
    await at.graph.invoke(both("in1"), thread());
    await at.graph.invoke(both("in2"), thread());
    const live = await at.graph.invoke(both("in3"), thread());
    await expectLive(at, live, ["in1", "a", "b", "c", "in2", "a", "b", "c", "in3", "a", "b", "c"]);
    await expectBaseWalk(at);
    at.saver.close();
  });

  test("contract: a resume after an error", async () => {
    let broken = true;
    const b = (): object => {
      if (broken) throw new Error("broken");
      return both("b");
    };
    const at = setup(linear({ b }));
    await expect(at.graph.invoke(both("in"), thread())).rejects.toThrow("broken");
    broken = false;
    await expectLive(at, await at.graph.invoke(null, thread()), ["in", "a", "b", "c"]);
    await expectBaseWalk(at);
    at.saver.close();
  });

  test("contract: an interrupt, an answer, and Command updates", async () => {
    const at = setup(linear({ b: asks("b") }));
    await at.graph.invoke(both("in"), thread());
    const live = await at.graph.invoke(new Command({ resume: "yes", update: both("by hand") }), thread());
    await expectLive(at, live, live.log);
    expect(live.log.toSorted()).toEqual(["a", "b:yes", "by hand", "c", "in"]);
    const steered = await at.graph.invoke(new Command({ goto: "c", update: both("steered") }), thread());
    await expectLive(at, steered, [...live.log, "steered", "c"]);
    await expectBaseWalk(at);
    at.saver.close();
  });

  test("contract: new input drops the writes of a step that was not finished", async () => {
    const builder: any = new StateGraph(stateOf(frequency))
      .addNode("p", node("p"))
      .addNode("h", asks("h"))
      .addEdge(START, "p")
      .addEdge(START, "h");
    const at = setup(builder);
    await at.graph.invoke(both("in"), thread());
    await at.graph.invoke(both("other"), thread());
    const live = await at.graph.invoke(new Command({ resume: "yes" }), thread());
    expect(live.delta.toSorted()).toEqual(live.log.toSorted());
    await expectAgreement(at, true);
    at.saver.close();
  });

  test("contract: parallel branches and Sends", async () => {
    const builder: any = new StateGraph(stateOf(frequency))
      .addNode("a", node("a"))
      .addNode("p", node("p"))
      .addNode("w", (packet: any) => both(`w${packet.i}`))
      .addEdge(START, "a")
      .addEdge("a", "p")
      .addConditionalEdges("a", () => [new Send("w", { i: 1 }), new Send("w", { i: 2 })], ["w"]);
    const at = setup(builder);
    await at.graph.invoke(both("in1"), thread());
    const live = await at.graph.invoke(both("in2"), thread());
    expect(live.log).toHaveLength(10);
    expect((await at.graph.getState(thread())).values.delta.toSorted()).toEqual(live.log.toSorted());
    await expectAgreement(at, true);
    await expectBaseWalk(at);
    at.saver.close();
  });

  test("contract: a replay does not take up the abandoned branch's writes (D21)", async () => {
    const at = setup(linear());
    await at.graph.invoke(both("in"), thread());
    const live = await at.graph.invoke(null, await before(at.graph, "b"));
    await expectLive(at, live, ["in", "a", "b", "c"]);
    await expectLive(at, await at.graph.invoke(both("on"), thread()), ["in", "a", "b", "c", "on", "a", "b", "c"]);
    at.saver.close();
  });

  test("contract: new input at an older checkpoint does not take up the abandoned branch's writes (D21)", async () => {
    const at = setup(linear());
    await at.graph.invoke(both("in"), thread());
    const live = await at.graph.invoke(both("instead"), await before(at.graph, "b"));
    await expectLive(at, live, live.log);
    at.saver.close();
  });

  test("contract: a replay of a replay", async () => {
    const at = setup(linear());
    await at.graph.invoke(both("in"), thread());
    await at.graph.invoke(null, await before(at.graph, "b"));
    const live = await at.graph.invoke(null, await before(at.graph, "c"));
    await expectLive(at, live, ["in", "a", "b", "c"]);
    at.saver.close();
  });

  test("contract: two updateState forks of one parent keep their own update (D22)", async () => {
    const at = setup(linear());
    await at.graph.invoke(both("in"), thread());
    const origin = await before(at.graph, "b");
    const forks: any[] = [];
    for (const update of ["U1", "U2", "U3"]) forks.push(await at.graph.updateState(origin, both(update), "a"));
    for (const [index, fork] of forks.entries()) {
      const { values } = await at.graph.getState(fork);
      expect(values).toMatchObject(both("in", "a", `U${index + 1}`));
    }
    await expectAgreement(at);
    expect(await at.graph.invoke(null, forks[0])).toMatchObject(both("in", "a", "U1", "b", "c"));
    expect(await at.graph.invoke(null, forks[1])).toMatchObject(both("in", "a", "U2", "b", "c"));
    await expectAgreement(at);
    at.saver.close();
  });

  test("contract: updateState at the head, one after another, as END and as a copy", async () => {
    const at = setup(linear());
    await at.graph.invoke(both("in"), thread());
    await at.graph.updateState(thread(), both("U1"), "b");
    await at.graph.updateState(thread(), both("U2"), "b");
    await expectLive(at, await at.graph.invoke(null, thread()), ["in", "a", "b", "c", "U1", "U2", "c"]);
    await at.graph.updateState(await before(at.graph, "c"), null, "__copy__");
    await expectAgreement(at);
    await at.graph.updateState(thread(), null, END);
    await expectAgreement(at);
    at.saver.close();
  });

  test.each(["sync", "async", "exit"])("contract: an interrupt twice with durability %s (F9, D20)", async (durability) => {
    const b = (): object => both(interrupt("first"), interrupt("second"));
    const at = setup(linear({ b }));
    const config = { ...thread(), durability };
    await at.graph.invoke(both("in"), config);
    await at.graph.invoke(new Command({ resume: "A" }), config);
    const live = await at.graph.invoke(new Command({ resume: "B" }), config);
    await expectLive(at, live, ["in", "a", "A", "B", "c"]);
    for (const tuple of await collect(at.saver.list(thread()))) {
      expect(tuple.parentConfig?.configurable?.["checkpoint_id"]).not.toBe(tuple.checkpoint.id);
    }
    await expectBaseWalk(at);
    at.saver.close();
  });

  test.each(["sync", "async"])("contract: an answer beside a sibling that had finished, durability %s", async (durability) => {
    const builder: any = new StateGraph(stateOf(frequency))
      .addNode("p", node("p"))
      .addNode("h", asks("h"))
      .addNode("z", node("z"))
      .addEdge(START, "p")
      .addEdge(START, "h")
      .addEdge(["p", "h"], "z");
    const at = setup(builder);
    const config = { ...thread(), durability };
    await at.graph.invoke(both("in"), config);
    const live = await at.graph.invoke(new Command({ resume: "yes", update: both("by hand") }), config);
    expect(live.delta.toSorted()).toEqual(live.log.toSorted());
    await expectAgreement(at, true);
    const next = await at.graph.invoke(both("next"), config);
    expect(next.delta.toSorted()).toEqual(next.log.toSorted());
    const other = await at.graph.invoke(both("other"), config);
    expect(other.delta.toSorted()).toEqual(other.log.toSorted());
    await expectAgreement(at, true);
    at.saver.close();
  });

  test.each(["sync", "async", "exit"])("contract: an error and a resume, durability %s", async (durability) => {
    let broken = true;
    const b = (): object => {
      if (broken) throw new Error("broken");
      return both("b");
    };
    const at = setup(linear({ b }));
    const config = { ...thread(), durability };
    for (const turn of ["1", "2"]) {
      broken = true;
      await expect(at.graph.invoke(both(turn), config)).rejects.toThrow("broken");
      broken = false;
      const live = await at.graph.invoke(null, config);
      expect(live.delta).toEqual(live.log);
    }
    await expectAgreement(at);
    at.saver.close();
  });

  describe("with a finished sibling and an open question", () => {
    const waiting = async () => {
      const builder: any = new StateGraph(stateOf(frequency))
        .addNode("p", node("p"))
        .addNode("h", asks("h"))
        .addNode("z", node("z"))
        .addEdge(START, "p")
        .addEdge(START, "h")
        .addEdge(["p", "h"], "z");
      const at = setup(builder);
      await at.graph.invoke(both("in"), thread());
      return { at, origin: (await at.graph.getState(thread())).config };
    };
    const expectReload = async (at: Setup, live: any): Promise<void> => {
      expect(live.delta.toSorted()).toEqual(live.log.toSorted());
      const { values } = await at.graph.getState(thread());
      expect(values.delta.toSorted()).toEqual(live.log.toSorted());
      await expectAgreement(at, true);
    };

    test("contract: updateState takes the sibling's writes where LangGraph does", async () => {
      const { at } = await waiting();
      await at.graph.updateState(thread(), both("U1"), "h");
      await expectReload(at, (await at.graph.getState(thread())).values);
      await expectReload(at, await at.graph.invoke(null, thread()));
      at.saver.close();
    });

    test("contract: an empty updateState takes nothing", async () => {
      const { at } = await waiting();
      await at.graph.updateState(thread(), null);
      await expectAgreement(at, true);
      await at.graph.invoke(null, thread());
      await expectReload(at, await at.graph.invoke(new Command({ resume: "yes" }), thread()));
      at.saver.close();
    });

    test("contract: a Command's update without an answer", async () => {
      const { at } = await waiting();
      await expectReload(at, await at.graph.invoke(new Command({ update: both("by hand") }), thread()));
      await expectReload(at, await at.graph.invoke(new Command({ goto: "z", update: both("again") }), thread()));
      at.saver.close();
    });

    test("contract: a replay, and new input after it", async () => {
      const { at, origin } = await waiting();
      await at.graph.invoke(new Command({ resume: "yes" }), thread());
      await at.graph.invoke(null, origin);
      await expectReload(at, await at.graph.invoke(new Command({ resume: "second" }), thread()));
      await expectReload(at, await at.graph.invoke(both("on"), thread()));
      await expectReload(at, await at.graph.invoke(both("elsewhere"), origin));
      at.saver.close();
    });
  });

  test("contract: Overwrite", async () => {
    const at = setup(linear({ b: () => ({ log: ["b"], delta: new Overwrite(["in", "a", "b"]) }) }));
    await expectLive(at, await at.graph.invoke(both("in"), thread()), ["in", "a", "b", "c"]);
    await expectBaseWalk(at);
    at.saver.close();
  });

  test("contract: a subgraph's delta channel", async () => {
    const sub = chain(["s1", "s2"], { s2: asks("s2") }, frequency).compile({ checkpointer: true });
    const builder: any = new StateGraph(stateOf(frequency)).addNode("sub", sub).addEdge(START, "sub");
    const at = setup(builder);
    for (const turn of ["1", "2"]) {
      await at.graph.invoke(both(turn), thread());
      const inner = (await at.graph.getState(thread(), { subgraphs: true })).tasks[0].state.values;
      expect(inner.delta).toEqual(inner.log);
      await at.graph.invoke(new Command({ resume: `answer ${turn}` }), thread());
      await expectAgreement(at);
    }
    at.saver.close();
  });

  test("contract: saver.rewind leaves the state of the target task, and the thread continues", async () => {
    const at = setup(linear());
    const run = (task: string) => at.graph.invoke(both(`in ${task}`), thread("t", { task_id: task }));
    await run("one");
    const { values: wanted } = await at.graph.getState(thread());
    await run("two");
    await at.graph.updateState(thread(), both("UNDO-ME"), "c");
    await run("three");
    await at.saver.rewind({ threadId: "t", toTask: "one" });
    await expectLive(at, (await at.graph.getState(thread())).values, wanted.log);
    await expectLive(at, await run("four"), [...wanted.log, "in four", "a", "b", "c"]);
    await expectBaseWalk(at);
    at.saver.close();
  });

  test("contract: saver.rewind to a task that waits for an answer", async () => {
    const at = setup(linear({ b: asks("b") }));
    await at.graph.invoke(both("in"), thread("t", { task_id: "one" }));
    await at.graph.invoke(new Command({ resume: "first", update: both("by hand") }), thread("t", { task_id: "two" }));
    await at.saver.rewind({ threadId: "t", toTask: "one" });
    const live = await at.graph.invoke(new Command({ resume: "second" }), thread("t", { task_id: "three" }));
    await expectLive(at, live, ["in", "a", "b:second", "c"]);
    at.saver.close();
  });

  test("contract: copyThread copies the history of delta channels", async () => {
    const at = setup(linear());
    await at.graph.invoke(both("in"), thread());
    const live = await at.graph.invoke(null, await before(at.graph, "b"));
    await at.saver.copyThread("t", "copy");
    const original: any[] = await collect(at.graph.getStateHistory(thread()));
    const copied: any[] = await collect(at.graph.getStateHistory(thread("copy")));
    expect(copied.map(({ values }) => values)).toEqual(original.map(({ values }) => values));
    expect(copied[0].values).toEqual(live);
    at.saver.close();
  });
});

describe("contract: delta channels of messages", () => {
  const State: any = Annotation.Root({
    plain: Annotation<any[]>({ reducer: messagesStateReducer as any, default: () => [] }),
    messages: () => new DeltaChannel(messagesDeltaReducer as any, { initialValueFactory: () => [] }),
  } as any);
  const say = (...messages: unknown[]): object => ({ plain: messages, messages });

  test("contract: messages with ids are replaced and removed as in an ordinary channel", async () => {
    const builder: any = new StateGraph(State)
      .addNode("answer", (state: any) => say(new AIMessage({ id: `ai-${state.plain.length}`, content: "draft" })))
      .addNode("correct", (state: any) => say(new AIMessage({ id: state.plain.at(-1).id, content: "final" })))
      .addNode("forget", (state: any) => say(new RemoveMessage({ id: state.plain[0].id })))
      .addEdge(START, "answer")
      .addEdge("answer", "correct")
      .addEdge("correct", "forget");
    const at = setup(builder);
    await at.graph.invoke(say(new HumanMessage({ id: "h1", content: "one" })), thread());
    const live = await at.graph.invoke(say(new HumanMessage({ id: "h2", content: "two" })), thread());
    expect(live.messages.map(({ id, content }: any) => [id, content])).toEqual([
      ["h2", "two"],
      ["ai-2", "final"],
    ]);
    for (const { values } of await reloaded(at)) expect(values.messages ?? []).toEqual(values.plain);
    await at.graph.invoke(null, await before(at.graph, "correct"));
    for (const { values } of await reloaded(at)) expect(values.messages ?? []).toEqual(values.plain);
    at.saver.close();
  });
});

describe("contract: a damaged parent pointer ends the walk", () => {
  test.each([
    ["a checkpoint that is its own parent", (ids: string[]) => [ids[2], ids[2]]],
    ["an ancestor that points at the head", (ids: string[]) => [ids.at(-1), ids[0]]],
    ["two that point at each other", (ids: string[]) => [ids[2], ids[1]]],
    ["a parent that does not exist", (ids: string[]) => [ids[2], "nothing"]],
  ])("contract: %s", async (_title, damage) => {
    const at = setup(chain(["a", "b", "c"]));
    await at.graph.invoke(both("in1"), thread());
    await at.graph.invoke(both("in2"), thread());
    const configs = (await collect(at.saver.list(thread()))).map(({ config }) => config);
    const [of, parent] = damage(configs.map((config) => config.configurable!["checkpoint_id"] as string));
    at.saver.close();
    const db = new Database(at.path);
    db.prepare("UPDATE langgraph_snapshots SET parent_checkpoint_id = ? WHERE checkpoint_id = ?").run(parent, of);
    db.close();

    const saver = openSaver(at.path, { logger: quiet });
    for (const config of configs) {
      const found = await saver.getDeltaChannelHistory({ config, channels: ["delta"] }).catch((error: unknown) => error);
      const isHistory = Array.isArray((found as any).delta?.writes);
      expect(isHistory || TurnsError.is(found, "CHECKPOINT_CORRUPTED")).toBe(true);
    }
    const damaged = saver.getTuple(configs.find((config) => config.configurable!["checkpoint_id"] === of)!);
    await expect(damaged).rejects.toMatchObject({ code: "CHECKPOINT_CORRUPTED" });
    saver.close();
  });
});
