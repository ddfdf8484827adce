import { internalsOf } from "../../src/testing-internal";
import { spawn } from "node:child_process";
import { join } from "node:path";
import { RunnableLambda } from "@langchain/core/runnables";
import {
  Annotation,
  Command,
  entrypoint,
  INTERRUPT,
  interrupt,
  MemorySaver,
  START,
  StateGraph,
  task,
} from "@langchain/langgraph";
import { emptyCheckpoint, RESUME } from "@langchain/langgraph-checkpoint";
import { GraphRunner, type TurnSaver } from "langgraph-checkpoint-turns";
import { tempFile } from "../support/temp";
import { childProgram } from "../support/child-program";
import { openSaver } from "../support/open-saver";
import { copyStore } from "../support/s1-tools";

const State = Annotation.Root({
  log: Annotation<string[]>({ reducer: (left, right) => left.concat(right), default: () => [] }),
});

function setup() {
  const warnings: string[] = [];
  const logger = { debug() {}, info() {}, warn: (_data: object, message: string) => void warnings.push(message), error() {} };
  const path = tempFile();
  const saver = openSaver(path, { logger });
  return { path, saver, warnings };
}

/** a → b → c, where b fails as long as `broken.now`. */
function fragileGraph(saver: TurnSaver, broken: { now: boolean }) {
  return new StateGraph(State)
    .addNode("a", () => ({ log: ["a"] }))
    .addNode("b", () => {
      if (broken.now) throw new Error("b is broken");
      return { log: ["b"] };
    })
    .addNode("c", () => ({ log: ["c"] }))
    .addEdge(START, "a")
    .addEdge("a", "b")
    .addEdge("b", "c")
    .compile({ checkpointer: saver });
}

function askingGraph(saver: TurnSaver) {
  return new StateGraph(State)
    .addNode("ask", () => ({ log: [interrupt<string, string>("?")] }))
    .addEdge(START, "ask")
    .compile({ checkpointer: saver });
}

describe("runner: construction", () => {
  test("refuses a graph without a TurnSaver, and options that do not exist", () => {
    const builder = new StateGraph(State).addNode("a", () => ({})).addEdge(START, "a");
    for (const graph of [builder.compile(), builder.compile({ checkpointer: new MemorySaver() })]) {
      expect(() => new GraphRunner(graph)).toThrow(expect.objectContaining({ code: "INVALID_GRAPH" }));
    }
    const { saver } = setup();
    const graph = builder.compile({ checkpointer: saver });
    expect(() => new GraphRunner(graph, { onUnfinished: "maybe" as "refuse" })).toThrow(
      /^Option "onUnfinished" is "maybe"\. Pass "refuse", "finish" or "abandon"\.$/,
    );
    expect(() => new GraphRunner(graph, { undo: {} } as object)).toThrow(expect.objectContaining({ code: "INVALID_OPTION" }));
    expect(() => new GraphRunner(saver as never, graph as never)).toThrow(/^The graph is .*TurnSaver.*, not a compiled one\./);
    saver.close();
  });
});

