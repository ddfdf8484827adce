import { randomBytes } from "node:crypto";
import { Annotation, entrypoint, Send, START, StateGraph, task } from "@langchain/langgraph";
import type { TurnSaver, TurnSaverOptions, TurnToRedact } from "langgraph-checkpoint-turns";
import { tempFile } from "../support/temp";
import { openSaver } from "../support/open-saver";

const quiet = { debug() {}, info() {}, warn() {}, error() {} };
const large = (what: string): string => `${what} `.repeat(4_000);
const Text = Annotation.Root({ text: Annotation<string>() });
const at = (threadId: string, more: object = {}) => ({ configurable: { thread_id: threadId, ...more } });

/** An attached graph with one node, which does `work`. */
function outerGraph(saver: TurnSaver, work: () => Promise<unknown>) {
  const graph = new StateGraph(Text)
    .addNode("call", async () => (await work(), { text: "done" }))
    .addEdge(START, "call")
    .compile({ checkpointer: saver });
  return saver.attach(graph);
}

/** Graphs with nodes that are called with something else than a checkpoint's state. */
const inners = {
  "a functional entrypoint": (saver: TurnSaver) => {
    const shout = task("shout", (text: string) => text.toUpperCase());
    return entrypoint({ name: "flow", checkpointer: saver }, async (text: string) => shout(`${text}!`));
  },
  "a graph with a Send": (saver: TurnSaver) => {
    const inner = new StateGraph(Text)
      .addNode("first", () => ({}))
      .addNode("sent", ({ text }: { text: string }) => ({ text: text.toUpperCase() }))
      .addEdge(START, "first")
      .addConditionalEdges("first", ({ text }) => [new Send("sent", { text: `${text}!` })], ["sent"])
      .compile({ checkpointer: saver });
    return {
      invoke: (text: string, config: object) => inner.invoke({ text }, config),
    };
  },
};

describe.each(Object.entries(inners))("a node calls %s on a thread of its own", (_, make) => {
  let saver: TurnSaver;
  const opened = (options: TurnSaverOptions = {}): TurnSaver => (saver = openSaver(tempFile(), { logger: quiet, ...options }));
  afterEach(() => saver.close());

  test("S4.6 what its nodes are called with is sealed for their own thread: it can be read, verified and copied", async () => {
    opened({ encryption: { key: randomBytes(32) } });
    const inner = make(saver);
    await outerGraph(saver, () => inner.invoke(large("secret"), at("inner"))).invoke({ text: "" }, at("outer"));
    const turns = await saver.turns.list("inner");
    expect(turns.filter(({ turnType }) => turnType === "Thought").length).toBe(2);
    expect((await saver.turns.list("outer")).map(({ nodeName }) => nodeName)).toEqual(["call", "call"]);
    for (const turn of turns) await saver.turns.state(turn);
    expect(await saver.verify()).toMatchObject({ ok: true });
    await saver.copyThread("inner", "copy");
    for (const turn of await saver.turns.list("copy")) await saver.turns.state(turn);
    expect(await saver.verify()).toMatchObject({ ok: true });
  });

  test("S4.6 redact is told the thread and the names of its own run", async () => {
    const asked: TurnToRedact[] = [];
    opened({ redact: (turn) => (asked.push(turn), turn.state) });
    const inner = make(saver);
    const graph = outerGraph(saver, () => inner.invoke("x", at("inner", { task_id: "inner task", graph_id: "inner graph" })));
    await graph.invoke({ text: "" }, at("outer", { task_id: "outer task", graph_id: "outer graph" }));
    const of = ({ threadId, taskId, graphId }: { threadId: string; taskId?: string; graphId?: string }) =>
      `${threadId}: ${taskId} of ${graphId}`;
    expect(new Set(asked.filter(({ nodeName }) => nodeName !== "call").map(of))).toEqual(
      new Set(["inner: inner task of inner graph"]),
    );
    expect(new Set((await saver.turns.list("inner")).map(of))).toEqual(new Set(["inner: inner task of inner graph"]));
    expect(new Set((await saver.turns.list("outer")).map(of))).toEqual(new Set(["outer: outer task of outer graph"]));
  });

  test("S3.5 its thread is free as soon as it has finished, and not before", async () => {
    opened();
    const inner = make(saver);
    const running: boolean[] = [];
    const graph = outerGraph(saver, async () => {
      await inner.invoke("x", at("inner"));
      running.push(await saver.turns.isRunning("inner"), await saver.turns.isRunning("outer"));
    });
    await graph.invoke({ text: "" }, at("outer"));
    expect(running).toEqual([false, true]);
    expect(await saver.turns.isRunning("outer")).toBe(false);
  });
});

test("S3.5 a thread that an aborted run's node was on is free as soon as the last body there has finished", async () => {
  const saver = openSaver(tempFile(), { logger: quiet });
  const gate = { open: (): void => undefined };
  const opened = new Promise<void>((resolve) => (gate.open = resolve));
  const aborts = new AbortController();
  const inner = new StateGraph(Text)
    .addNode("waits", async () => {
      aborts.abort();
      await opened;
      return { text: "late" };
    })
    .addEdge(START, "waits")
    .compile({ checkpointer: saver });
  const graph = outerGraph(saver, () => saver.attach(inner).invoke({ text: "" }, at("inner")));
  await expect(graph.invoke({ text: "" }, { ...at("outer"), signal: aborts.signal })).rejects.toThrow();
  expect(await saver.turns.isRunning("inner")).toBe(true);
  gate.open();
  for (let round = 0; round < 20; round += 1) await new Promise((resolve) => setImmediate(resolve));
  expect([await saver.turns.isRunning("inner"), await saver.turns.isRunning("outer")]).toEqual([false, false]);
  saver.close();
});
