import { START, StateGraph } from "@langchain/langgraph";
import fc from "fast-check";
import { effect, GraphRunner, type GraphRunnerOptions } from "langgraph-checkpoint-turns";
import type { DriftEvent } from "../../src/testing-internal";
import { SideEffects, State, world, type World } from "../support/run-world";
import { tempFile } from "../support/temp";
import { scriptTold } from "./run-process";

interface Plan {
  /** Each node comes behind one of those before it, or at the start. */
  nodes: { name: string; after: number; version: number; deeds: number }[];
  /** How the state joins values: version. */
  state: number;
}

/** Each node does its deeds, one effect each; the run breaks before the given one, or behind the last. */
function runnerOf(
  { saver, ledger }: Pick<World, "saver" | "ledger">,
  plan: Plan,
  breakAt: number,
  options: GraphRunnerOptions = {},
) {
  let deed = 0;
  const builder = new StateGraph(State) as unknown as StateGraph<typeof State, typeof State.State, typeof State.Update, string>;
  for (const { name, deeds } of plan.nodes) {
    builder.addNode(name, async () => {
      for (let at = 0; at <= deeds; at++) {
        if (deed++ === breakAt) throw new Error("broken");
        if (at < deeds) await effect(`${name}-${at}`, () => ledger.happen(`${name}-${at}`));
      }
      return { log: [name] };
    });
  }
  for (const { name, after } of plan.nodes) builder.addEdge(plan.nodes[after]?.name ?? START, name);
  const nodes = Object.fromEntries(plan.nodes.map(({ name, version }) => [name, { version: `${version}` }]));
  return new GraphRunner(builder.compile({ checkpointer: saver }), { stateVersion: `${plan.state}`, nodes, ...options });
}

const plans = fc.array(fc.record({ after: fc.nat(5), deeds: fc.nat(2) }), { minLength: 1, maxLength: 5 }).map((nodes): Plan => ({
  state: 1,
  nodes: nodes.map(({ after, deeds }, at) => ({
    name: `n${at}`,
    after: at === 0 ? -1 : (after % (at + 1)) - 1,
    version: 1,
    deeds,
  })),
}));
type Change = (plan: Plan) => Plan;
const changes = fc.oneof(
  fc.nat(4).map((at): Change => (plan) => ({
    ...plan,
    nodes: plan.nodes.map((node, index) => (index === at ? { ...node, version: 2 } : node)),
  })),
  fc.nat(4).map((at): Change => (plan) => ({
    ...plan,
    nodes: plan.nodes.map((node, index) => (index === at ? { ...node, name: `renamed${at}` } : node)),
  })),
  fc.nat(4).map((at): Change => (plan) => ({
    ...plan,
    nodes:
      plan.nodes.length === 1
        ? plan.nodes
        : plan.nodes
            .filter((_, index) => index !== at)
            .map((node) => ({ ...node, after: node.after === at ? -1 : node.after > at ? node.after - 1 : node.after })),
  })),
  fc.nat(4).map((at): Change => (plan) => ({
    ...plan,
    nodes: [
      ...plan.nodes,
      { name: `added${plan.nodes.length}`, after: Math.min(at, plan.nodes.length - 1), version: 1, deeds: 1 },
    ],
  })),
  fc.nat(4).map((at): Change => (plan) => ({
    ...plan,
    nodes: plan.nodes.map((node, index) => (index === at ? { ...node, after: -1 } : node)),
  })),
  fc.constant<Change>((plan) => ({ ...plan, state: 2 })),
  fc.constant<Change>((plan) => plan),
);