describe("S8.3 S3.4 two runners on one graph", () => {
  const confident = () => ({ confidence: 1 });

  test.each([
    ["gates", { nodes: { a: { validate: confident } } }, { nodes: { a: { validate: () => ({ confidence: 1 }) } } }],
    ["gates", { nodes: { a: { validate: confident, minConfidence: 0.5 } } }, { nodes: { a: { validate: confident } } }],
    ["gates", {}, { nodes: { a: { validate: confident } } }],
    ["versions", { nodes: { a: { version: "1" } } }, { nodes: { a: { version: "2" } } }],
    ["stateVersion", { stateVersion: "1" }, { stateVersion: "2" }],
  ] as const)("S8.3 S3.4 the second one doesn't change the first one's %s (%#)", async (option, first, second) => {
    const { saver } = setup();
    const builder = new StateGraph(State).addNode("a", () => ({ log: ["a"] })).addEdge(START, "a");
    const graph = builder.compile({ checkpointer: saver });
    const runner = new GraphRunner(graph, first);
    const document = await internalsOf(saver).documentOf(graph);
    expect(() => new GraphRunner(graph, second)).toThrow(
      expect.objectContaining({
        code: "INVALID_OPTION",
        data: { option },
        message: expect.stringMatching(/^This graph has a GraphRunner with other .*compile the graph once more/) as string,
      }),
    );
    expect(await internalsOf(saver).documentOf(graph)).toEqual(document);
    expect(await runner.invoke({ log: [] }, { threadId: "t" })).toEqual({ log: ["a"] });
    const other = new GraphRunner(builder.compile({ checkpointer: saver }), second);
    expect(await other.invoke({ log: [] }, { threadId: "u" })).toEqual({ log: ["a"] });
    saver.close();
  });

  test("S8.3 with the same gates and labels, or none, it shares them; everything else is its own", async () => {
    const { saver } = setup();
    const graph = fragileGraph(saver, { now: false });
    // A runner that was refused settles nothing.
    expect(() => new GraphRunner(graph, { gates: { minConfidence: 5 }, stateVersion: "0" })).toThrow(/minConfidence/);
    let gated = 0;
    const shared = {
      nodes: { a: { version: "1", validate: () => ((gated += 1), { confidence: 1 }) } },
      gates: { minConfidence: 0.5 },
      stateVersion: "1",
    };
    new GraphRunner(graph, shared);
    const same = new GraphRunner(graph, { ...shared, nodes: { ...shared.nodes }, onUnfinished: "abandon", graphId: "own" });
    const none = new GraphRunner(graph, { onUnfinished: "finish" });
    await same.invoke({ log: [] }, { threadId: "t" });
    await none.invoke({ log: [] }, { threadId: "u" });
    expect(gated).toBe(2);
    expect((await saver.turns.tasks("t"))[0]?.graphId).toBe("own");
    expect((await saver.turns.tasks("u"))[0]?.graphId).toBe("u");
    saver.close();
  });
});

describe("runner: answers", () => {
  test("hundreds of unused answers are found in no time", async () => {
    const { saver } = setup();
    const config = { configurable: { thread_id: "t", checkpoint_ns: "" } };
    const at = await saver.put(config, { ...emptyCheckpoint(), id: "1" }, { source: "input", step: -1, parents: {} }, {});
    const numbers = Array.from({ length: 400 }, (_, number) => number);
    await Promise.all(numbers.map((number) => saver.putWrites(at, [[INTERRUPT, [{ value: "?" }]]], `task ${number}`)));
    await Promise.all(numbers.map((number) => saver.putWrites(at, [[RESUME, "yes"]], `question ${number}`)));
    await saver.putWrites(at, [["a", 1]], "task 7");
    let fastest = Infinity;
    // A busy machine may hold up one look, or a few.
    for (let tries = 0; tries < 20 && fastest >= 1_000; tries += 1) {
      const since = performance.now();
      expect((await internalsOf(saver).lastRun("t"))?.answers.size).toBe(400);
      fastest = Math.min(fastest, performance.now() - since);
    }
    expect(fastest).toBeLessThan(1_000);
    saver.close();
  });
});

describe("runner: tasks", () => {
  test("an input without a task id starts a task named after its checkpoint; a given id and graph id are kept", async () => {
    const { saver } = setup();
    const runner = new GraphRunner(fragileGraph(saver, { now: false }));
    await runner.invoke({ log: [] }, { threadId: "t" });
    await runner.invoke({ log: [] }, { threadId: "t", taskId: "second", graphId: "flow" });
    const [first, second] = await saver.turns.tasks("t");
    const inputs = [];
    for await (const tuple of saver.list({ configurable: { thread_id: "t" } }, { filter: { source: "input" } }))
      inputs.unshift(tuple.checkpoint.id);
    expect(first).toMatchObject({ taskId: inputs[0], graphId: "t" });
    expect(second).toMatchObject({ taskId: "second", graphId: "flow" });
    const turns = await saver.turns.list("t");
    expect(turns.map((turn) => turn.taskId)).toEqual([
      ...Array<string>(6).fill(inputs[0] ?? ""),
      ...Array<string>(6).fill("second"),
    ]);
    expect(turns.at(-1)?.graphId).toBe("flow");
    saver.close();
  });
});

