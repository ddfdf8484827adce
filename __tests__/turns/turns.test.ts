import { AIMessage, type BaseMessage, HumanMessage } from "@langchain/core/messages";
import { BaseChatModel } from "@langchain/core/language_models/chat_models";
import type { ChatResult } from "@langchain/core/outputs";
import { tool } from "@langchain/core/tools";
import {
  Annotation,
  Command,
  END,
  entrypoint,
  interrupt,
  MessagesAnnotation,
  NodeInterrupt,
  Send,
  START,
  StateGraph,
  task,
} from "@langchain/langgraph";
import { createReactAgent } from "@langchain/langgraph/prebuilt";
import { uuid5 } from "@langchain/langgraph-checkpoint";
import Database from "better-sqlite3";
import { GraphRunner, type Turn, type TurnSaver } from "langgraph-checkpoint-turns";
import { z } from "zod";
import { pullTaskId } from "../../src/testing-internal";
import { tempFile } from "../support/temp";
import { openPersister } from "../support/open-persister";
import { openSaver } from "../support/open-saver";

const State = Annotation.Root({
  log: Annotation<string[]>({ reducer: (left, right) => left.concat(right), default: () => [] }),
});
const quiet = { debug() {}, info() {}, warn() {}, error() {} };

/** A saver on a file, and a second connection that sees only what is committed. */
function setup() {
  const path = tempFile();
  const saver = openSaver(path, { logger: quiet });
  const witness = new Database(path, { readonly: true });
  const newest = witness
    .prepare("SELECT turn_type FROM langgraph_checkpoints WHERE node_name = ? ORDER BY seq DESC LIMIT 1")
    .pluck();
  const seen: string[] = [];
  /** Called at the start of a body: notes what the newest committed turn of this node is. */
  const look = (name: string): void => {
    seen.push(`${name}:${String(newest.get(name))}`);
  };
  const node = (name: string) => () => {
    look(name);
    return { log: [name] };
  };
  const close = (): void => {
    witness.close();
    saver.close();
  };
  return { path, saver, witness, seen, look, node, close };
}

/** `T a`, `A a ok*`: a star for durable. */
function line(turn: Turn): string {
  return turn.turnType === "Thought" ? `T ${turn.nodeName}` : `A ${turn.nodeName} ${turn.status}${turn.durable ? "*" : ""}`;
}

const config = { configurable: { thread_id: "t" } };