describe("S8.4 a changed graph repeats no effect by default", () => {
  test("S8.4 property: random graphs, a crash anywhere, random changes: no effect that is done happens again", async () => {
    const outcomes = new Map<string, number>();
    await fc.assert(
      fc.asyncProperty(plans, fc.nat(12), fc.array(changes, { minLength: 1, maxLength: 2 }), async (plan, breakAt, all) => {
        const at = world();
        await runnerOf(at, plan, breakAt)
          .invoke({ log: [] }, { threadId: "t" })
          .catch(() => undefined);
        // A node beside the one that broke may still be running.
        while (await at.saver.turns.isRunning("t")) await new Promise((resolve) => setTimeout(resolve, 2));
        const did = at.ledger.all;
        const changed = all.reduce((now, change) => change(now), plan);
        const result: unknown = await runnerOf(at, changed, -1)
          .resume({ threadId: "t" })
          .catch((error: { code?: string }) => error.code);
        const outcome = typeof result === "string" ? result : "ran";
        outcomes.set(outcome, (outcomes.get(outcome) ?? 0) + 1);
        expect(["ran", "GRAPH_CHANGED", "WRONG_GRAPH"]).toContain(outcome);
        if (outcome !== "ran") expect(at.ledger.all).toEqual(did);
        const repeated = at.ledger.all.filter((deed, index) => at.ledger.all.indexOf(deed) !== index);
        expect(repeated).toEqual([]);
        at.saver.close();
      }),
      { numRuns: 120 },
    );
    expect([...outcomes.keys()].sort()).toEqual(expect.arrayContaining(["GRAPH_CHANGED", "ran"]));
  }, 300_000);

  /** a does a deed and completes, b breaks. */
  const broken = {
    state: 1,
    nodes: [
      { name: "a", after: -1, version: 1, deeds: 1 },
      { name: "b", after: 0, version: 1, deeds: 0 },
    ],
  };
  const changedA = { ...broken, nodes: [{ ...broken.nodes[0]!, version: 2 }, broken.nodes[1]!] };

  test("S8.4 S3.3 the refusal names the nodes, what changed, the effects, and three ways on with their calls", async () => {
    const at = world();
    await runnerOf(at, broken, -1).invoke({ log: [] }, { threadId: "t", taskId: "first" });
    await expect(runnerOf(at, broken, 2).invoke({ log: [] }, { threadId: "t", taskId: "second" })).rejects.toThrow("broken");
    const events: DriftEvent[] = [];
    at.saver.events.on("drift", (event) => void events.push(event));
    const refused = (await runnerOf(at, changedA, -1)
      .resume({ threadId: "t" })
      .catch((error: unknown) => error)) as { code: string; message: string; data: object };
    expect(refused).toMatchObject({
      code: "GRAPH_CHANGED",
      data: {
        threadId: "t",
        nodes: ["a"],
        changes: ['node "a", which had completed, changed: its version, from 1 to 2'],
        effects: [{ name: "a-0" }],
      },
    });
    for (const part of [
      'The graph changed since thread "t" ran: node "a", which had completed, changed: its version, from 1 to 2. The run did effects: "a-0" (',
      'call runner.resume({ threadId: "t" }).',
      'runner.resume({ threadId: "t", drift: "continue" }). For these nodes alone: drift: { accept: ["a"] }.',
      'runner.rewind({ threadId: "t", toTask: "first" }) and invoke it again; or repeat them with runner.resume({ threadId: "t", drift: "restart" }).',
    ])
      expect(refused.message).toContain(part);
    expect(events).toMatchObject([{ policy: "refuse", effects: [{ name: "a-0" }] }]);
    expect(await runnerOf(at, changedA, -1).status("t")).toMatchObject({ resumable: false, reason: { code: "GRAPH_CHANGED" } });
    at.saver.close();
  });

  const ways: [string, GraphRunnerOptions, string[], string[]][] = [
    ["restart", { drift: "restart" }, ["a-0", "a-0"], ["a", "b"]],
    ["continue", { drift: "continue" }, ["a-0"], ["a", "b"]],
    ["accept", { drift: { accept: ["a"] } }, ["a-0"], ["a", "b"]],
  ];
  test.each(ways)("S8.4 S4.2 %s, said explicitly, of the runner or the call", async (_, options, deeds, log) => {
    for (const ofCall of [false, true]) {
      const at = world();
      await expect(runnerOf(at, broken, 2).invoke({ log: [] }, { threadId: "t" })).rejects.toThrow("broken");
      const events: DriftEvent[] = [];
      at.saver.events.on("drift", (event) => void events.push(event));
      const runner = runnerOf(at, changedA, -1, ofCall ? { drift: "refuse" } : options);
      expect(await runner.resume({ threadId: "t", ...(ofCall ? options : {}) })).toEqual({ log });
      expect(at.ledger.all).toEqual(deeds);
      expect(events).toMatchObject([
        { policy: options.drift === "restart" ? "restart" : "continue", effects: [{ name: "a-0" }] },
      ]);
      expect(at.warnings.join()).toMatch(/starts again|continues with what/);
      at.saver.close();
    }
  });

  test("S8.4 what is accepted is accepted of those nodes alone", async () => {
    const at = world();
    await expect(runnerOf(at, broken, 2).invoke({ log: [] }, { threadId: "t" })).rejects.toThrow("broken");
    for (const changed of [
      { ...changedA, state: 2 },
      { ...changedA, nodes: [{ ...changedA.nodes[0]!, name: "aa" }, broken.nodes[1]!] },
    ])
      await expect(runnerOf(at, changed, -1, { drift: { accept: ["b"] } }).resume({ threadId: "t" })).rejects.toMatchObject({
        code: "GRAPH_CHANGED",
      });
    await expect(
      runnerOf(at, { ...changedA, state: 2 }, -1, { drift: { accept: ["a"] } }).resume({ threadId: "t" }),
    ).rejects.toThrow(/channel "log"/);
    expect(at.ledger.all).toEqual(["a-0"]);
    at.saver.close();
  });

  test("S8.4 a name in accept that no node has is refused with the nearest one; the name of a removed node isn't", async () => {
    const at = world();
    await expect(runnerOf(at, broken, 2).invoke({ log: [] }, { threadId: "t" })).rejects.toThrow("broken");
    const typo = { drift: { accept: ["bb"] } };
    const refusal = {
      code: "INVALID_OPTION",
      message: expect.stringMatching(
        /"drift.accept" names "bb", but neither .* Did you mean "b"\? Its nodes: a, b\. Nothing was/s,
      ),
      data: { option: "drift.accept", nearest: "b", nodes: ["a", "b"] },
    };
    await expect(runnerOf(at, broken, -1).resume({ threadId: "t", ...typo })).rejects.toMatchObject(refusal);
    await expect(runnerOf(at, changedA, -1, typo).resume({ threadId: "t" })).rejects.toMatchObject(refusal);
    expect((await runnerOf(at, changedA, -1, typo).status("t")).reason).toMatchObject({ code: "INVALID_OPTION" });
    expect(at.ledger.all).toEqual(["a-0"]);
    const renamed = { ...broken, nodes: [{ ...broken.nodes[0]!, name: "other" }, broken.nodes[1]!] };
    await runnerOf(at, renamed, -1).resume({ threadId: "t", drift: { accept: ["a"] } });
    // A runner resumes many threads: one that never had the node is no mistake.
    await expect(runnerOf(at, broken, 2).invoke({ log: [] }, { threadId: "u" })).rejects.toThrow("broken");
    await runnerOf(at, broken, -1, { drift: { accept: ["a", "removed"] } }).resume({ threadId: "u" });
    at.saver.close();
  });

  test("S8.4 an effect in doubt counts as one that may have happened", async () => {
    const at = world();
    const graph = (version: string) =>
      new GraphRunner(
        new StateGraph(State)
          .addNode("a", async () => {
            await effect("pay", () => Promise.reject(new Error("timeout")), { onError: "unknown" });
            return {};
          })
          .addNode("first", () => ({}))
          .addEdge(START, "first")
          .addEdge("first", "a")
          .compile({ checkpointer: at.saver }),
        { nodes: { first: { version }, a: { version: "1" } }, stateVersion: "1" },
      );
    await expect(graph("1").invoke({ log: [] }, { threadId: "t" })).rejects.toMatchObject({ code: "EFFECT_IN_DOUBT" });
    await expect(graph("2").resume({ threadId: "t" })).rejects.toMatchObject({
      code: "GRAPH_CHANGED",
      data: { effects: [{ name: "pay" }] },
    });
    await expect(graph("2").resume({ threadId: "t", drift: "restart" })).rejects.toMatchObject({ code: "EFFECT_IN_DOUBT" });
    at.saver.close();
  });

  test("S8.4 a run that did none starts again with a warning", async () => {
    const at = world();
    const without = { ...broken, nodes: broken.nodes.map((node) => ({ ...node, deeds: 0 })) };
    await expect(runnerOf(at, without, 1).invoke({ log: [] }, { threadId: "t" })).rejects.toThrow("broken");
    const changed = { ...without, nodes: without.nodes.map((node) => ({ ...node, version: 2 })) };
    expect(await runnerOf(at, changed, -1).resume({ threadId: "t" })).toEqual({ log: ["a", "b"] });
    expect(at.warnings.join()).toMatch(
      /Thread "t": the run starts again as a new branch of its history, because node "a", .* changed: its version, from 1 to 2/,
    );
    at.saver.close();
  });

  test("S8.4 S4.7 two processes: killed in one, changed source in the other", async () => {
    for (const [second, code, deeds] of [
      ["changed", "GRAPH_CHANGED", ["mail"]],
      ["reformatted", undefined, ["mail", "report"]],
      ["repaired", undefined, ["mail", "report"]],
    ] as const) {
      const path = tempFile();
      expect((await scriptTold("drift-child.ts", [path, "first"])).signal).toBe("SIGKILL");
      const told = await scriptTold("drift-child.ts", [path, second]);
      expect(told.code).toBe(code);
      expect(new SideEffects(`${path}.ledger`).all).toEqual(deeds);
    }
  });
});