describe("runner: rewind", () => {
  test("S1.5 a task that continued behind the target is named in the report, and contradicts a list that has it before", async () => {
    const { saver } = setup();
    const runner = new GraphRunner(fragileGraph(saver, { now: false }));
    for (const taskId of ["A", "B", "A"]) await runner.invoke({ log: [] }, { threadId: "t", taskId });
    expect((await runner.rewind({ threadId: "t", toTask: "B", dryRun: true })).tasks).toEqual(["A"]);
    await expect(runner.rewind({ threadId: "t", toTask: "B", tasks: ["A", "B"] })).rejects.toThrow(
      expect.objectContaining({ code: "STATE_INVARIANT_VIOLATED" }),
    );
    await runner.rewind({ threadId: "t", toTask: "B" });
    expect((await saver.turns.tasks("t")).map((task) => task.taskId)).toEqual(["A", "B"]);
    saver.close();
  });
});

describe("S2.5 runner: unfinished work", () => {
  test("S2.5 new input is refused, and nothing is lost; resume continues at the failed node without the finished one", async () => {
    const { saver } = setup();
    const broken = { now: true };
    const runner = new GraphRunner(fragileGraph(saver, broken));
    await expect(runner.invoke({ log: ["in"] }, { threadId: "t" })).rejects.toThrow("b is broken");
    await expect(runner.invoke({ log: ["new"] }, { threadId: "t" })).rejects.toThrow(
      expect.objectContaining({
        code: "UNFINISHED_WORK",
        data: expect.objectContaining({ nodes: ["b"], waits: false }) as unknown,
      }),
    );
    broken.now = false;
    expect(await runner.resume({ threadId: "t" })).toEqual({ log: ["in", "a", "b", "c"] });
    expect(await runner.invoke({ log: ["new"] }, { threadId: "t" })).toEqual({
      log: ["in", "a", "b", "c", "new", "a", "b", "c"],
    });
    saver.close();
  });

  test("S2.5 onUnfinished: finish resumes first; abandon lets the input replace what was left", async () => {
    const { saver } = setup();
    const broken = { now: true };
    const runner = new GraphRunner(fragileGraph(saver, broken));
    for (const threadId of ["finish", "abandon"])
      await expect(runner.invoke({ log: ["in"] }, { threadId })).rejects.toThrow("b is broken");
    broken.now = false;
    expect(await runner.invoke({ log: ["new"] }, { threadId: "finish", onUnfinished: "finish" })).toEqual({
      log: ["in", "a", "b", "c", "new", "a", "b", "c"],
    });
    expect(await runner.invoke({ log: ["new"] }, { threadId: "abandon", onUnfinished: "abandon" })).toEqual({
      log: ["in", "a", "new", "a", "b", "c"],
    });
    saver.close();
  });

  test("S2.5 a thread that waits for a person: new input is refused, with finish too; a Command answers it", async () => {
    const { saver } = setup();
    const runner = new GraphRunner(askingGraph(saver));
    await runner.invoke({ log: [] }, { threadId: "t" });
    const [{ id } = {}] = (await runner.status("t")).waiting;
    expect(id).toMatch(/^[0-9a-f]{32}$/);
    for (const onUnfinished of ["refuse", "finish"] as const) {
      await expect(runner.invoke({ log: ["x"] }, { threadId: "t", onUnfinished })).rejects.toMatchObject({
        code: "UNFINISHED_WORK",
        message: expect.stringMatching(
          new RegExp(`waits for an answer at "ask".* new Command\\(\\{ resume: \\{ "${id}": answer \\} \\}\\) \\}\\)\\.`),
        ),
      });
    }
    expect(await runner.resume({ threadId: "t", command: new Command({ resume: "yes" }) })).toEqual({ log: ["yes"] });
    await runner.invoke({ log: [] }, { threadId: "u" });
    expect(await runner.invoke(new Command({ resume: "no" }), { threadId: "u" })).toEqual({ log: ["no"] });
    saver.close();
  });

  test("S2.5 work that next does not show is found: a step whose writes are saved and whose checkpoint is not", async () => {
    const { saver, path } = setup();
    const graph = fragileGraph(saver, { now: false });
    const runner = new GraphRunner(graph);
    const die = spawn(process.execPath, [...childProgram(join(__dirname, "die-before-put.ts")), path], {
      stdio: "inherit",
    });
    const signal = await new Promise((resolve) => die.on("close", (_code, by) => resolve(by)));
    expect(signal).toBe("SIGKILL");
    expect((await graph.getState({ configurable: { thread_id: "t" } })).next).toEqual([]);
    await expect(runner.invoke({ log: ["new"] }, { threadId: "t" })).rejects.toThrow(
      expect.objectContaining({ code: "UNFINISHED_WORK" }),
    );
    // The other process compiled the same source another way, which a source hash takes for a change.
    expect(await runner.resume({ threadId: "t", drift: "continue" })).toEqual({ log: ["in", "a", "b", "c"] });
    saver.close();
  });

  test("resume: a thread without a checkpoint is NOTHING_TO_RESUME; a finished one gives its result without running", async () => {
    const { saver } = setup();
    const runner = new GraphRunner(fragileGraph(saver, { now: false }));
    await expect(runner.resume({ threadId: "t" })).rejects.toThrow(expect.objectContaining({ code: "NOTHING_TO_RESUME" }));
    await runner.invoke({ log: [] }, { threadId: "t" });
    const turns = await saver.turns.list("t");
    expect(await runner.resume({ threadId: "t" })).toEqual({ log: ["a", "b", "c"] });
    expect(await saver.turns.list("t")).toEqual(turns);
    saver.close();
  });

  test("S2.9 a node that was running when the process died gives a warning before it runs again, unless it is declared idempotent", async () => {
    const { saver, path, warnings } = setup();
    const die = spawn(process.execPath, [...childProgram(join(__dirname, "die-before-put.ts")), path, "in-b"], {
      stdio: "inherit",
    });
    await new Promise((resolve) => die.on("close", resolve));
    expect((await saver.turns.inFlight("t")).map((turn) => turn.nodeName)).toEqual(["b"]);
    await saver.copyThread("t", "u");
    // The other process compiled the same source another way, which a source hash takes for a change.
    const drift = "continue";
    const repeats = (): string[] => warnings.filter((message) => message.startsWith("Re-running"));
    const declared = new GraphRunner(fragileGraph(saver, { now: false }), { nodes: { b: { idempotent: true } }, drift });
    await declared.resume({ threadId: "u" });
    expect(repeats()).toEqual([]);
    await new GraphRunner(fragileGraph(saver, { now: false }), { drift }).resume({ threadId: "t" });
    expect(repeats()).toEqual([
      'Re-running node "b" of thread "t": its last attempt stopped before the result was saved. Anything it did outside effect() may happen twice. ' +
        "To silence this: new GraphRunner(graph, { nodes: { b: { idempotent: true } } })",
    ]);
    saver.close();
  });

  test("S2.9 a node that the graph doesn't have is refused by name, with the nearest one and the list", () => {
    const { saver } = setup();
    const inner = new StateGraph(State)
      .addNode("search", () => ({ log: ["search"] }))
      .addNode("read", () => ({}))
      .addEdge(START, "search")
      .addEdge("search", "read")
      .compile();
    const graph = new StateGraph(State)
      .addNode("plan", async (state) => ({ log: (await inner.invoke(state)).log }))
      .addNode("work", inner)
      .addEdge(START, "plan")
      .addEdge("plan", "work")
      .compile({ checkpointer: saver });
    const runnerWith = (...names: string[]): unknown =>
      new GraphRunner(graph, { nodes: Object.fromEntries(names.map((name) => [name, { idempotent: true }])) });
    const refusals: [string, string | undefined][] = [
      ["serach", "search"],
      ["Plan", "plan"],
      ["works|search", "work|search"],
      ["work|serach", "work|search"],
      ["something else", undefined],
      ["toString", undefined],
    ];
    for (const [name, nearest] of refusals) {
      try {
        runnerWith("plan", name);
        throw new Error(`${name} was accepted`);
      } catch (error) {
        expect(error).toMatchObject({ code: "INVALID_OPTION", data: { option: `nodes.${name}`, nearest } });
        const { message } = error as Error;
        expect(message).toContain(`Option "nodes" names "${name}", but the graph has no such node.`);
        expect(message).toContain("Its nodes: plan, work, work|read, work|search.");
        expect(message.includes(`Did you mean "${String(nearest)}"?`)).toBe(nearest !== undefined);
      }
    }
    for (const name of ["plan", "search", "work|search", "plan|anything"]) expect(() => runnerWith(name)).not.toThrow();
    const flow = entrypoint({ name: "flow", checkpointer: saver }, async () => "done");
    expect(() => new GraphRunner(flow, { nodes: { taskOfItsOwn: { idempotent: true } } })).not.toThrow();
    saver.close();
  });

  test("S2.9 a node inside a node is declared idempotent by its path or its name", async () => {
    for (const [name, warns] of [
      ["outer|inner", false],
      ["inner", false],
      ["outer", true],
    ] as const) {
      const { saver, path, warnings } = setup();
      let now = true;
      const build = (on: TurnSaver) =>
        new StateGraph(State)
          .addNode(
            "outer",
            new StateGraph(State)
              .addNode("inner", () => (now ? new Promise<never>(() => undefined) : { log: ["inner"] }))
              .addEdge(START, "inner")
              .compile(),
          )
          .addEdge(START, "outer")
          .compile({ checkpointer: on });
      void new GraphRunner(build(saver)).invoke({ log: [] }, { threadId: "t" }).catch(() => undefined);
      while ((await saver.turns.inFlight("t")).length < 2) await new Promise((resolve) => setTimeout(resolve, 5));
      const copy = `${path}-copy`;
      copyStore(path, copy);
      saver.close();
      now = false;
      const later = openSaver(copy, { logger: internalsOf(saver).logger });
      await later.copyThread("t", "u");
      await new GraphRunner(build(later), { nodes: { [name]: { idempotent: true } }, drift: "continue" }).resume({
        threadId: "u",
      });
      expect({ name, warned: warnings.some((line) => line.startsWith('Re-running node "outer|inner"')) }).toEqual({
        name,
        warned: warns,
      });
      later.close();
    }
  });

  test("a thread that runs is refused: a second input, a resume and a rewind", async () => {
    const { saver } = setup();
    let release = (): void => undefined;
    const gate = new Promise<void>((resolve) => (release = resolve));
    const graph = new StateGraph(State)
      .addNode("slow", async () => {
        await gate;
        return { log: ["slow"] };
      })
      .addEdge(START, "slow")
      .compile({ checkpointer: saver });
    const runner = new GraphRunner(graph);
    const running = runner.invoke({ log: [] }, { threadId: "t", taskId: "one" });
    while ((await saver.turns.inFlight("t")).length === 0) await new Promise((resolve) => setTimeout(resolve, 5));
    const refused = expect.objectContaining({ code: "THREAD_RUNNING" }) as Error;
    await expect(runner.invoke({ log: [] }, { threadId: "t" })).rejects.toThrow(refused);
    await expect(runner.resume({ threadId: "t" })).rejects.toThrow(refused);
    await expect(runner.rewind({ threadId: "t", toTask: "one" })).rejects.toThrow(refused);
    release();
    await running;
    expect(await saver.turns.isRunning("t")).toBe(false);
    await runner.rewind({ threadId: "t", toTask: "one" });
    saver.close();
  });
});