describe("S1.8 every body sees its own Thought committed, through a second connection", () => {
  test("S1.8 nodes one after another", async () => {
    const { saver, seen, node, close } = setup();
    const graph = saver.attach(
      new StateGraph(State)
        .addNode("a", node("a"))
        .addNode("b", node("b"))
        .addEdge(START, "a")
        .addEdge("a", "b")
        .addEdge("b", END)
        .compile({ checkpointer: saver }),
    );
    await graph.invoke({ log: [] }, config);
    expect(seen).toEqual(["a:Thought", "b:Thought"]);
    expect((await saver.turns.list("t")).map(line)).toEqual(["T a", "A a ok*", "T b", "A b ok*"]);
    close();
  });

  test("S1.8 parallel nodes, and a join", async () => {
    const { saver, seen, node, close } = setup();
    const graph = saver.attach(
      new StateGraph(State)
        .addNode("a", node("a"))
        .addNode("b", node("b"))
        .addNode("j", node("j"))
        .addEdge(START, "a")
        .addEdge(START, "b")
        .addEdge(["a", "b"], "j")
        .compile({ checkpointer: saver }),
    );
    await graph.invoke({ log: [] }, config);
    expect(seen).toEqual(["a:Thought", "b:Thought", "j:Thought"]);
    expect((await saver.turns.list("t")).map(line).sort()).toEqual(["A a ok*", "A b ok*", "A j ok*", "T a", "T b", "T j"]);
    close();
  });

  test("S1.8 Send: each packet is a turn of its own, with the packet as its state", async () => {
    const { saver, seen, look, node, close } = setup();
    const graph = saver.attach(
      new StateGraph(State)
        .addNode("a", node("a"))
        .addNode("w", (packet: unknown) => {
          look("w");
          return { log: [`w${(packet as { i: number }).i}`] };
        })
        .addEdge(START, "a")
        .addConditionalEdges("a", () => [new Send("w", { i: 1 }), new Send("w", { i: 2 })], ["w"])
        .compile({ checkpointer: saver }),
    );
    await graph.invoke({ log: [] }, config);
    expect(seen).toEqual(["a:Thought", "w:Thought", "w:Thought"]);
    const thoughts = (await saver.turns.list("t")).filter((turn) => turn.nodeName === "w" && turn.turnType === "Thought");
    expect(await Promise.all(thoughts.map((turn) => saver.turns.state(turn)))).toEqual([{ i: 1 }, { i: 2 }]);
    close();
  });

  test("S1.8 conditional edges: one that throws leaves the node undone", async () => {
    const { saver, seen, node, close } = setup();
    let broken = true;
    const graph = saver.attach(
      new StateGraph(State)
        .addNode("a", node("a"))
        .addNode("b", node("b"))
        .addEdge(START, "a")
        .addConditionalEdges("a", () => {
          if (broken) throw new Error("edge");
          return "b";
        })
        .compile({ checkpointer: saver }),
    );
    await expect(graph.invoke({ log: [] }, config)).rejects.toThrow("edge");
    expect((await saver.turns.list("t")).map(line)).toEqual(["T a", "A a error"]);
    broken = false;
    expect(await graph.invoke(null, config)).toEqual({ log: ["a", "b"] });
    expect(seen).toEqual(["a:Thought", "a:Thought", "b:Thought"]);
    close();
  });

  test("S1.8 retries: an attempt is a pair of turns", async () => {
    const { saver, look, close } = setup();
    let failures = 2;
    const graph = saver.attach(
      new StateGraph(State)
        .addNode(
          "r",
          () => {
            look("r");
            if (failures-- > 0) throw new Error("again");
            return { log: ["r"] };
          },
          { retryPolicy: { maxAttempts: 3, initialInterval: 1, jitter: false, retryOn: () => true } },
        )
        .addEdge(START, "r")
        .compile({ checkpointer: saver }),
    );
    await graph.invoke({ log: [] }, config);
    const turns = await saver.turns.list("t");
    expect(turns.map((turn) => `${line(turn)} ${turn.attempt}`)).toEqual([
      "T r 1",
      "A r error 1",
      "T r 2",
      "A r error 2",
      "T r 3",
      "A r ok* 3",
    ]);
    expect(new Set(turns.map((turn) => turn.nodeTaskId)).size).toBe(1);
    close();
  });

  test.each<[string, unknown, string]>([
    ["an interrupt of the older kind", new NodeInterrupt("?"), "interrupted"],
    ["what merely bears such a name in its message", new Error("GraphInterrupt"), "error"],
    ["null", null, "error"],
    ["undefined", undefined, "error"],
    ["a text", "NodeInterrupt", "error"],
  ])("S1.8 a node that throws %s", async (_, thrown, status) => {
    const { saver, close } = setup();
    const throwing = () => {
      throw thrown;
    };
    const graph = saver.attach(new StateGraph(State).addNode("x", throwing).addEdge(START, "x").compile({ checkpointer: saver }));
    await graph.invoke({ log: [] }, config).catch(() => undefined);
    expect((await saver.turns.list("t")).map(line)).toEqual(["T x", `A x ${status}`]);
    close();
  });

  test("S1.8 interrupts: interrupted, then a new attempt of the same node task", async () => {
    const { saver, seen, look, close } = setup();
    const graph = saver.attach(
      new StateGraph(State)
        .addNode("h", () => {
          look("h");
          return { log: [`h${interrupt<string, string>("?")}`] };
        })
        .addEdge(START, "h")
        .compile({ checkpointer: saver }),
    );
    await graph.invoke({ log: [] }, config);
    expect(await saver.turns.inFlight("t")).toEqual([]);
    expect(await graph.invoke(new Command({ resume: "!" }), config)).toEqual({ log: ["h!"] });
    expect((await saver.turns.list("t")).map(line)).toEqual(["T h", "A h interrupted", "T h", "A h ok*"]);
    expect(seen).toEqual(["h:Thought", "h:Thought"]);
    close();
  });

  test("S1.8 a Thought holds what its node was called with only where its checkpoint doesn't tell it", async () => {
    const { path, saver, witness, close } = setup();
    const called: unknown[] = [];
    const note = (name: string) => (state: typeof State.State) => {
      called.push({ log: [...state.log] });
      return { log: [name] };
    };
    const build = (checkpointer: TurnSaver) =>
      checkpointer.attach(
        new StateGraph(State)
          .addNode("a", note("a"))
          .addNode("asks", (state) => {
            called.push({ log: [...state.log] });
            return { log: [interrupt<string, string>("?")] };
          })
          .addNode("sent", (own: { log: string[] }) => note("sent")(own))
          .addEdge(START, "a")
          .addEdge("a", "asks")
          .addConditionalEdges("asks", () => [new Send("sent", { log: ["its own"] })])
          .compile({ checkpointer }),
      );
    await build(saver).invoke({ log: ["in"] }, config);
    const other = openSaver(path, { logger: quiet });
    await build(other).invoke(new Command({ resume: "!", update: { log: ["by hand"] } }), config);
    const thoughts = (await other.turns.list("t")).filter(({ turnType }) => turnType === "Thought");
    expect(thoughts.map(line)).toEqual(["T a", "T asks", "T asks", "T sent"]);
    expect(await Promise.all(thoughts.map((turn) => other.turns.state(turn)))).toEqual(called);
    expect(called[2]).toEqual({ log: ["in", "a", "by hand"] });
    const state = witness.prepare("SELECT serialized_state FROM langgraph_checkpoints WHERE id = ?").pluck();
    expect(thoughts.map(({ id }) => state.get(id) === "{}")).toEqual([true, true, false, false]);
    other.close();
    close();
  });

  test("S1.8 a node task's id is derived as LangGraph derives it, no matter what a checkpoint's id is", () => {
    const parts = ["scope", "3", "näme", "__pregel_pull", ["branch:to:näme"]];
    const named = ["1ef4f797-8335-6428-8001-8a1503f9b875", "0123456789abcdef0123456789ABCDEF", "z".repeat(32), "-1f".repeat(16)];
    for (const id of named) expect(pullTaskId("scope", 3, "näme", ["branch:to:näme"], id)).toBe(uuid5(JSON.stringify(parts), id));
    expect(pullTaskId("scope", 3, "näme", [], "my checkpoint")).toBe("");
  });

  test("S1.8 subgraphs: as a node, in a closure, and with checkpointer: true", async () => {
    const { saver, seen, node, look, close } = setup();
    const inner = (name: string) => new StateGraph(State).addNode(name, node(name)).addEdge(START, name);
    const closure = inner("closed").compile();
    const graph = saver.attach(
      new StateGraph(State)
        .addNode("plain", inner("i").compile())
        .addNode("stable", inner("k").compile({ checkpointer: true }))
        .addNode("calls", async (state) => {
          look("calls");
          await closure.invoke(state);
          return { log: ["calls"] };
        })
        .addEdge(START, "plain")
        .addEdge("plain", "stable")
        .addEdge("stable", "calls")
        .compile({ checkpointer: saver }),
    );
    await graph.invoke({ log: [] }, config);
    await graph.invoke({ log: [] }, config);
    expect(seen).toEqual([...Array(2)].flatMap(() => ["i:Thought", "k:Thought", "calls:Thought", "closed:Thought"]));
    const turns = await saver.turns.list("t");
    const inNamespaces = turns
      .filter((turn) => turn.turnType === "Thought")
      .map((turn) => `${turn.nodeName}@${turn.checkpointNs.replace(/:[0-9a-f-]+/g, ":*")}`);
    expect(inNamespaces.slice(0, 6)).toEqual(["plain@", "i@plain:*", "stable@", "k@stable", "calls@", "closed@calls:*"]);
    expect(turns.every((turn) => turn.turnType === "Thought" || turn.durable)).toBe(true);
    expect(turns.every((turn) => turn.checkpointId !== undefined)).toBe(true);
    close();
  });

  test("S1.8 a subgraph that hands over to its parent by Command.PARENT", async () => {
    const { saver, node, close } = setup();
    const child = new StateGraph(State)
      .addNode("c", () => new Command({ graph: Command.PARENT, goto: "z", update: { log: ["c"] } }), { ends: [] })
      .addEdge(START, "c")
      .compile();
    const graph = saver.attach(
      new StateGraph(State)
        .addNode("child", child, { ends: ["z"] })
        .addNode("z", node("z"))
        .addEdge(START, "child")
        .compile({ checkpointer: saver }),
    );
    expect(await graph.invoke({ log: [] }, config)).toEqual({ log: ["c", "z"] });
    const turns = (await saver.turns.list("t")).map(line);
    expect(turns).toContain("A c handoff");
    expect(turns).toContain("A child ok*");
    expect(await saver.turns.inFlight("t")).toEqual([]);
    close();
  });

  test("S1.8 functional entrypoints and their tasks", async () => {
    const { saver, seen, look, close } = setup();
    const double = task("double", (x: number) => {
      look("double");
      return x * 2;
    });
    const flow = saver.attach(
      entrypoint({ name: "flow", checkpointer: saver }, async (x: number) => {
        look("flow");
        return (await double(x)) + 1;
      }),
    );
    expect(await flow.invoke(20, config)).toBe(41);
    expect(seen).toEqual(["flow:Thought", "double:Thought"]);
    const turns = await saver.turns.list("t");
    expect(turns.map(line)).toEqual(["T flow", "T double", "A double ok*", "A flow ok*"]);
    expect(await Promise.all(turns.map((turn) => saver.turns.state(turn)))).toEqual([
      { input: 20 },
      { input: [20] },
      { output: 40 },
      { output: 41 },
    ]);
    close();
  });

  test("S1.8 createReactAgent: model and tools, with the tokens the model reported", async () => {
    const { saver, seen, look, close } = setup();
    const add = tool(
      ({ a, b }) => {
        look("tools");
        return String(a + b);
      },
      { name: "add", description: "adds", schema: z.object({ a: z.number(), b: z.number() }) },
    );
    const agent = createReactAgent({ llm: new ScriptedModel(), tools: [add], checkpointer: saver });
    saver.attach(agent);
    const result = await agent.invoke({ messages: [new HumanMessage("2+3")] }, config);
    expect(result.messages.at(-1)?.content).toBe("it is 5");
    expect(seen).toEqual(["tools:Thought"]);
    const actions = (await saver.turns.list("t")).filter((turn) => turn.turnType === "Action");
    expect(actions.map((turn) => [turn.nodeName, turn.tokens])).toEqual([
      ["agent", { input: 10, output: 5, cached: 0, reasoning: 0 }],
      ["tools", { input: 0, output: 0, cached: 0, reasoning: 0 }],
      ["agent", { input: 20, output: 7, cached: 0, reasoning: 0 }],
    ]);
    close();
  });

  test("S1.8 an agent that carries its graph as .graph is attached through it", async () => {
    const { saver, node, close } = setup();
    const graph = new StateGraph(MessagesAnnotation)
      .addNode("a", () => ({}))
      .addEdge(START, "a")
      .compile({ checkpointer: saver });
    saver.attach({ graph, node });
    await graph.invoke({ messages: [] }, config);
    expect((await saver.turns.list("t")).map(line)).toEqual(["T a", "A a ok*"]);
    close();
  });
});

