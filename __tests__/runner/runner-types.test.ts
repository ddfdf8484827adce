/* eslint @typescript-eslint/no-unused-vars: off -- what is compiled only is used as types */
import type { RunnableConfig } from "@langchain/core/runnables";
import type { StreamEvent } from "@langchain/core/tracers/log_stream";
import { FakeListChatModel } from "@langchain/core/utils/testing";
import {
  Annotation,
  Command,
  entrypoint,
  MessagesAnnotation,
  START,
  StateGraph,
  StateSchema,
  type StreamMode,
  writer,
} from "@langchain/langgraph";
import { createReactAgent } from "@langchain/langgraph/prebuilt";
import { GraphRunner, TurnSaver } from "langgraph-checkpoint-turns";
import { z } from "zod";

/** What the compiler makes of the runner's signatures: each `same<…>()` fails to compile unless both types are one. */
type Same<One, Other> = (<T>() => T extends One ? 1 : 2) extends <T>() => T extends Other ? 1 : 2 ? [] : [one: One, isNot: Other];
const same = <One, Other>(..._: Same<One, Other>): void => undefined;
type Chunk<Stream> = Stream extends Promise<AsyncIterable<infer Each>> ? Each : never;
/** What is written in such a function is only compiled. */
const compiled = (..._: unknown[]): void => undefined;

const saver = TurnSaver.fromPath(":memory:");
afterAll(() => {
  saver.close();
});
const thread = { configurable: { thread_id: "t" } };
const threadId = "t";

const State = Annotation.Root({ log: Annotation<string[]>(), count: Annotation<number>() });
const graph = new StateGraph(State)
  .addNode("a", () => ({ log: ["a"] }))
  .addNode("b", () => ({ count: 3 }))
  .addEdge(START, "a")
  .addEdge("a", "b")
  .compile({ checkpointer: saver });
const typed = new StateGraph({
  state: new StateSchema({ count: z.number() }),
  context: z.object({ user: z.string() }),
})
  .addNode("n", () => ({ count: 1 }))
  .addEdge(START, "n")
  .compile({ checkpointer: saver });
const writing = new StateGraph(State, { writer: writer<{ percent: number }> })
  .addNode("n", () => ({ count: 1 }))
  .addEdge(START, "n")
  .compile({ checkpointer: saver });
const chat = new StateGraph(MessagesAnnotation)
  .addNode("model", () => ({ messages: [] }))
  .addEdge(START, "model")
  .compile({ checkpointer: saver });
const react = createReactAgent({ llm: new FakeListChatModel({ responses: [] }), tools: [], checkpointer: saver });
const flow = entrypoint({ name: "flow", checkpointer: saver }, async (count: number) => `${count}`);
class Agent {
  readonly graph = graph;
  async invoke(
    input: { log: string[] } | null,
    config?: { signal?: AbortSignal; verbose?: boolean },
  ): Promise<{ log: string[]; count: number }> {
    return this.graph.invoke(input, config);
  }
  async stream(input: { log: string[] } | null, config?: { signal?: AbortSignal; streamMode?: StreamMode | StreamMode[] }) {
    return this.graph.stream(input, config);
  }
}