describe("runner: streams and functional graphs", () => {
  test.each(["values", "updates", "messages", "custom", "tasks", "checkpoints", "debug"] as const)(
    "stream mode %s passes through",
    async (streamMode) => {
      const { saver } = setup();
      const chunks: unknown[] = [];
      const graph = fragileGraph(saver, { now: false });
      for await (const chunk of await new GraphRunner(graph).stream({ log: [] }, { threadId: "t", streamMode }))
        chunks.push(chunk);
      const direct: unknown[] = [];
      for await (const chunk of await graph.stream({ log: [] }, { configurable: { thread_id: "u" }, streamMode }))
        direct.push(chunk);
      expect(chunks).toHaveLength(direct.length);
      if (streamMode === "values" || streamMode === "updates") expect(chunks).toEqual(direct);
      saver.close();
    },
  );

  test("breaking out of a stream lets the run end in the background; the thread is free again afterwards", async () => {
    const { saver } = setup();
    const runner = new GraphRunner(fragileGraph(saver, { now: false }));
    for await (const _ of await runner.stream({ log: [] }, { threadId: "t", streamMode: "updates" })) break;
    while (await saver.turns.isRunning("t")) await new Promise((resolve) => setTimeout(resolve, 50));
    const state = await runner.resume({ threadId: "t" });
    expect(state).toEqual({ log: ["a", "b", "c"] });
    saver.close();
  });

  test("a functional entrypoint resumes without repeating its finished tasks", async () => {
    const { saver } = setup();
    const ran: string[] = [];
    let broken = true;
    const one = task("one", () => {
      ran.push("one");
      return 1;
    });
    const two = task("two", () => {
      ran.push("two");
      if (broken) throw new Error("two is broken");
      return 2;
    });
    const flow = entrypoint({ name: "flow", checkpointer: saver }, async (x: number) => x + (await one()) + (await two()));
    const runner = new GraphRunner(flow);
    await expect(runner.invoke(10, { threadId: "t" })).rejects.toThrow("two is broken");
    broken = false;
    expect(await runner.resume({ threadId: "t" })).toBe(13);
    expect(ran).toEqual(["one", "two", "two"]);
    saver.close();
  });
});

