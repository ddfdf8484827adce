import { Command, interrupt, Send, START, StateGraph } from "@langchain/langgraph";
import fc from "fast-check";
import { GraphRunner, TurnsError } from "../../src/index";
import { runs } from "../support/lane";
import { State, world, type World } from "../support/run-world";

jest.setTimeout(300_000);
// LangGraph prints which Sends go to nodes that are gone.
beforeEach(() => void jest.spyOn(console, "warn").mockImplementation(() => {}));
afterEach(() => void jest.restoreAllMocks());

/** A graph whose node "due" stops the run, and what somebody changes about this node before the resume. */
interface Plan {
  /** How many graphs are around the node. */
  depth: number;
  keeps: boolean;
  /** What leads to the node. */
  entry: "start" | "edge" | "join" | "sends";
  asks: boolean;
  defers: boolean;
  change: "nothing" | "its name" | "its defer";
}

const plans: fc.Arbitrary<Plan> = fc.record({
  depth: fc.nat(2),
  keeps: fc.boolean(),
  entry: fc.constantFrom("start", "edge", "join", "sends"),
  asks: fc.boolean(),
  defers: fc.boolean(),
  change: fc.constantFrom("nothing", "its name", "its defer"),
});

const EVERYTHING: Plan[] = [0, 1, 2].flatMap((depth) =>
  (["start", "edge", "join", "sends"] as const).flatMap((entry) =>
    (["its name", "its defer"] as const).map((change) => ({ depth, keeps: false, entry, asks: false, defers: false, change })),
  ),
);

function graphOf(at: World, { depth, keeps, entry, asks, defers }: Plan, name: string, isBroken: boolean): any {
  const ran = (node: string) => (): typeof State.Update => {
    at.ledger.happen(node);
    return { log: [node] };
  };
  const due = (): typeof State.Update => {
    at.ledger.happen(name);
    if (asks) return { log: [String(interrupt("?"))] };
    if (isBroken) throw new Error("it is broken");
    return { log: [name] };
  };
  const builder: any = new StateGraph(State).addNode(name, due, { defer: defers }).addNode("behind", ran("behind"));
  builder.addEdge(name, "behind");
  if (entry === "start") builder.addEdge(START, name);
  else builder.addNode("a", ran("a")).addEdge(START, "a");
  if (entry === "edge") builder.addEdge("a", name);
  if (entry === "join") builder.addNode("b", ran("b")).addEdge(START, "b").addEdge(["a", "b"], name);
  if (entry === "sends") builder.addConditionalEdges("a", () => [new Send(name, { log: [] })], [name]);
  let graph = builder.compile({ checkpointer: depth === 0 ? at.saver : keeps || undefined });
  for (let above = depth - 1; above >= 0; above--) {
    const around: any = new StateGraph(State).addNode(`sub${above}`, graph).addEdge(START, `sub${above}`);
    graph = around.compile({ checkpointer: above === 0 ? at.saver : undefined });
  }
  return graph;
}

/** Whether the resume ran the due node and all that comes after it; otherwise it was refused, and nothing ran. */
async function resumes(plan: Plan): Promise<boolean> {
  const at = world();
  const before = new GraphRunner(graphOf(at, plan, "due", true));
  await before.invoke({ log: ["in"] }, { threadId: "t" }).catch(() => {});
  const [question] = (await before.status("t")).waiting;
  const command = question?.id === undefined ? undefined : new Command({ resume: { [question.id]: "yes" } });
  const name = plan.change === "its name" ? "renamed" : "due";
  const defers = plan.change === "its defer" ? !plan.defers : plan.defers;
  const runner = new GraphRunner(graphOf(at, { ...plan, defers }, name, false), { drift: "refuse" });
  const mark = at.ledger.all.length;
  const codes = /^(UNFINISHED_WORK|GRAPH_CHANGED)$/;
  await expect(runner.invoke({ log: ["new"] }, { threadId: "t" })).rejects.toMatchObject({ code: expect.stringMatching(codes) });
  const refused = await runner.resume({ threadId: "t", command }).then(
    () => undefined,
    (error: unknown) => error,
  );
  const ran = at.ledger.all.slice(mark);
  const { onResume } = await runner.status("t");
  at.saver.close();
  if (refused === undefined) {
    expect(ran).toEqual([name, "behind"]);
    expect(onResume).toBe("return");
    return true;
  }
  expect(TurnsError.is(refused) ? refused.code : refused).toMatch(/^(GRAPH_CHANGED|WRONG_GRAPH)$/);
  expect(ran).toEqual([]);
  expect(onResume).toBe("refuse");
  return false;
}

