import { Annotation, Command, interrupt, Send, START, StateGraph } from "@langchain/langgraph";
import fc from "fast-check";
import { collect, type Lab, thread } from "../support/diff-harness";

/** A node: plain, with a question, or with a graph of nodes inside that keeps its state between visits (`true`) or doesn't. */
type Kind = "plain" | "asks" | "sends" | { keeps: boolean; inside: readonly Kind[] };

type Step =
  | { do: "input" }
  | { do: "resume" }
  /** Runs from a checkpoint of the root graph, or of a graph inside, without input, with input, or after an edit. */
  | { do: "replay" | "new input" | "edit"; within: "root" | "sub"; nth: number };

export interface TravelPlan {
  /** Layers of parallel nodes. */
  layers: readonly (readonly Kind[])[];
  steps: readonly Step[];
}

const leaf = fc.constantFrom<Kind>("plain", "asks");
const inner = fc.record({ keeps: fc.boolean(), inside: fc.array(leaf, { minLength: 1, maxLength: 2 }) });
const nested = fc.record({
  keeps: fc.boolean(),
  inside: fc.array(fc.oneof<fc.Arbitrary<Kind>[]>(leaf, inner), { minLength: 1, maxLength: 3 }),
});
const node: fc.Arbitrary<Kind> = fc.oneof(leaf, fc.constant<Kind>("sends"), nested, nested);
const travel: fc.Arbitrary<Step> = fc.record({
  do: fc.constantFrom("replay" as const, "replay" as const, "new input" as const, "edit" as const),
  within: fc.constantFrom("root" as const, "sub" as const),
  nth: fc.nat({ max: 12 }),
});

/** @param width how many nodes may run side by side: which of them tells first, in a stream, depends on how long a save takes */
export function travelPlans(width: number): fc.Arbitrary<TravelPlan> {
  const step = fc.oneof<fc.Arbitrary<Step>[]>(fc.constant({ do: "input" }), fc.constant({ do: "resume" }), travel, travel);
  return fc.record({
    layers: fc.array(fc.array(node, { minLength: 1, maxLength: width }), { minLength: 1, maxLength: 3 }),
    steps: fc.array(step, { minLength: 1, maxLength: 4 }),
  });
}

const State = Annotation.Root({
  log: Annotation<string[]>({ reducer: (left, right) => left.concat(right), default: () => [] }),
});

/** Input first, then the steps; each is followed by what it leaves to be seen. */
export async function runTravel(lab: Lab, plan: TravelPlan): Promise<void> {
  const graph = lab.compile(build(plan.layers, "n"));
  await lab.run(graph, { log: ["in"] });
  for (const [index, step] of plan.steps.entries()) await take(lab, graph, step, index);
}

async function take(lab: Lab, graph: any, step: Step, index: number): Promise<void> {
  if (step.do === "input") return lab.run(graph, { log: [`in ${index}`] });
  if (step.do === "resume") {
    const { tasks } = await graph.getState(thread());
    const asked = tasks.flatMap((task: any) => task.interrupts).map(({ id }: any) => [id, `answer ${index}`]);
    return lab.run(graph, asked.length === 0 ? null : new Command({ resume: Object.fromEntries(asked) }));
  }
  const at = await checkpoint(lab, step);
  if (at === undefined) return;
  if (step.do === "edit") {
    const edited = await graph.updateState(at, { log: [`edit ${index}`] }).catch((error: unknown) => error);
    lab.note("edit", edited);
    return edited instanceof Error ? undefined : lab.run(graph, null, edited);
  }
  await lab.run(graph, step.do === "replay" ? null : { log: [`in ${index}`] }, at);
}

/**
 * The config of a checkpoint as `getState` gives it. Graphs that run side by side save in any order, so checkpoints are counted by graph.
 */
async function checkpoint(lab: Lab, { within, nth }: { within: "root" | "sub"; nth: number }): Promise<any> {
  const all = await collect(lab.saver.list(thread()));
  const places = all
    .map(({ config, metadata }) => ({ ...config.configurable, parents: metadata?.parents }) as any)
    .filter(({ checkpoint_ns }) => (checkpoint_ns === "") === (within === "root"))
    .sort((left, right) => (keyOf(left) < keyOf(right) ? -1 : 1));
  if (places.length === 0) return undefined;
  const { checkpoint_ns, checkpoint_id, parents } = places[nth % places.length];
  if (within === "root") return thread("t", { checkpoint_ns, checkpoint_id });
  return thread("t", { checkpoint_ns, checkpoint_id, checkpoint_map: { ...parents, [checkpoint_ns]: checkpoint_id } });
}

const keyOf = ({ checkpoint_ns, checkpoint_id }: any): string => `${checkpoint_ns.replaceAll(/:[^|]*/g, "")} ${checkpoint_id}`;

function build(layers: readonly (readonly Kind[])[], prefix: string): any {
  const builder: any = new StateGraph(State);
  if (layers.flat().includes("sends")) builder.addNode("worker", (packet: any) => ({ log: [`worker:${packet.from}`] }));
  let before: string[] = [];
  for (const [layer, kinds] of layers.entries()) {
    const names = kinds.map((_, index) => `${prefix}${layer}${"abc"[index]}`);
    for (const [index, name] of names.entries()) {
      const kind = kinds[index];
      builder.addNode(name, bodyOf(kind ?? "plain", name));
      if (kind === "sends")
        builder.addConditionalEdges(name, () => [1, 2].map(() => new Send("worker", { from: name })), ["worker"]);
      if (before.length === 0) builder.addEdge(START, name);
      else builder.addEdge(before.length === 1 ? before[0] : before, name);
    }
    before = names;
  }
  return builder;
}

function bodyOf(kind: Kind, name: string): any {
  if (kind === "asks") return () => ({ log: [`${name}:${interrupt(name)}`] });
  if (typeof kind === "string") return () => ({ log: [name] });
  const layers = kind.inside.map((each) => [each]);
  return build(layers, `${name}_`).compile(kind.keeps ? { checkpointer: true } : {});
}
