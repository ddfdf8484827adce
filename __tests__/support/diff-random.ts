import { Annotation, Command, interrupt, Send, START, StateGraph } from "@langchain/langgraph";
import fc from "fast-check";
import { type Lab, thread } from "./diff-harness";

type Kind = "plain" | "silent" | "asks" | "sends" | "fails once" | "subgraph" | "memory";
export interface RandomGraph {
  layers: readonly (readonly Kind[])[];
  /** Whether a layer waits for all of the layer before, or is triggered by any of it. */
  joined: boolean;
  /** Which checkpoint of the finished run to go back to, and how. */
  back: number;
  how: "replay" | "new input" | "edit";
}

const graphsOf = (...kinds: Kind[]): fc.Arbitrary<RandomGraph> =>
  fc.record({
    layers: fc.array(fc.array(fc.constantFrom<Kind>(...kinds), { minLength: 1, maxLength: 3 }), { minLength: 1, maxLength: 3 }),
    joined: fc.boolean(),
    back: fc.nat({ max: 6 }),
    how: fc.constantFrom("replay", "new input", "edit"),
  });

export const graphs = graphsOf("plain", "plain", "silent", "asks", "sends", "fails once", "subgraph");
/** With graphs that keep their state from visit to visit (`checkpointer: true`). */
export const graphsWithMemory = graphsOf("plain", "asks", "fails once", "subgraph", "memory", "memory");

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

/** Counts what bodies do, so that one that fails can wait until all its siblings have ended, however slow the machine is. */
let done = 0;
const work = <T>(result: T): T => {
  done += 1;
  return result;
};

async function othersEnded(): Promise<void> {
  for (let before = -1; before !== done;) {
    before = done;
    await new Promise((resolve) => setTimeout(resolve, 15));
    for (let turn = 0; turn < 40; turn += 1) await new Promise((resolve) => setImmediate(resolve));
  }
}

function bodyOf(kind: Kind, name: string): any {
  let failed = false;
  switch (kind) {
    case "plain":
    case "sends":
      return () => work({ log: [name] });
    case "silent":
      return () => work({});
    case "asks":
      return () => work({ log: [`${name}:${interrupt(name)}`] });
    case "fails once":
      return async () => {
        await othersEnded();
        if (failed) return { log: [name] };
        failed = true;
        throw new Error(`${name} failed`);
      };
    case "memory":
    case "subgraph":
      return new StateGraph(State)
        .addNode("s1", () => work({ log: [`${name}/s1`] }))
        .addNode("s2", () => work({ log: [`${name}/s2`] }))
        .addEdge(START, "s1")
        .addEdge("s1", "s2")
        .compile(kind === "memory" ? { checkpointer: true } : {});
  }
}