test("S4.2 S2.7 new input never drops the node that is due, and a resume runs it or is refused if the changed graph wouldn't", async () => {
  await fc.assert(
    fc.asyncProperty(plans, async (plan) => {
      const isResumed = await resumes(plan);
      if (plan.change === "nothing") expect(isResumed).toBe(true);
      if (plan.change === "its name") expect(isResumed).toBe(false);
    }),
    { numRuns: runs(25, 150), examples: EVERYTHING.map((plan) => [plan] as [Plan]) },
  );
});

test("S4.2 new input on a due node whose defer changed is refused with the calls that help", async () => {
  const at = world();
  const plan: Plan = { depth: 0, keeps: false, entry: "edge", asks: false, defers: false, change: "its defer" };
  await expect(new GraphRunner(graphOf(at, plan, "due", true)).invoke({ log: ["in"] }, { threadId: "t" })).rejects.toThrow(
    "broken",
  );
  const runner = new GraphRunner(graphOf(at, { ...plan, defers: true }, "due", false));
  await expect(runner.invoke({ log: ["new"] }, { threadId: "t" })).rejects.toMatchObject({ code: "GRAPH_CHANGED" });
  at.saver.close();
});

test("S3.7 S4.2 another graph's new input doesn't drop the unfinished work of a thread", async () => {
  const at = world();
  const plan: Plan = { depth: 0, keeps: false, entry: "edge", asks: false, defers: false, change: "nothing" };
  await expect(new GraphRunner(graphOf(at, plan, "due", true)).invoke({ log: ["in"] }, { threadId: "t" })).rejects.toThrow(
    "broken",
  );
  const other = new StateGraph(State)
    .addNode("x", () => ({ log: ["x"] }))
    .addEdge(START, "x")
    .compile({ checkpointer: at.saver });
  const runner = new GraphRunner(other);
  await expect(runner.invoke({ log: ["new"] }, { threadId: "t" })).rejects.toMatchObject({ code: "UNFINISHED_WORK" });
  await expect(runner.resume({ threadId: "t" })).rejects.toMatchObject({ code: "WRONG_GRAPH" });
  expect(await runner.invoke({ log: ["new"] }, { threadId: "t", onUnfinished: "abandon" })).toEqual({
    log: ["in", "a", "new", "x"],
  });
  at.saver.close();
});

test.each([true, false])("S1.6 S2.5 nothing is due behind a deferred last node (attached: %s)", async (attached) => {
  const at = world();
  const builder = new StateGraph(State)
    .addNode("a", () => ({ log: ["a"] }))
    .addNode("last", () => ({ log: ["last"] }), { defer: true });
  const graph = builder.addEdge(START, "a").addEdge("a", "last").compile({ checkpointer: at.saver });
  if (attached) at.saver.attach(graph);
  await graph.invoke({ log: [] }, { configurable: { thread_id: "t" } });
  expect(await at.saver.turns.inFlight("t")).toEqual([]);
  const turns = await at.saver.turns.list("t");
  expect(turns.filter(({ turnType }) => turnType === "Thought").map(({ nodeName }) => nodeName)).toEqual(["a", "last"]);
  at.saver.close();
});
