import { Annotation, Command, END, Send, START, StateGraph } from "@langchain/langgraph";
import type { TurnSaver } from "langgraph-checkpoint-turns";
import { type BodyParts, bodyWork, type Callee, type Callees, digest, type World } from "./bodies";
import type { BodyPlan, GraphPlan, LayerPlan, NodePlan, StepPlan } from "./plan";

const PRIME = 99_991;
const added = Annotation<number>({ reducer: (left, right) => left + right, default: () => 0 });
// The order in which results are put together counts in all but `sum`.
const results = {
  log: Annotation<string[]>({ reducer: (left, right) => left.concat(right), default: () => [] }),
  sum: added,
  fold: Annotation<number>({ reducer: (left, right) => (left * 31 + right) % PRIME, default: () => 0 }),
  seed: Annotation<number>({ reducer: (_, right) => right, default: () => 0 }),
};
const State = Annotation.Root({ ...results, rounds: added });
/** A graph inside another takes a number only, and gives back what is its own: otherwise its list would hold its parent's twice. */
const Input = Annotation.Root({ seed: results.seed });
const Output = Annotation.Root(results);

type Values = typeof State.State & { packet?: number };

const retryPolicy = { maxAttempts: 3, initialInterval: 1, jitter: false, retryOn: () => true, logWarning: false };
const first = (layers: readonly LayerPlan[]): string[] => (layers[0]?.nodes ?? []).map((_, index) => nameOf(0, index));
const nameOf = (layer: number, index: number): string => `n${layer}_${index}`;

export function buildGraph(saver: TurnSaver, world: World, plan: GraphPlan): any {
  return saver.attach(
    builderOf({ world, callees: calleesOf(world, plan), unsaved: false }, plan).compile({
      checkpointer: saver,
      ...stopsOf(plan),
    }),
  );
}

/** The graphs that bodies of this graph, and of the graphs inside it, call from their closures. */
function calleesOf(world: World, plan: GraphPlan): Callees {
  const callees = new Map<GraphPlan, Callee>();
  const ofGraph = (graph: GraphPlan): void => {
    for (const node of graph.layers.flatMap(({ nodes }) => nodes)) {
      if (node.is === "graph") ofGraph(node.graph);
      else addCallees(world, callees, [...node.body.steps, ...(node.is === "sends" ? node.worker.steps : [])]);
    }
  };
  ofGraph(plan);
  return callees;
}

export function addCallees(world: World, into: Map<GraphPlan, Callee>, steps: readonly StepPlan[]): void {
  for (const step of steps) {
    if (step.do !== "call") continue;
    const inner = { world, callees: new Map(), unsaved: step.keeps === false };
    const graph = builderOf(inner, step.graph).compile({
      ...(step.keeps === true ? {} : { checkpointer: step.keeps === "always" }),
      ...stopsOf(step.graph),
    });
    into.set(step.graph, async (seed) => {
      const { log, sum, fold } = await graph.invoke({ seed });
      return `${log.length}/${sum}/${fold}`;
    });
  }
}

const stopsOf = ({ stops }: GraphPlan): object =>
  stops === "no" ? {} : stops === "before" ? { interruptBefore: "*" } : { interruptAfter: "*" };

function builderOf(parts: BodyParts, plan: GraphPlan): any {
  const { layers, rounds, skips } = plan;
  const builder: any = new StateGraph(State, { input: Input, output: Output } as never);
  for (const [at, layer] of layers.entries()) {
    const next = layers[at + 1];
    const goals = (next?.nodes ?? []).map((_, index) => nameOf(at + 1, index));
    for (const [index, node] of layer.nodes.entries()) {
      const name = nameOf(at, index);
      addNode(builder, parts, { name, node, goals: next?.entered === "goto" ? goals : [] });
      branch(builder, name, node, next, goals);
    }
    lead(builder, layers, at);
    if (skips && at > 1) for (const [index] of layer.nodes.entries()) builder.addEdge(nameOf(at - 2, 0), nameOf(at, index));
  }
  if (rounds > 0) {
    builder.addNode("again", () => ({ rounds: 1 }));
    const last = layers.length - 1;
    for (const [index] of (layers[last]?.nodes ?? []).entries()) builder.addEdge(nameOf(last, index), "again");
    const back = first(layers);
    builder.addConditionalEdges("again", (state: Values) => (state.rounds < rounds ? back : END), [...back, END]);
  }
  return builder;
}

/** The edges into a layer. */
function lead(builder: any, layers: readonly LayerPlan[], at: number): void {
  const { nodes = [], entered = "by any" } = layers[at] ?? {};
  const names = nodes.map((_, index) => nameOf(at, index));
  const before = (layers[at - 1]?.nodes ?? []).map((node, index) => ({ node, name: nameOf(at - 1, index) }));
  if (at === 0) for (const name of names) builder.addEdge(START, name);
  if (entered === "by all" && before.length > 1) {
    const all = before.map((each) => each.name);
    for (const name of names) builder.addEdge(all, name);
    return;
  }
  for (const { node, name } of before) {
    const isHopping = entered === "goto" && node.is === "body";
    if (!isHopping && entered !== "chosen") for (const to of names) builder.addEdge(name, to);
  }
}

/** A node has one conditional edge at most: it sends, it chooses, or both. */
function branch(builder: any, name: string, node: NodePlan, next: LayerPlan | undefined, goals: readonly string[]): void {
  const packets = node.is === "sends" ? Array.from({ length: node.packets }, (_, packet) => packet) : [];
  const choices = next?.entered === "chosen" ? goals : [];
  if (packets.length + choices.length === 0) return;
  const targets = ({ seed, fold }: Values): unknown[] => [
    ...packets.map((packet) => new Send(`${name}_w`, { seed, fold, packet })),
    ...chosen(choices, fold),
  ];
  builder.addConditionalEdges(name, targets, [...(packets.length > 0 ? [`${name}_w`] : []), ...choices]);
}

/** One of them at least. */
const chosen = (names: readonly string[], fold: number): string[] => {
  const some = names.filter((name) => digest(`${name} ${fold}`) % 3 > 0);
  return some.length > 0 ? some : names.slice(0, 1);
};

function addNode(builder: any, parts: BodyParts, { name, node, goals }: { name: string; node: NodePlan; goals: string[] }): void {
  if (node.is === "graph") {
    builder.addNode(
      name,
      builderOf(parts, node.graph).compile({
        ...(node.keeps === "always" ? { checkpointer: true } : {}),
        ...stopsOf(node.graph),
      }),
    );
    return;
  }
  const isHopping = goals.length > 0 && node.is === "body";
  const options = { ...(node.body.fails === "retried" ? { retryPolicy } : {}), ...(isHopping ? { ends: goals } : {}) };
  const run = async (state: Values): Promise<unknown> => {
    const update = await updateOf(parts, name, node.body, state);
    return isHopping ? new Command({ update, goto: goals }) : update;
  };
  builder.addNode(name, run, options);
  if (node.is !== "sends") return;
  const worker = `${name}_w`;
  builder.addNode(
    worker,
    (packet: Values) => updateOf(parts, worker, node.worker, packet),
    node.worker.fails === "retried" ? { retryPolicy } : {},
  );
}

async function updateOf(
  parts: BodyParts,
  name: string,
  body: BodyPlan,
  { seed, fold, packet }: Values,
): Promise<Record<string, unknown>> {
  const input = [seed, fold, ...(packet === undefined ? [] : [packet])].join(".");
  const value = await bodyWork(parts, name, body, input);
  return { log: [`${name}:${value}`], sum: value % 100, fold: value, seed: value };
}
