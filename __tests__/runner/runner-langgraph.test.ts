import { BaseCallbackHandler } from "@langchain/core/callbacks/base";
import {
  Annotation,
  Command,
  entrypoint,
  getStore,
  InMemoryStore,
  interrupt,
  type LangGraphRunnableConfig,
  START,
  StateGraph,
} from "@langchain/langgraph";
import { GraphRunner } from "langgraph-checkpoint-turns";
import { breaks, line, lineGraph, State, world } from "../support/run-world";

const thread = (thread_id: string, more: object = {}) => ({ configurable: { thread_id, ...more } });

describe("S8.3 a call names its thread as the runner does, or as LangGraph does", () => {
  test("S8.3 both forms are one: invoke, stream, streamEvents and resume, with thread, task and graph id", async () => {
    const at = world();
    const runner = line(at, ["a"]);
    await runner.invoke({ log: [] }, { threadId: "t", taskId: "one", graphId: "G" });
    await runner.invoke({ log: [] }, thread("t", { task_id: "two", graph_id: "G" }));
    for await (const _ of await runner.stream({ log: [] }, thread("t", { task_id: "three" })));
    for await (const _ of runner.streamEvents({ log: [] }, { ...thread("t", { task_id: "four" }), version: "v2" }));
    await runner.invoke({ log: [] }, { threadId: "t", taskId: "five", ...thread("t", { task_id: "five" }) });
    expect((await at.saver.turns.tasks("t")).map(({ taskId, graphId }) => [taskId, graphId])).toEqual([
      ["one", "G"],
      ["two", "G"],
      ["three", "G"],
      ["four", "G"],
      ["five", "G"],
    ]);
    expect(await runner.resume(thread("t"))).toEqual({ log: ["a", "a", "a", "a", "a"] });
    at.saver.close();
  });

  test("S8.3 forms that contradict each other are refused by name, and nothing runs", async () => {
    const at = world();
    const runner = line(at, ["a"]);
    for (const [key, options, message] of [
      ["threadId", { threadId: "t", ...thread("u") }, 'threadId is "t", but configurable.thread_id is "u".'],
      [
        "taskId",
        { threadId: "t", taskId: "T", configurable: { task_id: "U" } },
        'taskId is "T", but configurable.task_id is "U".',
      ],
      [
        "graphId",
        { threadId: "t", graphId: "G", configurable: { graph_id: "H" } },
        'graphId is "G", but configurable.graph_id is "H".',
      ],
    ] as const) {
      const refused = { code: "INVALID_CONFIG", data: { key }, message: expect.stringContaining(message) as string };
      await expect(runner.invoke({ log: [] }, options)).rejects.toMatchObject(refused);
      await expect(runner.stream({ log: [] }, options)).rejects.toMatchObject(refused);
      await expect(runner.resume(options)).rejects.toMatchObject(refused);
      expect(() => runner.streamEvents({ log: [] }, { ...options, version: "v2" })).toThrow(expect.objectContaining(refused));
    }
    expect(at.ledger.all).toEqual([]);
    at.saver.close();
  });

  test("S8.3 a misspelt name of the runner's is refused with the nearest and the list; what LangGraph may know passes", async () => {
    const at = world();
    const runner = line(at, ["a"]);
    for (const [name, nearest] of [
      ["threadID", "threadId"],
      ["thread_id", "threadId"],
      ["task_id", "taskId"],
      ["onUnfinnished", "onUnfinished"],
      ["drifts", "drift"],
    ] as const) {
      await expect(runner.invoke({ log: [] }, { threadId: "t", [name]: "x" })).rejects.toMatchObject({
        code: "INVALID_OPTION",
        data: { option: name, nearest },
        message:
          `Unknown option "${name}" of runner.invoke. Did you mean "${nearest}"? ` +
          "Its options: threadId, taskId, graphId, onUnfinished, drift, and those of LangGraph's config.",
      });
    }
    await expect(runner.resume({ threadId: "t", comand: "x" } as object)).rejects.toMatchObject({ data: { nearest: "command" } });
    await runner.invoke({ log: [] }, { threadId: "t", somethingNew: true, runtime: {} } as object);
    at.saver.close();
  });

  test("S8.3 a misspelt option of LangGraph's is refused, and so is the runner's name for an id within configurable", async () => {
    const at = world();
    const runner = line(at, ["a"]);
    for (const [name, nearest] of [
      ["streamMod", "streamMode"],
      ["signl", "signal"],
      ["recursion_limit", "recursionLimit"],
    ] as const) {
      await expect(runner.invoke({ log: [] }, { threadId: "t", [name]: "x" })).rejects.toMatchObject({
        code: "INVALID_OPTION",
        data: { option: name, nearest },
      });
    }
    await expect(runner.invoke({ log: [] }, { configurable: { threadId: "t" } })).rejects.toMatchObject({
      code: "INVALID_CONFIG",
      message: expect.stringMatching(
        /^runner\.invoke was told no thread: within configurable its name is thread_id, not threadId\. /,
      ) as string,
    });
    await expect(runner.status({ threadId: "t" } as never)).rejects.toMatchObject({
      message: expect.not.stringContaining("configurable") as string,
    });
    expect(at.ledger.all).toEqual([]);
    at.saver.close();
  });
});

