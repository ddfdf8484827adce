import { BaseCallbackHandler } from "@langchain/core/callbacks/base";
import { MemorySaver, START } from "@langchain/langgraph";
import { normalised } from "../support/diff-normalise";
import { collect } from "../support/diff-harness";
import { closeAll, fresh, line, open, thread } from "../support/eff-world";

afterEach(closeAll);

class Own extends BaseCallbackHandler {
  readonly name = "own";
}

/** A graph with a graph inside, and one of the same kind inside that. */
function graphOf(saver: unknown): any {
  const logs = (name: string) => () => ({ log: [name] });
  const inner = line({ i1: logs("i1") }).compile();
  const middle = line({ m1: logs("m1") })
    .addNode("inner", inner)
    .addEdge("m1", "inner")
    .compile({ checkpointer: true });
  return line({ a: logs("a") })
    .addNode("middle", middle)
    .addEdge("a", "middle")
    .addNode("side", logs("side"))
    .addEdge(START, "side")
    .compile({ checkpointer: saver as never });
}

const streams: [string, object][] = [
  ["debug", { streamMode: "debug" }],
  ["checkpoints", { streamMode: "checkpoints" }],
  ["tasks", { streamMode: "tasks" }],
  ["several modes", { streamMode: ["debug", "checkpoints", "tasks", "values"] }],
  ["a list of one", { streamMode: ["debug"] }],
  ["debug with subgraphs", { streamMode: "debug", subgraphs: true }],
  ["several modes with subgraphs", { streamMode: ["debug", "checkpoints", "tasks"], subgraphs: true }],
  ["as text", { streamMode: ["debug"], encoding: "text/event-stream" }],
];
const callbacks: [string, () => object][] = [
  ["no callbacks", () => ({})],
  ["callbacks of the user's", () => ({ callbacks: [new Own()] })],
];

async function told(graph: any, options: object): Promise<unknown> {
  const chunks: unknown[] = await collect(await graph.stream({ log: ["in"] }, { ...thread(), ...options }));
  const texts = chunks.map((chunk) => (chunk instanceof Uint8Array ? new TextDecoder().decode(chunk) : chunk));
  return normalised(texts.map((text) => (typeof text === "string" ? text.replaceAll(/"timestamp":"[^"]*"/g, "") : text)));
}

describe.each(callbacks)("S6.5 streams of an attached graph, with %s", (_title, more) => {
  test.each(streams)("S6.5 show what they show on MemorySaver: %s", async (_mode, options) => {
    const saver = open(fresh());
    const attached = saver.attach(graphOf(saver));
    const wanted = await told(graphOf(new MemorySaver()), { ...options, ...more() });
    expect(await told(attached, { ...options, ...more() })).toEqual(wanted);
    const copy = attached.withConfig({ tags: [] });
    expect(await told(copy, { ...options, ...more(), configurable: { thread_id: "u" } })).toEqual(
      await told(graphOf(new MemorySaver()).withConfig({ tags: [] }), {
        ...options,
        ...more(),
        configurable: { thread_id: "u" },
      }),
    );
  });
});

test("S6.5 a stream of an attached graph that is left early closes as without it", async () => {
  const saver = open(fresh());
  const attached = saver.attach(graphOf(saver));
  for await (const _ of await attached.stream({ log: ["in"] }, { ...thread(), streamMode: "debug" })) break;
  expect(await attached.invoke({ log: ["again"] }, thread("u"))).toMatchObject({
    log: expect.arrayContaining(["a", "i1"]) as unknown,
  });
});

test("S6.5 the events of an attached graph that streams debug chunks don't show the recorder", async () => {
  const saver = open(fresh());
  const attached = saver.attach(graphOf(saver));
  const events = await collect<any>(attached.streamEvents({ log: ["in"] }, { ...thread(), streamMode: "debug", version: "v2" }));
  const configs = events.map(({ data }) => data.chunk?.payload?.config).filter(Boolean);
  expect(configs.length).toBeGreaterThan(2);
  for (const { callbacks: shown } of configs) {
    const handlers: unknown[] = Array.isArray(shown) ? shown : (shown?.handlers ?? []);
    expect(handlers.map((handler) => (handler as { name: string }).name)).not.toContain("langgraph_checkpoint_turns_recorder");
  }
});

test.each(callbacks)(
  "S6.5 the state of a thread without checkpoints doesn't show the recorder, with %s",
  async (_title, more) => {
    const saver = open(fresh());
    const state = async (graph: any): Promise<unknown> => normalised(await graph.getState({ ...thread(), ...more() }));
    const wanted = await state(graphOf(new MemorySaver()));
    expect(await state(saver.attach(graphOf(saver)))).toEqual(wanted);
  },
);