describe("runner: nested graphs resume where they stopped (langgraphjs#2667)", () => {
  /** x → (y ∥ q), where q fails while `broken`; nested `depth` times as a node of a graph. */
  function nestedGraph(saver: TurnSaver, ran: string[], broken: { now: boolean }, depth: number) {
    const unique = Annotation.Root({
      log: Annotation<string[]>({ reducer: (left, right) => [...new Set([...left, ...right])].sort(), default: () => [] }),
    });
    let graph = new StateGraph(unique)
      .addNode("x", () => (ran.push("x"), { log: ["x"] }))
      .addNode("y", () => (ran.push("y"), { log: ["y"] }))
      .addNode("q", async () => {
        await new Promise((resolve) => setTimeout(resolve, 20));
        ran.push("q");
        if (broken.now) throw new Error("q is broken");
        return { log: ["q"] };
      })
      .addEdge(START, "x")
      .addEdge("x", "y")
      .addEdge("x", "q")
      .compile() as unknown as ReturnType<typeof fragileGraph>;
    for (let level = 1; level <= depth; level += 1) {
      const checkpointer = level === depth ? { checkpointer: saver } : {};
      graph = new StateGraph(unique)
        .addNode(`g${level}`, graph as never)
        .addEdge(START, `g${level}` as "__start__")
        .compile(checkpointer) as never;
    }
    return graph;
  }

  test("finished siblings of a graph that a node calls from its closure do not run again", async () => {
    const { saver } = setup();
    const ran: string[] = [];
    const broken = { now: true };
    const inner = nestedGraph(saver, ran, broken, 0);
    const runner = new GraphRunner(
      new StateGraph(State)
        .addNode("calls", async () => ({ log: (await inner.invoke({ log: [] })).log }))
        .addEdge(START, "calls")
        .compile({ checkpointer: saver }),
    );
    await expect(runner.invoke({ log: [] }, { threadId: "t" })).rejects.toThrow("q is broken");
    broken.now = false;
    expect(await runner.resume({ threadId: "t" })).toEqual({ log: ["q", "x", "y"] });
    expect(ran).toEqual(["x", "y", "q", "q"]);
    saver.close();
  });

  test.each([1, 2, 3])("finished siblings %i levels deep do not run again", async (depth) => {
    const { saver } = setup();
    const ran: string[] = [];
    const broken = { now: true };
    const runner = new GraphRunner(nestedGraph(saver, ran, broken, depth));
    await expect(runner.invoke({ log: [] }, { threadId: "t" })).rejects.toThrow("q is broken");
    broken.now = false;
    expect(await runner.resume({ threadId: "t" })).toEqual({ log: ["q", "x", "y"] });
    expect(ran).toEqual(["x", "y", "q", "q"]);
    saver.close();
  });
});

