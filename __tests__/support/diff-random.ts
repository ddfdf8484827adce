import { Annotation, Command, interrupt, Send, START, StateGraph } from "@langchain/langgraph";
import fc from "fast-check";
import { type Lab, thread } from "./diff-harness";

type Kind = "plain" | "silent" | "asks" | "sends" | "fails once" | "subgraph";
interface RandomGraph {
  layers: readonly (readonly Kind[])[];
  /** Whether a layer waits for all of the layer before, or is triggered by any of it. */
  joined: boolean;
  /** Which checkpoint of the finished run to go back to, and how. */
  back: number;
  how: "replay" | "new input" | "edit";
}

export const graphs: fc.Arbitrary<RandomGraph> = fc.record({
  layers: fc.array(
    fc.array(fc.constantFrom<Kind>("plain", "plain", "silent", "asks", "sends", "fails once", "subgraph"), {
      minLength: 1,
      maxLength: 3,
    }),
    { minLength: 1, maxLength: 3 },
  ),
  joined: fc.boolean(),
  back: fc.nat({ max: 6 }),
  how: fc.constantFrom("replay", "new input", "edit"),
});

const State = Annotation.Root({
  log: Annotation<string[]>({ reducer: (left, right) => left.concat(right), default: () => [] }),
});

/** Runs the graph to its end over all its questions and failures, then travels back once. */
export async function runRandom(lab: Lab, plan: RandomGraph): Promise<void> {
  const graph = lab.compile(build(plan));
  await lab.run(graph, { log: ["in"] });
  await finish(lab, graph);
  const history = await lab.history(graph);
  const { checkpoint_id } = history[plan.back % history.length].config.configurable;
  const at = thread("t", { checkpoint_ns: "", checkpoint_id });
  if (plan.how === "edit") await lab.run(graph, null, await graph.updateState(at, { log: ["edit"] }, "n0_0"));
  else await lab.run(graph, plan.how === "replay" ? null : { log: ["other"] }, at);
  await finish(lab, graph);
}

async function finish(lab: Lab, graph: any): Promise<void> {
  for (let round = 0; round < 8; round++) {
    const state = await graph.getState(thread());
    if (state.next.length === 0) return;
    const questions = state.tasks.flatMap((task: any) => task.interrupts);
    const answers = Object.fromEntries(questions.map((question: any) => [question.id, `answer ${round}`]));
    await lab.run(graph, questions.length > 0 ? new Command({ resume: answers }) : null);
  }
}

function build({ layers, joined }: RandomGraph): any {
  const builder: any = new StateGraph(State);
  if (layers.flat().includes("sends")) builder.addNode("worker", (packet: any) => ({ log: [`worker:${packet.from}`] }));
  const nameOf = (layer: number, index: number): string => `n${layer}_${index}`;
  for (const [layer, kinds] of layers.entries()) {
    const before = layer === 0 ? [] : (layers[layer - 1] ?? []).map((_, index) => nameOf(layer - 1, index));
    for (const [index, kind] of kinds.entries()) {
      const name = nameOf(layer, index);
      builder.addNode(name, bodyOf(kind, name));
      if (kind === "sends")
        builder.addConditionalEdges(name, () => [1, 2].map(() => new Send("worker", { from: name })), ["worker"]);
      if (layer === 0) builder.addEdge(START, name);
      else if (joined && before.length > 1) builder.addEdge(before, name);
      else for (const each of before) builder.addEdge(each, name);
    }
  }
  return builder;
}

function bodyOf(kind: Kind, name: string): any {
  let failed = false;
  switch (kind) {
    case "plain":
    case "sends":
      return () => ({ log: [name] });
    case "silent":
      return () => ({});
    case "asks":
      return () => ({ log: [`${name}:${interrupt(name)}`] });
    case "fails once":
      // Late, so that all its siblings have ended: rounds of the event loop, which a busy machine stretches for both.
      return async () => {
        for (let round = 0; round < 30; round += 1) await new Promise((resolve) => setTimeout(resolve, 1));
        if (failed) return { log: [name] };
        failed = true;
        throw new Error(`${name} failed`);
      };
    case "subgraph":
      return new StateGraph(State)
        .addNode("s1", () => ({ log: [`${name}/s1`] }))
        .addNode("s2", () => ({ log: [`${name}/s2`] }))
        .addEdge(START, "s1")
        .addEdge("s1", "s2")
        .compile();
  }
}