test("S8.3 an option of another call is refused: onUnfinished of a resume, an answer or an input of the others", async () => {
  const at = world();
  const runner = line(at, ["a"]);
  const refused = (option: string, call: string, own: string): object => ({
    code: "INVALID_OPTION",
    data: { option },
    message: `Unknown option "${option}" of ${call}. Its options: threadId, taskId, graphId, ${own}, and those of LangGraph's config.`,
  });
  await expect(runner.resume({ threadId: "t", input: { log: [] }, onUnfinished: "finish" } as object)).rejects.toMatchObject(
    refused("onUnfinished", "runner.resume", "drift, command, input"),
  );
  for (const option of ["command", "input"]) {
    const options = { threadId: "t", [option]: new Command({ resume: "yes" }) };
    await expect(runner.invoke({ log: [] }, options)).rejects.toMatchObject(
      refused(option, "runner.invoke", "onUnfinished, drift"),
    );
    await expect(runner.stream({ log: [] }, options)).rejects.toMatchObject({ code: "INVALID_OPTION" });
    expect(() => runner.streamEvents({ log: [] }, { ...options, version: "v2" })).toThrow(
      expect.objectContaining({ code: "INVALID_OPTION" }),
    );
  }
  expect(at.ledger.all).toEqual([]);
  at.saver.close();
});

describe("S8.3 what LangGraph takes reaches the graph", () => {
  test("S8.3 configurable, context, tags, metadata, callbacks, store, signal, run name, limits, breakpoints", async () => {
    const at = world();
    const seen: LangGraphRunnableConfig[] = [];
    const stores: unknown[] = [];
    const graph = new StateGraph(State)
      .addNode("a", async (_, config) => {
        seen.push(config as LangGraphRunnableConfig);
        stores.push((await getStore()?.get(["memories"], "one"))?.value);
        return { log: ["a"] };
      })
      .addNode("b", () => ({ log: ["b"] }))
      .addEdge(START, "a")
      .addEdge("a", "b")
      .compile({ checkpointer: at.saver });
    const runner = new GraphRunner(graph);
    const started: unknown[] = [];
    const callbacks = [
      BaseCallbackHandler.fromMethods({
        handleChainStart: (...given) => void started.push(given[7]),
      }),
    ];
    const store = new InMemoryStore();
    await store.put(["memories"], "one", { of: "me" });
    const options = {
      ...{ tags: ["one"], metadata: { who: "me" }, callbacks, store, context: { user: "u" }, runName: "named" },
      ...{ signal: new AbortController().signal, recursionLimit: 7, durability: "sync" as const },
      configurable: { thread_id: "t", own: 1 },
    };
    expect(await runner.invoke({ log: [] }, options)).toEqual({ log: ["a", "b"] });
    expect(seen).toMatchObject([
      {
        tags: ["one"],
        metadata: { who: "me", thread_id: "t" },
        context: { user: "u" },
        recursionLimit: 7,
        configurable: { own: 1 },
      },
    ]);
    expect(stores).toEqual([{ of: "me" }]);
    expect(started).toContain("named");
    await expect(runner.invoke({ log: [] }, { threadId: "u", recursionLimit: 1 })).rejects.toThrow(/recursion limit/i);
    const aborted = runner.invoke({ log: [] }, { threadId: "v", signal: AbortSignal.abort() });
    await expect(aborted).rejects.toThrow(/abort/i);
    expect(await runner.invoke({ log: [] }, { threadId: "w", interruptBefore: ["b"] })).toMatchObject({ log: ["a"] });
    expect(await runner.resume({ threadId: "w" })).toEqual({ log: ["a", "b"] });
    at.saver.close();
  });

  test("S8.3 time travel with the config of a snapshot", async () => {
    const at = world();
    const runner = line(at, ["a", "b"]);
    await runner.invoke({ log: [] }, thread("t"));
    for await (const { next, config } of runner.graph.getStateHistory(thread("t"))) {
      if (next[0] === "b") expect(await runner.invoke(null, config)).toEqual({ log: ["a", "b"] });
    }
    expect([at.ledger.count("a"), at.ledger.count("b")]).toEqual([1, 2]);
    at.saver.close();
  });
});