describe("turns: what is recorded", () => {
  test("attach is in place and idempotent, and returns the graph", async () => {
    const { saver, node, close } = setup();
    const graph = new StateGraph(State).addNode("a", node("a")).addEdge(START, "a").compile({ checkpointer: saver });
    expect(saver.attach(graph)).toBe(graph);
    saver.attach(graph);
    new GraphRunner(graph);
    await graph.invoke({ log: [] }, config);
    expect((await saver.turns.list("t")).map(line)).toEqual(["T a", "A a ok*"]);
    close();
  });

  test("attach refuses what is no graph of this saver", () => {
    const { saver, node, close } = setup();
    const other = openSaver(":memory:");
    const graph = new StateGraph(State).addNode("a", node("a")).addEdge(START, "a");
    for (const wrong of [{}, graph, graph.compile(), graph.compile({ checkpointer: other })]) {
      expect(() => saver.attach(wrong)).toThrow(expect.objectContaining({ code: "INVALID_GRAPH" }));
    }
    other.close();
    close();
  });

  test("a Thought refers to its checkpoint instead of copying the state, an Action holds the update, both readable as JSON", async () => {
    const { saver, path, witness, node, close } = setup();
    const graph = saver.attach(
      new StateGraph(State)
        .addNode("a", node("a"))
        .addNode("b", node("b"))
        .addEdge(START, "a")
        .addEdge("a", "b")
        .compile({ checkpointer: saver }),
    );
    await graph.invoke({ log: ["x".repeat(10_000)] }, config);
    const rows = witness
      .prepare(
        `SELECT t.node_name, t.turn_type, t.serialized_state, s.step FROM langgraph_checkpoints AS t
           LEFT JOIN langgraph_snapshots AS s ON s.thread = t.thread AND s.checkpoint_ns = t.checkpoint_ns
             AND s.checkpoint_id = t.checkpoint_id ORDER BY t.seq`,
      )
      .all() as Record<string, string>[];
    expect(rows.map((row) => [row["step"], row["serialized_state"]])).toEqual([
      [0, "{}"],
      [0, '{"log":["a"]}'],
      [1, "{}"],
      [1, '{"log":["b"]}'],
    ]);
    expect(JSON.parse(rows[3]?.["serialized_state"] ?? "")).toEqual({ log: ["b"] });
    const [, , thought] = await saver.turns.list("t");
    expect(await saver.turns.state(thought as Turn)).toEqual({ log: ["x".repeat(10_000), "a"] });
    const db = new Database(path);
    const persister = openPersister(path, db);
    expect((await persister.load((thought as Turn).id))?.state).toEqual({ log: ["x".repeat(10_000), "a"] });
    expect(await persister.loadLatest("t")).toMatchObject({ nodeName: "b", turnType: "Action", state: { log: ["b"] } });
    db.close();
    close();
  });

  test("not attached: works as a checkpointer, derives the turns from the checkpoints, and says so once", async () => {
    const warnings: string[] = [];
    const saver = openSaver(":memory:", { logger: { ...quiet, warn: (_data, message) => void warnings.push(message) } });
    const graph = new StateGraph(State)
      .addNode("a", () => ({ log: ["a"] }))
      .addNode("b", () => ({ log: ["b"] }))
      .addNode("j", () => ({ log: ["j"] }))
      .addNode("w", () => ({ log: ["w"] }))
      .addEdge(START, "a")
      .addEdge(START, "b")
      .addEdge(["a", "b"], "j")
      .addConditionalEdges("j", () => [new Send("w", {}), new Send("w", {})], ["w"])
      .compile({ checkpointer: saver });
    expect(await graph.invoke({ log: [] }, config)).toEqual({ log: ["a", "b", "j", "w", "w"] });
    const turns = await saver.turns.list("t");
    expect(turns.map(line)).toEqual(["T a", "T b", "A a ok*", "A b ok*", "T j", "A j ok*", "T w", "T w", "A w ok*", "A w ok*"]);
    expect(warnings.filter((message) => message.includes("saver.attach(graph)"))).toHaveLength(1);
    saver.close();
  });

  test.each(["async", "sync", "exit"] as const)(
    "not attached: what has finished or asks isn't in flight, durability %s",
    async (durability) => {
      const saver = openSaver(":memory:", { logger: quiet });
      const told: string[] = [];
      saver.events.on("turn", (turn) => void told.push(line(turn)));
      const graph = new StateGraph(State)
        .addNode("a", () => ({ log: ["a"] }))
        .addNode("asks", () => ({ log: [interrupt<string, string>("well?")] }))
        .addEdge(START, "a")
        .addEdge(START, "asks")
        .compile({ checkpointer: saver });
      await graph.invoke({ log: [] }, { ...config, durability });
      const turns = await saver.turns.list("t");
      expect(turns.map(line).toSorted()).toEqual(["A a ok*", "A asks interrupted", "T a", "T asks"]);
      expect(told.toSorted()).toEqual(["A a ok*", "A asks interrupted"]);
      const action = turns.find(({ turnType, nodeName }) => turnType === "Action" && nodeName === "a");
      expect(await saver.turns.state(action as Turn)).toEqual({ log: ["a"] });
      expect(await saver.turns.inFlight("t")).toEqual([]);
      saver.close();
    },
  );

  test.each(["async", "sync"] as const)(
    "not attached: each attempt that finished has an Action with what came of it, durability %s",
    async (durability) => {
      const saver = openSaver(":memory:", { logger: quiet });
      let tries = 0;
      const graph = new StateGraph(State)
        .addNode("asks", () => ({ log: [interrupt<string, string>("well?")] }))
        .addNode("fails", () => {
          if (tries++ === 0) throw new Error("not yet");
          return { log: ["done"] };
        })
        .addEdge(START, "asks")
        .addEdge("asks", "fails")
        .compile({ checkpointer: saver });
      const options = { ...config, durability };
      await graph.invoke({ log: [] }, options);
      await graph.invoke(new Command({ resume: "so" }), options).catch(() => undefined);
      await graph.invoke(null, options);
      const actions = (await saver.turns.list("t")).filter(({ turnType }) => turnType === "Action");
      const states = await Promise.all(actions.map(async (turn) => [line(turn), await saver.turns.state(turn)]));
      expect(states).toEqual([
        ["A asks interrupted", {}],
        ["A asks ok*", { log: ["so"] }],
        ["A fails error", {}],
        ["A fails ok*", { log: ["done"] }],
      ]);
      expect(await saver.turns.inFlight("t")).toEqual([]);
      expect(await saver.verify()).toMatchObject({ ok: true });
      saver.close();
    },
  );

  test("not attached: an Action is saved once, however many graphs run and though its checkpoint is saved again", async () => {
    const saver = openSaver(":memory:", { logger: quiet });
    const told: string[] = [];
    saver.events.on("turn", (turn) => void told.push(line(turn)));
    saver.events.on("turn_failed", ({ error }) => void told.push(String(error)));
    const id = "1ef4f797-8335-6428-8001-8a1503f9b875";
    const put = (threadId: string, parentId?: string) =>
      saver.put(
        { configurable: { thread_id: threadId, checkpoint_ns: "", ...(parentId && { checkpoint_id: parentId }) } },
        {
          ...{ v: 4, id, ts: "2026-01-01T00:00:00Z", versions_seen: {} },
          ...{ channel_values: { "branch:to:a": null }, channel_versions: { "branch:to:a": 1 } },
        },
        { source: "loop", step: 0, parents: {} },
      );
    await put("t");
    for (let other = 0; other < 1_100; other += 1) await put(`other ${other}`);
    const task = pullTaskId("a", 1, "a", ["branch:to:a"], id);
    await saver.putWrites({ configurable: { thread_id: "t", checkpoint_ns: "", checkpoint_id: id } }, [["log", ["a"]]], task);
    await put("t", id);
    expect(told).toEqual(["A a ok*"]);
    expect((await saver.turns.list("t")).filter(({ turnType }) => turnType === "Action").map(line)).toEqual(["A a ok*"]);
    saver.close();
  });

  test("not attached: an Action holds what its node returned, no matter what the channels are called", async () => {
    const saver = openSaver(":memory:", { logger: quiet });
    const names = ["~", 'a"b', "plain", "list"] as const;
    const states = Object.fromEntries(names.map((name) => [name, Annotation<unknown>()]));
    const update = {
      "~": "chunk",
      'a"b': { "~": "undefined", big: "x".repeat(500) },
      plain: new Date(5),
      list: [new HumanMessage({ id: "h", content: "y".repeat(500) })],
    };
    const graph = new StateGraph(Annotation.Root(states))
      .addNode("a", () => update)
      .addEdge(START, "a")
      .compile({ checkpointer: saver });
    await graph.invoke({ plain: 1 }, config);
    const turns = await saver.turns.list("t");
    const action = turns.find(({ turnType }) => turnType === "Action");
    expect(await saver.turns.state(action as Turn)).toStrictEqual(update);
    expect(await graph.getState(config)).toMatchObject({ values: update });
    saver.close();
  });

  test("not attached: each Thought has its Action while somebody else holds the file's lock", async () => {
    const path = tempFile();
    const saver = openSaver(path, { logger: quiet });
    const other = new Database(path);
    const node = (name: string) => () => ({ log: [name] });
    const holds = (): object => {
      other.exec("BEGIN IMMEDIATE");
      setTimeout(() => other.exec("COMMIT"), 60);
      return { log: ["a"] };
    };
    const graph = new StateGraph(State)
      .addNode({ a: holds, b: node("b"), c: node("c"), d: node("d") })
      .addEdge(START, "a")
      .addEdge("a", "b")
      .addEdge("b", "c")
      .addEdge("c", "d")
      .compile({ checkpointer: saver });
    await graph.invoke({ log: [] }, config);
    const turns = (await saver.turns.list("t")).map(line);
    expect(turns.toSorted()).toEqual(["A a ok*", "A b ok*", "A c ok*", "A d ok*", "T a", "T b", "T c", "T d"]);
    other.close();
    saver.close();
  });

  test('durability "exit" keeps nothing on a crash: it warns, and turns are recorded all the same', async () => {
    const warnings: string[] = [];
    const saver = openSaver(":memory:", { logger: { ...quiet, warn: (_data, message) => void warnings.push(message) } });
    const graph = saver.attach(
      new StateGraph(State)
        .addNode("a", () => ({ log: ["a"] }))
        .addEdge(START, "a")
        .compile({ checkpointer: saver }),
    );
    await graph.invoke({ log: [] }, { ...config, durability: "exit" });
    await graph.invoke({ log: [] }, { ...config, durability: "exit" });
    expect(warnings.filter((message) => message.includes("exit"))).toHaveLength(1);
    expect((await saver.turns.list("t")).map((turn) => turn.turnType)).toEqual(["Thought", "Action", "Thought", "Action"]);
    expect(await saver.turns.tasks("t")).toHaveLength(2);
    saver.close();
  });

  test("S1.9 onTurnError: throw stops the node before its work", async () => {
    const { path, saver, close } = setup();
    saver.close();
    const strict = openSaver(path, { logger: quiet, onTurnError: "throw" });
    const db = new Database(path);
    db.exec("CREATE TRIGGER no_turns BEFORE INSERT ON langgraph_checkpoints BEGIN SELECT RAISE(ABORT, 'no turns'); END");
    let ran = false;
    const graph = strict.attach(
      new StateGraph(State)
        .addNode("a", () => {
          ran = true;
          return { log: ["a"] };
        })
        .addEdge(START, "a")
        .compile({ checkpointer: strict }),
    );
    await expect(graph.invoke({ log: [] }, config)).rejects.toThrow(expect.objectContaining({ code: "STORE_FAILED" }));
    expect(ran).toBe(false);
    db.close();
    strict.close();
    close();
  });

  test.each(["async", "sync"] as const)(
    "a checkpoint that cannot be saved stops the run at the next node, durability %s, and no rejection goes unhandled",
    async (durability) => {
      const unhandled: unknown[] = [];
      const listen = (error: unknown): void => void unhandled.push(error);
      process.on("unhandledRejection", listen);
      const { path, saver, seen, node, close } = setup();
      const db = new Database(path);
      const graph = saver.attach(
        new StateGraph(State)
          .addNode("a", node("a"))
          .addNode("b", node("b"))
          .addNode("c", node("c"))
          .addEdge(START, "a")
          .addEdge("a", "b")
          .addEdge("b", "c")
          .compile({ checkpointer: saver }),
      );
      db.exec(
        "CREATE TRIGGER full BEFORE INSERT ON langgraph_snapshots WHEN NEW.step = 1 BEGIN SELECT RAISE(ABORT, 'disk full'); END",
      );
      await expect(graph.invoke({ log: [] }, { ...config, durability })).rejects.toThrow("disk full");
      await new Promise((resolve) => setTimeout(resolve, 100));
      expect(seen).toEqual(["a:Thought"]);
      db.exec("DROP TRIGGER full");
      expect(await graph.invoke(null, config)).toEqual({ log: ["a", "b", "c"] });
      expect(seen).toEqual(["a:Thought", "b:Thought", "c:Thought"]);
      expect(unhandled).toEqual([]);
      process.off("unhandledRejection", listen);
      db.close();
      close();
    },
  );

  test("a node's retry policy does not run the body on a checkpoint that could not be saved", async () => {
    const { path, saver, seen, node, close } = setup();
    const db = new Database(path);
    const retryPolicy = { maxAttempts: 3, initialInterval: 1, jitter: false, retryOn: () => true, logWarning: false };
    const graph = saver.attach(
      new StateGraph(State)
        .addNode("a", node("a"))
        .addNode("b", node("b"), { retryPolicy })
        .addEdge(START, "a")
        .addEdge("a", "b")
        .compile({ checkpointer: saver }),
    );
    db.exec(
      "CREATE TRIGGER full BEFORE INSERT ON langgraph_snapshots WHEN NEW.step = 1 BEGIN SELECT RAISE(ABORT, 'disk full'); END",
    );
    await expect(graph.invoke({ log: [] }, config)).rejects.toThrow("disk full");
    expect(seen).toEqual(["a:Thought"]);
    db.close();
    close();
  });

  test("onCheckpointError: continue lets the run continue, reports, and loses no value that the failed checkpoint held", async () => {
    const path = tempFile();
    const saver = openSaver(path, { logger: quiet, onCheckpointError: "continue" });
    const failed: string[] = [];
    saver.events.on("checkpoint_failed", ({ checkpointId }) => failed.push(checkpointId));
    const db = new Database(path);
    db.exec(
      "CREATE TRIGGER full BEFORE INSERT ON langgraph_snapshots WHEN NEW.step = 1 BEGIN SELECT RAISE(ABORT, 'disk full'); END",
    );
    const graph = saver.attach(
      new StateGraph(Annotation.Root({ x: Annotation<string>, y: Annotation<string> }))
        .addNode("a", () => ({ x: "from a" }))
        .addNode("b", () => ({ y: "from b" }))
        .addEdge(START, "a")
        .addEdge("a", "b")
        .compile({ checkpointer: saver }),
    );
    expect(await graph.invoke({ x: "in" }, config)).toEqual({ x: "from a", y: "from b" });
    expect(failed).toHaveLength(1);
    expect((await graph.getState(config)).values).toEqual({ x: "from a", y: "from b" });
    db.close();
    saver.close();
  });

  test("a page of turns: after and limit, and what is no number is refused", async () => {
    const { saver, node, close } = setup();
    const graph = saver.attach(
      new StateGraph(State).addNode("a", node("a")).addEdge(START, "a").compile({ checkpointer: saver }),
    );
    await graph.invoke({ log: [] }, config);
    const [first, second] = await saver.turns.list("t");
    expect(await saver.turns.list("t", { limit: 1 })).toEqual([first]);
    expect(await saver.turns.list("t", { after: first?.seq ?? 0 })).toEqual([second]);
    for (const wrong of [{ limit: 1.5 }, { limit: -1 }, { after: "1" }, { pages: 1 }]) {
      await expect(saver.turns.list("t", wrong as object)).rejects.toThrow(expect.objectContaining({ code: "INVALID_OPTION" }));
    }
    close();
  });

  test("a listener that throws is logged and harms nothing", async () => {
    const errors: string[] = [];
    const saver = openSaver(":memory:", { logger: { ...quiet, error: (_data, message) => void errors.push(message) } });
    for (const name of ["turn", "checkpoint"] as const) {
      saver.events.on(name, () => {
        throw new Error("listener");
      });
    }
    const graph = saver.attach(
      new StateGraph(State)
        .addNode("a", () => ({ log: ["a"] }))
        .addEdge(START, "a")
        .compile({ checkpointer: saver }),
    );
    expect(await graph.invoke({ log: [] }, config)).toEqual({ log: ["a"] });
    expect((await saver.turns.list("t")).map(line)).toEqual(["T a", "A a ok*"]);
    expect(new Set(errors)).toEqual(new Set(["a listener of the saver's events threw"]));
    saver.close();
  });
});

/** Calls the tool once, then answers; reports usage as real models do. */
class ScriptedModel extends BaseChatModel {
  #turn = 0;

  override _llmType(): string {
    return "scripted";
  }

  override bindTools(): this {
    return this;
  }

  override async _generate(_messages: BaseMessage[]): Promise<ChatResult> {
    this.#turn += 1;
    const message =
      this.#turn === 1
        ? new AIMessage({
            content: "",
            tool_calls: [{ id: "call-1", name: "add", args: { a: 2, b: 3 } }],
            usage_metadata: { input_tokens: 10, output_tokens: 5, total_tokens: 15 },
          })
        : new AIMessage({ content: "it is 5", usage_metadata: { input_tokens: 20, output_tokens: 7, total_tokens: 27 } });
    return { generations: [{ text: message.text, message }] };
  }

  constructor() {
    super({});
  }
}
