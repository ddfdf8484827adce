import { Annotation, START, StateGraph } from "@langchain/langgraph";
import { effect, GraphRunner, type GraphRunnerOptions, TurnSaver, type TurnSaverOptions } from "langgraph-checkpoint-turns";
import { internalsOf } from "../../src/testing-internal";

const State = Annotation.Root({
  log: Annotation<unknown[]>({ reducer: (left, right) => left.concat(right), default: () => [] }),
});
type Node = (state: typeof State.State) => unknown;

/** A saver with what it logged from "warn" upwards, and a runner of nodes in a row. */
function world(
  nodes: Record<string, Node>,
  { saving = {}, ...options }: GraphRunnerOptions & { saving?: TurnSaverOptions } = {},
) {
  const lines: string[] = [];
  const tell = (_: object, message: string): void => void lines.push(message);
  const saver = TurnSaver.fromPath(":memory:", { logger: { debug() {}, info() {}, warn: tell, error: tell }, ...saving });
  const builder = new StateGraph(State) as unknown as StateGraph<typeof State, typeof State.State, typeof State.Update, string>;
  let last: string = START;
  for (const [name, node] of Object.entries(nodes)) {
    builder.addNode(name, async (state) => ((await node(state)) ?? {}) as typeof State.Update);
    builder.addEdge(last, name);
    last = name;
  }
  return { lines, saver, runner: new GraphRunner(builder.compile({ checkpointer: saver }), options) };
}

const gate = (onFailure: "throw" | "rollback" | "record"): GraphRunnerOptions => ({
  nodes: { n: { validate: () => ({ confidence: 0.1 }), onFailure, maxRollbacks: 1 } },
});

describe("S8.3 one failure gives at most one log line", () => {
  const failures: [string, Record<string, Node>, GraphRunnerOptions & { saving?: TurnSaverOptions }, unknown[], string[]][] = [
    ["a node throws: its caller has the error", { n: () => Promise.reject(new Error("x")) }, {}, [], []],
    [
      "an effect in doubt: so has its caller",
      { n: () => effect("e", () => Promise.reject(new Error("x")), { onError: "unknown" }) },
      {},
      [],
      [],
    ],
    ["an effect's result can't be saved", { n: () => effect("e", () => () => 1) }, {}, [], []],
    ["a gate refuses", { n: () => ({ log: [1] }) }, gate("throw"), [], ['the output of node "n" failed its validation']],
    ["a gate records", { n: () => ({ log: [1] }) }, gate("record"), [], ['the output of node "n" failed its validation']],
    [
      "a gate rolls back, and may not again: two failures",
      { n: () => ({ log: [1] }) },
      gate("rollback"),
      [],
      [
        'node "n" failed its validation: the run goes back to the checkpoint before it',
        'node "n" was rolled back as often as it may be',
      ],
    ],
    [
      "what a node returns can't be saved",
      { n: () => ({ log: [() => 1] }), o: () => ({}) },
      {},
      [],
      ["not saved: the run cannot be resumed from here"],
    ],
    [
      "the same, and failed saves don't stop the run",
      { n: () => ({ log: [() => 1] }), o: () => ({}), p: () => ({}) },
      { saving: { onCheckpointError: "continue" } },
      [],
      ["not saved: the run cannot be resumed from here"],
    ],
    ["the input can't be saved", { n: () => ({}) }, {}, [() => 1], ["not saved: the run cannot be resumed from here"]],
  ];
  test.each(failures)("S8.3 %s", async (_, nodes, options, log, expected) => {
    const { lines, saver, runner } = world(nodes, options);
    await runner.invoke({ log }, { threadId: "t" }).catch(() => undefined);
    await new Promise((resolve) => setTimeout(resolve, 30));
    expect(lines).toEqual(expected);
    saver.close();
  });

  test("S8.3 two values that can't be saved are two failures", async () => {
    const { lines, saver, runner } = world({ n: () => ({ log: [() => 1] }) });
    for (const threadId of ["t", "u"]) await runner.invoke({ log: [] }, { threadId }).catch(() => undefined);
    expect(lines).toEqual(Array(2).fill("not saved: the run cannot be resumed from here"));
    saver.close();
  });

  test("S8.3 a thread that is running: its caller has the error", async () => {
    const { lines, saver, runner } = world({ n: () => ({}) });
    const release = await internalsOf(saver).reserve("t");
    await expect(runner.invoke({ log: [] }, { threadId: "t" })).rejects.toMatchObject({ code: "THREAD_RUNNING" });
    await release();
    expect(lines).toEqual([]);
    saver.close();
  });

  test("S8.3 S4.7 nodes that finish after a node beside them failed: one line, which says what is true", async () => {
    const { lines, saver } = world({});
    const later = async () => {
      await new Promise((resolve) => setTimeout(resolve, 60));
      return { log: ["late"] };
    };
    const inner = new StateGraph(State)
      .addNode("first", later)
      .addNode("then", later)
      .addEdge(START, "first")
      .addEdge("first", "then");
    const graph = new StateGraph(State)
      .addNode("inner", inner.compile())
      .addEdge(START, "inner")
      .addNode("bad", () => Promise.reject(new Error("it is broken")))
      .addNode("late", later)
      .addNode("later", later)
      .addEdge(START, "bad")
      .addEdge(START, "late")
      .addEdge(START, "later")
      .compile({ checkpointer: saver });
    const errors: unknown[] = [];
    saver.events.on("checkpoint_failed", ({ error }) => void errors.push(error));
    const runner = new GraphRunner(graph);
    await expect(runner.invoke({ log: [] }, { threadId: "t" })).rejects.toThrow("it is broken");
    await new Promise((resolve) => setTimeout(resolve, 400));
    expect(errors.length).toBeGreaterThan(0);
    for (const error of errors) {
      expect(error).toMatchObject({
        code: "LEASE_LOST",
        message:
          'The run of thread "t" was over before this node finished: it had failed, or was aborted. Nothing of the node was saved. A resume runs it again.',
      });
    }
    expect(lines).toEqual(
      errors.length === 0 ? [] : ["not saved: a node finished after its run was over, and a resume runs it again"],
    );
    saver.close();
  });
});