describe("S8.3 the runner's types are those of the graph", () => {
  test("S8.3 a chunk of the stream has the type that LangGraph gives it, for one mode", () => {
    const runner = new GraphRunner(graph);
    compiled(() => {
      const ours = {
        none: runner.stream({ log: [] }, { threadId }),
        values: runner.stream({ log: [] }, { threadId, streamMode: "values" }),
        updates: runner.stream({ log: [] }, { threadId, streamMode: "updates" }),
        tasks: runner.stream({ log: [] }, { threadId, streamMode: "tasks" }),
        messages: runner.stream({ log: [] }, { threadId, streamMode: "messages" }),
        checkpoints: runner.stream({ log: [] }, { threadId, streamMode: "checkpoints" }),
      };
      const theirs = {
        none: graph.stream({ log: [] }, thread),
        values: graph.stream({ log: [] }, { ...thread, streamMode: "values" }),
        updates: graph.stream({ log: [] }, { ...thread, streamMode: "updates" }),
        tasks: graph.stream({ log: [] }, { ...thread, streamMode: "tasks" }),
        messages: graph.stream({ log: [] }, { ...thread, streamMode: "messages" }),
        checkpoints: graph.stream({ log: [] }, { ...thread, streamMode: "checkpoints" }),
      };
      same<typeof ours, typeof theirs>();
      same<Chunk<typeof ours.values>, { log: string[]; count: number }>();
      same<Chunk<typeof ours.updates>, { a?: { log: string[] }; b?: { count: number } }>();
    });
  });

  test("S8.3 and for several modes, for subgraphs, for server-sent events", () => {
    const runner = new GraphRunner(graph);
    compiled(async () => {
      const ours = {
        two: runner.stream({ log: [] }, { threadId, streamMode: ["values", "updates"] }),
        within: runner.stream({ log: [] }, { threadId, streamMode: "updates", subgraphs: true }),
        both: runner.stream({ log: [] }, { threadId, streamMode: ["values", "custom"], subgraphs: true }),
        encoded: runner.stream({ log: [] }, { threadId, streamMode: "values", encoding: "text/event-stream" }),
      };
      const theirs = {
        two: graph.stream({ log: [] }, { ...thread, streamMode: ["values", "updates"] }),
        within: graph.stream({ log: [] }, { ...thread, streamMode: "updates", subgraphs: true }),
        both: graph.stream({ log: [] }, { ...thread, streamMode: ["values", "custom"], subgraphs: true }),
        encoded: graph.stream({ log: [] }, { ...thread, streamMode: "values", encoding: "text/event-stream" }),
      };
      same<typeof ours, typeof theirs>();
      for await (const [mode, chunk] of await ours.two) {
        if (mode === "values") same<typeof chunk, { log: string[]; count: number }>();
      }
      void new Response(await ours.encoded);
    });
  });

  test("S8.3 schemas with a context and a writer, messages, prebuilt agents, functional graphs", () => {
    compiled(() => {
      const ours = {
        context: new GraphRunner(typed).stream({ count: 1 }, { threadId, streamMode: "updates", context: { user: "me" } }),
        custom: new GraphRunner(writing).stream({ count: 1 }, { threadId, streamMode: "custom" }),
        chat: new GraphRunner(chat).stream({ messages: [] }, { threadId, streamMode: ["tasks", "values"] }),
        react: new GraphRunner(react).stream({ messages: [] }, { threadId, streamMode: "updates" }),
        reactValues: new GraphRunner(react).stream({ messages: [] }, { threadId, streamMode: "values" }),
        flow: new GraphRunner(flow).stream(1, { threadId, streamMode: ["values", "updates"] }),
      };
      const theirs = {
        context: typed.stream({ count: 1 }, { ...thread, streamMode: "updates", context: { user: "me" } }),
        custom: writing.stream({ count: 1 }, { ...thread, streamMode: "custom" }),
        chat: chat.stream({ messages: [] }, { ...thread, streamMode: ["tasks", "values"] }),
        react: react.stream({ messages: [] }, { ...thread, streamMode: "updates" }),
        reactValues: react.stream({ messages: [] }, { ...thread, streamMode: "values" }),
        flow: flow.stream(1, { ...thread, streamMode: ["values", "updates"] }),
      };
      same<typeof ours, typeof theirs>();
      // @ts-expect-error -- the context has no such field
      void new GraphRunner(typed).invoke({ count: 1 }, { threadId, context: { name: "me" } });
    });
  });

  test("S8.3 an agent that carries its graph has its own input, output and config, and its graph's chunks", () => {
    const runner = new GraphRunner(new Agent());
    compiled(async () => {
      const state = await runner.invoke({ log: [] }, { threadId, verbose: true });
      same<typeof state, { log: string[]; count: number }>();
      const updates = runner.stream({ log: [] }, { threadId, streamMode: "updates" });
      same<Chunk<typeof updates>, { a?: { log: string[] }; b?: { count: number } }>();
      // @ts-expect-error -- that is no input of the agent
      void runner.invoke({ logs: [] }, { threadId });
    });
  });

  test("S8.3 input is the graph's own, a Command or null; results are the graph's", () => {
    const runner = new GraphRunner(graph);
    compiled(async () => {
      const state = await runner.invoke({ log: [] }, thread);
      same<typeof state, Awaited<ReturnType<typeof graph.invoke>>>();
      const resumed = await runner.resume({ threadId, command: new Command({ resume: "yes" }) });
      same<typeof resumed, typeof state>();
      void runner.invoke(null, { threadId });
      void runner.invoke(new Command({ resume: { approved: true } }), { threadId });
      void runner.invoke(new Command({ goto: "b", update: { count: 1 } }), thread);
      void runner.resume({ threadId, input: { log: [] } });
      // @ts-expect-error -- there is no such channel
      void runner.invoke({ logs: [] }, { threadId });
      // @ts-expect-error -- a resume brings no new input that unfinished work could be in the way of
      void runner.resume({ threadId, onUnfinished: "finish" });
      // @ts-expect-error -- an answer is the input
      void runner.invoke(null, { threadId, command: new Command({ resume: "yes" }) });
      // @ts-expect-error -- a Command is made with `new Command`
      void runner.resume({ threadId, command: { resume: "yes" } });
      // @ts-expect-error -- there is no such channel
      void runner.resume({ threadId, input: { logs: [] } });
      const text = await new GraphRunner(flow).invoke(1, { threadId });
      same<typeof text, string>();
      // @ts-expect-error -- the workflow takes a number
      void new GraphRunner(flow).invoke("1", { threadId });
    });
  });

  test("S8.3 options are the runner's and LangGraph's, in both forms, and no others", () => {
    const runner = new GraphRunner(graph);
    compiled(async () => {
      const { config } = await graph.getState(thread);
      void runner.invoke(null, config);
      void runner.invoke(null, {} as RunnableConfig);
      void runner.invoke(null, { threadId, taskId: "T", graphId: "G", onUnfinished: "finish", drift: "refuse" });
      void runner.invoke(null, { configurable: { thread_id: "t", task_id: "T", user: 7 }, tags: ["x"], metadata: { a: 1 } });
      void runner.invoke(null, {
        threadId,
        durability: "sync",
        recursionLimit: 5,
        signal: AbortSignal.timeout(1),
        callbacks: [],
      });
      void runner.invoke(null, { threadId, interruptBefore: ["b"] });
      // @ts-expect-error -- there is no such node
      void runner.invoke(null, { threadId, interruptBefore: ["c"] });
      // @ts-expect-error -- misspelt
      void runner.invoke(null, { threadID: "t" });
      // @ts-expect-error -- no policy
      void runner.invoke(null, { threadId, onUnfinished: "finished" });
      // @ts-expect-error -- no mode
      void runner.stream(null, { threadId, streamMode: "value" });
      // @ts-expect-error -- ids are texts
      void runner.invoke(null, { configurable: { thread_id: 7 } });
    });
  });

  test("S8.3 events are LangChain's", () => {
    const runner = new GraphRunner(graph);
    compiled(async () => {
      const ours = runner.streamEvents({ log: [] }, { threadId, version: "v2" });
      const theirs = graph.streamEvents({ log: [] }, { ...thread, version: "v2" });
      same<typeof ours, typeof theirs>();
      for await (const event of ours) same<typeof event, StreamEvent>();
      const bytes = runner.streamEvents(
        { log: [] },
        { threadId, version: "v2", encoding: "text/event-stream" },
        { includeTypes: ["chain"] },
      );
      void new Response(bytes);
      // @ts-expect-error -- a version has to be named
      runner.streamEvents({ log: [] }, { threadId });
    });
  });

  test("S8.3 a waiting question, and a status as text", () => {
    compiled(async () => {
      const status = await new GraphRunner(graph).status("t");
      for (const { id, value } of status.waiting) {
        same<typeof id, string | undefined>();
        same<typeof value, unknown>();
      }
      same<ReturnType<typeof status.toString>, string>();
    });
  });
});