describe("runner: a graph inside a chain of runnables is still found once attached", () => {
  /** chain → plain; the chain ends in a graph, in which a graph x → (y ∥ q) is a node. */
  function chained(saver: TurnSaver, ran: string[], inQ: () => void) {
    const innermost = new StateGraph(State)
      .addNode("x", () => (ran.push("x"), { log: ["x"] }))
      .addNode("y", () => (ran.push("y"), { log: ["y"] }))
      .addNode("q", async () => {
        await new Promise((resolve) => setTimeout(resolve, 20));
        ran.push("q");
        inQ();
        return { log: ["q"] };
      })
      .addEdge(START, "x")
      .addEdge("x", "y")
      .addEdge("x", "q")
      .compile();
    const inner = new StateGraph(State).addNode("inner", innermost).addEdge(START, "inner").compile();
    const pass = RunnableLambda.from((state: typeof State.State) => state);
    return new StateGraph(State)
      .addNode("chain", pass.pipe(inner as never) as never)
      .addNode(
        "plain",
        pass.pipe(() => ({ log: ["plain"] })),
      )
      .addEdge(START, "chain")
      .addEdge("chain", "plain")
      .compile({ checkpointer: saver });
  }

  test("subgraphs, state and drawing are as before", async () => {
    const { saver } = setup();
    const config = { configurable: { thread_id: "t" } };
    const [bare, attached] = [1, 2].map(() => chained(saver, [], () => interrupt("?")));
    saver.attach(attached!);
    await attached!.invoke({ log: ["in"] }, config);
    const look = async (graph: typeof bare) => {
      const subgraphs: unknown[] = [...graph!.getSubgraphs()].map(([name]) => name);
      const recursive: unknown[] = [...graph!.getSubgraphs(undefined, true)].map(([name]) => name);
      const drawn = (await graph!.getGraphAsync({ xray: true })).toJSON();
      return { subgraphs, recursive, state: await graph!.getState(config, { subgraphs: true }), drawn };
    };
    const seen = await look(attached);
    expect(seen).toEqual(await look(bare));
    expect(seen.subgraphs).toEqual(["chain"]);
    expect(seen.recursive).toEqual(["chain", "chain|inner"]);
    const [task] = seen.state.tasks;
    expect(task?.state).toMatchObject({ values: { log: ["in"] }, next: ["inner"] });
    saver.close();
  });

  test("finished siblings inside it do not run again", async () => {
    const { saver } = setup();
    const ran: string[] = [];
    const broken = { now: true };
    const breaks = () => {
      if (broken.now) throw new Error("q is broken");
    };
    const runner = new GraphRunner(chained(saver, ran, breaks));
    await expect(runner.invoke({ log: [] }, { threadId: "t" })).rejects.toThrow("q is broken");
    broken.now = false;
    await runner.resume({ threadId: "t" });
    expect(ran).toEqual(["x", "y", "q", "q"]);
    saver.close();
  });
});