describe("S8.3 streams are LangGraph's", () => {
  test("S8.3 modes, subgraphs and server-sent events give what the graph's own stream gives", async () => {
    const at = world();
    const inner = new StateGraph(State)
      .addNode("x", () => ({ log: ["x"] }))
      .addEdge(START, "x")
      .compile();
    const graph = new StateGraph(State).addNode("sub", inner).addEdge(START, "sub").compile({ checkpointer: at.saver });
    const runner = new GraphRunner(graph);
    const all = async (chunks: Promise<AsyncIterable<unknown>>): Promise<unknown[]> => {
      const found = [];
      for await (const chunk of await chunks) found.push(chunk);
      return found;
    };
    const withoutIds = (chunks: unknown[]): unknown =>
      JSON.parse(JSON.stringify(chunks).replace(/[0-9a-f]{8}-[0-9a-f-]{27}/g, "id"));
    const modes: object[] = [
      {},
      { streamMode: "values" },
      { streamMode: ["values", "updates"] },
      { streamMode: "updates", subgraphs: true },
    ];
    for (const [index, options] of modes.entries()) {
      const ours = await all(runner.stream({ log: [] }, { threadId: `ours ${index}`, ...options }));
      const theirs = await all(graph.stream({ log: [] }, { ...thread(`theirs ${index}`), ...options }));
      expect(withoutIds(ours)).toEqual(withoutIds(theirs));
    }
    const sent = new Response(
      await runner.stream({ log: [] }, { threadId: "sse", streamMode: "values", encoding: "text/event-stream" }),
    );
    const text = await sent.text();
    expect(text).toContain("event: values");
    expect(text).toContain('data: {"log":["x"]}');
    at.saver.close();
  });

  test("S8.3 events are those of the graph, and the thread is the runner's meanwhile", async () => {
    const at = world();
    const runner = line(at, ["a", "b"]);
    const names = async (events: AsyncIterable<{ event: string; name: string }>): Promise<string[]> => {
      const found = [];
      for await (const { event, name } of events) found.push(`${event} ${name}`);
      return found;
    };
    const ours = await names(runner.streamEvents({ log: [] }, { threadId: "t", version: "v2" }));
    expect(ours).toEqual(await names(runner.graph.streamEvents({ log: [] }, { ...thread("u"), version: "v2" })));
    expect(ours).toEqual(expect.arrayContaining(["on_chain_start a", "on_chain_end b"]));
    const events = runner.streamEvents({ log: [] }, { threadId: "t", version: "v2" });
    await events.next();
    await expect(runner.invoke({ log: [] }, { threadId: "t" })).rejects.toMatchObject({ code: "THREAD_RUNNING" });
    for await (const _ of events);
    expect(await at.saver.turns.isRunning("t")).toBe(false);
    for (const version of ["v3", undefined]) {
      expect(() => runner.streamEvents({ log: [] }, { threadId: "t", version } as never)).toThrow(
        expect.objectContaining({ code: "INVALID_OPTION", data: { option: "version" } }),
      );
    }
    at.saver.close();
  });

  test("S8.3 events are refused where a run is, when somebody reads them, and continue where a run stopped", async () => {
    const at = world();
    let broken = true;
    const runner = line(at, ["a", "b"], { b: (state) => (broken ? breaks(state) : undefined) });
    const read = async (input: { log: string[] } | null): Promise<number> => {
      let count = 0;
      for await (const _ of runner.streamEvents(input, { threadId: "t", version: "v2" })) count += 1;
      return count;
    };
    await expect(read({ log: [] })).rejects.toThrow("it is broken");
    await expect(read({ log: [] })).rejects.toMatchObject({ code: "UNFINISHED_WORK" });
    broken = false;
    expect(await read(null)).toBeGreaterThan(2);
    expect(await runner.status("t")).toMatchObject({ finished: true });
    expect(at.ledger.count("a")).toBe(1);
    at.saver.close();
  });

  test("S8.3 a stream that nobody begins to read leaves its run alone, and reading it runs it", async () => {
    const at = world();
    const runner = line(at, ["a"]);
    const stream = await runner.stream({ log: [] }, { threadId: "t", streamMode: "values" });
    const reader = stream.getReader();
    const chunks = [];
    for (let next = await reader.read(); !next.done; next = await reader.read()) chunks.push(next.value);
    expect(chunks.at(-1)).toEqual({ log: ["a"] });
    expect(await at.saver.turns.isRunning("t")).toBe(false);
    at.saver.close();
  });

  test("S8.3 who stops reading stops the run at once, also while a node has nothing to give, and the thread is free", async () => {
    const at = world();
    let calls = 0;
    const aborted = (signal: AbortSignal): Promise<never> =>
      new Promise((_, reject) => {
        // The run may have been stopped between the commit of the Thought and the body.
        if (signal.aborted) reject(new Error("stopped"));
        signal.addEventListener("abort", () => reject(new Error("stopped")));
      });
    const graph = new StateGraph(State)
      .addNode("slow", async (_, config) => {
        if (++calls === 1) await aborted((config as LangGraphRunnableConfig).signal!);
        return { log: ["slow"] };
      })
      .addEdge(START, "slow")
      .compile({ checkpointer: at.saver });
    const runner = new GraphRunner(graph);
    const options = { threadId: "t", streamMode: "values", encoding: "text/event-stream" } as const;
    const response = new Response(await runner.stream({ log: [] }, options));
    const reader = response.body!.getReader();
    await reader.read();
    const pending = reader.read();
    while ((await at.saver.turns.inFlight("t")).length === 0) await new Promise((resolve) => setTimeout(resolve, 5));
    await reader.cancel();
    expect(await pending).toMatchObject({ done: true });
    while (await at.saver.turns.isRunning("t")) await new Promise((resolve) => setTimeout(resolve, 5));
    for await (const { name } of runner.streamEvents(null, { threadId: "t", version: "v2" })) if (name === "slow") break;
    while (await at.saver.turns.isRunning("t")) await new Promise((resolve) => setTimeout(resolve, 5));
    expect(await runner.resume({ threadId: "t" })).toEqual({ log: ["slow"] });
    at.saver.close();
  });

  test("S8.3 an agent that carries its graph, and a functional graph", async () => {
    const at = world();
    const graph = lineGraph(at, ["a"]);
    const agent = {
      graph,
      invoke: (input: { log: string[] }, config?: object) => graph.invoke(input, config),
      stream: (input: { log: string[] }, config?: object) => graph.stream(input, config),
    };
    const runner = new GraphRunner(agent);
    expect(await runner.invoke({ log: [] }, thread("t"))).toEqual({ log: ["a"] });
    const events = [];
    for await (const { event } of runner.streamEvents({ log: [] }, { threadId: "t", version: "v2" })) events.push(event);
    expect(events[0]).toBe("on_chain_start");
    const flow = new GraphRunner(entrypoint({ name: "flow", checkpointer: at.saver }, async (count: number) => count + 1));
    const chunks = [];
    for await (const chunk of await flow.stream(1, { threadId: "f", streamMode: ["values", "updates"] })) chunks.push(chunk);
    expect(chunks).toEqual([
      ["updates", { flow: 2 }],
      ["values", 2],
    ]);
    at.saver.close();
  });
});

