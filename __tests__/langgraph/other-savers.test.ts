import { Command, interrupt, MemorySaver, START, StateGraph } from "@langchain/langgraph";
import { effect, type TurnSaver } from "langgraph-checkpoint-turns";
import { closeAll, Deeds, fresh, line, Log, open, thread } from "../support/eff-world";
import { ON_POSTGRES } from "../support/open-saver";

afterEach(closeAll);

interface Warning {
  data: Record<string, unknown>;
  message: string;
}

class OtherSaver extends MemorySaver {}

function world(body: () => unknown = () => ({ log: ["a"] })) {
  const warnings: Warning[] = [];
  const warn = (data: object, message: string): void => void warnings.push({ data: { ...data }, message });
  const saver = open(fresh(), { logger: { debug() {}, info() {}, warn, error: warn } });
  const graph: any = saver.attach(line({ a: body, b: () => ({ log: ["b"] }) }).compile({ checkpointer: saver }));
  return { saver, graph, warnings };
}

async function recorded(saver: TurnSaver): Promise<string[]> {
  const threads = [];
  for (const { threadId } of await saver.listThreads()) threads.push(threadId);
  const turns = await saver.turns.list("t");
  return [...threads, ...turns.map((turn) => turn.nodeName)];
}

test("S6.5 effects of a graph that two savers are attached to are recorded by the one that keeps the run", async () => {
  const graph: any = line({ a: async () => ({ log: [await effect("pay", () => "paid")] }) });
  const [one, two] = [open(fresh()), open(fresh())];
  const compiled = graph.compile({ checkpointer: one });
  one.attach(compiled);
  compiled.checkpointer = two;
  two.attach(compiled);
  for (const [running, other] of [
    [one, two],
    [two, one],
  ] as const) {
    compiled.checkpointer = running;
    const id = running === one ? "of one" : "of two";
    await compiled.invoke({ log: [] }, { configurable: { thread_id: id } });
    expect(await running.effects.list(id)).toHaveLength(1);
    expect(await other.effects.list(id)).toEqual([]);
    expect((await running.turns.list(id)).length).toBeGreaterThan(0);
  }
});

/** How an attached graph comes to run with something else. */
const ways: [string, string, (graph: any) => [any, object]][] = [
  ["its checkpointer was replaced", "OtherSaver", (graph) => [Object.assign(graph, { checkpointer: new OtherSaver() }), {}]],
  ["a checkpointer is passed in the config", "OtherSaver", (graph) => [graph, { __pregel_checkpointer: new OtherSaver() }]],
  [
    "a copy by withConfig got another checkpointer",
    "OtherSaver",
    (graph) => [Object.assign(graph.withConfig({ tags: ["copy"] }), { checkpointer: new OtherSaver() }), {}],
  ],
  [
    "its checkpointer was set to undefined",
    "no checkpointer",
    (graph) => [Object.assign(graph, { checkpointer: undefined }), {}],
  ],
  ["its checkpointer was set to false", "no checkpointer", (graph) => [Object.assign(graph, { checkpointer: false }), {}]],
];

describe("S6.5 an attached graph that runs without its saver", () => {
  test.each(ways)("S6.5 warns once, by name, and records no turns: %s", async (_why, used, changed) => {
    const { saver, graph, warnings } = world();
    const [run, configurable] = changed(graph);
    for (const id of ["t", "u"]) {
      const config = { configurable: { thread_id: id, ...configurable } };
      expect(await run.invoke({ log: ["in"] }, config)).toEqual({ log: ["in", "a", "b"] });
    }
    expect(warnings).toEqual([{ data: { threadId: "t", checkpointer: used }, message: expect.stringContaining(used) as string }]);
    expect(warnings[0]?.message).toContain("graph.checkpointer = saver");
    expect(await recorded(saver)).toEqual([]);
    expect((await saver.verify()).ok).toBe(true);
  });

  test("S6.5 each other saver is named once", async () => {
    const { graph, warnings } = world();
    for (const checkpointer of [new OtherSaver(), new MemorySaver(), new OtherSaver(), open(fresh()), undefined])
      await Object.assign(graph, { checkpointer }).invoke({ log: [] }, thread());
    expect(warnings.map(({ data }) => data["checkpointer"])).toEqual([
      "OtherSaver",
      "MemorySaver",
      ON_POSTGRES ? "another PostgresTurnSaver" : "another TurnSaver",
      "no checkpointer",
    ]);
  });

  test("S6.5 its effects are recorded, and none is repeated on a resume", async () => {
    const deeds = new Deeds();
    const { saver, graph } = world(async () => {
      await effect("pay", () => deeds.do("pay"));
      return { log: [interrupt<string, string>("go on?")] };
    });
    graph.checkpointer = new OtherSaver();
    await graph.invoke({ log: ["in"] }, thread());
    expect(await graph.invoke(new Command({ resume: "yes" }), thread())).toEqual({ log: ["in", "yes", "b"] });
    expect(deeds.count("pay")).toBe(1);
    expect((await saver.verify()).ok).toBe(true);
  });

  test("S3.4 its gates still decide", async () => {
    const { saver, graph } = world();
    saver.attach(graph, { gates: { nodes: { a: { validate: () => 0.1, onFailure: "throw" } } } });
    graph.checkpointer = new OtherSaver();
    await expect(graph.invoke({ log: ["in"] }, thread())).rejects.toMatchObject({ code: "VALIDATION_FAILED" });
  });

  test("S6.5 runs with both savers side by side are told apart", async () => {
    const { saver, graph, warnings } = world();
    const other = { configurable: { thread_id: "u", __pregel_checkpointer: new OtherSaver() } };
    await Promise.all([graph.invoke({ log: ["in"] }, other), graph.invoke({ log: ["in"] }, thread())]);
    expect(warnings).toHaveLength(1);
    expect(await recorded(saver)).toEqual(["t", "a", "a", "b", "b"]);
  });

  test("S6.5 a run with its saver still warns of durability exit", async () => {
    const { graph, warnings } = world();
    await graph.invoke({ log: ["in"] }, { ...thread(), durability: "exit" });
    expect(warnings.map(({ message }) => message)).toEqual([expect.stringContaining('durability "exit"')]);
  });

  test("S6.5 inside a node of another attached graph it runs with that graph's saver, without a word", async () => {
    const { saver, graph, warnings } = world();
    const outer: any = new StateGraph(Log)
      .addNode("calls", async (state) => ({ log: (await graph.invoke({ log: state.log })).log.slice(state.log.length) }))
      .addEdge(START, "calls");
    const attached: any = saver.attach(outer.compile({ checkpointer: saver }));
    expect(await attached.invoke({ log: ["in"] }, thread())).toEqual({ log: ["in", "a", "b"] });
    expect(warnings).toEqual([]);
    expect((await saver.turns.list("t")).map((turn) => turn.nodeName)).toEqual(["calls", "a", "a", "b", "b", "calls"]);
  });
});