describe("S8.3 an answer to a question that nobody asked", () => {
  const Ask = Annotation.Root({ log: Annotation<string[]>({ reducer: (left, right) => left.concat(right), default: () => [] }) });
  const asking = (at: ReturnType<typeof world>) =>
    new GraphRunner(
      new StateGraph(Ask)
        .addNode("left", () => ({ log: [interrupt<string, string>("left?")] }))
        .addNode("right", () => ({ log: [interrupt<string, string>("right?")] }))
        .addEdge(START, "left")
        .addEdge(START, "right")
        .compile({ checkpointer: at.saver }),
    );
  const yes = new Command({ resume: "yes" });

  test("S8.3 is refused on a thread that is finished, by resume, invoke and stream, and is given to nobody later", async () => {
    const at = world();
    const runner = line(at, ["a", "ask"], { ask: () => ({ log: [interrupt<string, string>("?")] }) });
    await runner.invoke({ log: [] }, { threadId: "t" });
    await runner.resume({ threadId: "t", command: yes });
    const refused = {
      code: "UNKNOWN_INTERRUPT",
      data: { threadId: "t", waiting: [], unknown: [] },
      message:
        'Thread "t" waits for no answer: it is finished. For new input call await runner.invoke(input, { threadId: "t" }). Nothing was changed.',
    };
    await expect(runner.resume({ threadId: "t", command: yes })).rejects.toMatchObject(refused);
    await expect(runner.invoke(yes, { threadId: "t" })).rejects.toMatchObject(refused);
    await expect(runner.stream(yes, { threadId: "t" })).rejects.toMatchObject(refused);
    await runner.invoke({ log: [] }, { threadId: "t" });
    expect((await runner.status("t")).waiting).toMatchObject([{ value: "?" }]);
    at.saver.close();
  });

  test("S8.3 is refused on a thread that stopped without a question, with the call that continues it", async () => {
    const at = world();
    const runner = line(at, ["a", "b"], { b: breaks });
    await expect(runner.invoke({ log: [] }, { threadId: "t" })).rejects.toThrow("it is broken");
    await expect(runner.resume({ threadId: "t", command: yes })).rejects.toMatchObject({
      code: "UNKNOWN_INTERRUPT",
      message:
        'Thread "t" waits for no answer: it stopped at "b" without a question. Continue it without an answer: await runner.resume({ threadId: "t" }). Nothing was changed.',
    });
    await expect(runner.resume({ threadId: "u", command: yes })).rejects.toMatchObject({ code: "NOTHING_TO_RESUME" });
    at.saver.close();
  });

  test("S8.3 an id that isn't waiting, and more answers than questions, are refused with what is waiting and the exact call", async () => {
    const at = world();
    const runner = asking(at);
    await runner.invoke({ log: [] }, { threadId: "t" });
    const [left, right] = (await runner.status("t")).waiting.map(({ id }) => id!);
    const none = "0".repeat(32);
    const call = (...ids: string[]): Promise<unknown> =>
      runner.resume({
        threadId: "t",
        command: new Command({ resume: Object.fromEntries(ids.map((id) => [id, id.slice(0, 3)])) }),
      });
    await expect(call(left!, none)).rejects.toMatchObject({
      code: "UNKNOWN_INTERRUPT",
      data: {
        unknown: [none],
        waiting: [
          { id: left, node: "left" },
          { id: right, node: "right" },
        ],
      },
      message:
        `Thread "t" has no open question "${none}". Waiting: "left" (interrupt ${left}), "right" (interrupt ${right}). ` +
        `Answer: await runner.resume({ threadId: "t", command: new Command({ resume: { "${left}": answer, "${right}": answer } }) }). Nothing was changed.`,
    });
    await call(left!);
    await expect(call(left!, right!)).rejects.toMatchObject({
      code: "UNKNOWN_INTERRUPT",
      message: expect.stringContaining("These are 2 answers, and 1 waiting.") as string,
      data: { unknown: [left], waiting: [{ id: right, node: "right" }] },
    });
    expect(await call(right!)).toEqual({ log: [left!.slice(0, 3), right!.slice(0, 3)] });
    at.saver.close();
  });

  test("S8.3 at a breakpoint a Command means to continue, as with LangGraph", async () => {
    const at = world();
    const graph = new StateGraph(State)
      .addNode("a", () => ({ log: ["a"] }))
      .addNode("b", () => ({ log: ["b"] }))
      .addEdge(START, "a")
      .addEdge("a", "b")
      .compile({ checkpointer: at.saver, interruptBefore: ["b"] });
    const runner = new GraphRunner(graph);
    expect(await runner.invoke({ log: [] }, { threadId: "t" })).toMatchObject({ log: ["a"] });
    expect(await runner.resume({ threadId: "t", command: new Command({ resume: true }) })).toEqual({ log: ["a", "b"] });
    at.saver.close();
  });
});
