import type { BodyPlan, GraphPlan, Plan, StepPlan } from "./plan";

/** What a program has, in words. */
export function featuresOf({ durability, program }: Plan): Set<string> {
  const found = new Set([`durability ${durability}`]);
  if ("graph" in program) ofGraph(found, program.graph);
  else {
    found.add("functional entrypoint");
    for (const stage of program.flow.stages) {
      if ("steps" in stage) ofSteps(found, stage.steps);
      else {
        if (stage.tasks.length > 1) found.add("parallel branches");
        for (const body of stage.tasks) ofBody(found, body);
      }
    }
  }
  return found;
}

function ofGraph(found: Set<string>, { layers, rounds, skips, stops }: GraphPlan): void {
  if (stops !== "no") found.add("breakpoints");
  if (rounds > 0) found.add("loop");
  if (skips && layers.length > 2) found.add("branches of different length");
  for (const { nodes, entered } of layers) {
    if (nodes.length > 1) found.add("parallel branches");
    if (entered === "chosen") found.add("conditional edge");
    if (entered === "goto") found.add("Command with goto");
    for (const node of nodes) {
      if (node.is === "graph") {
        found.add(node.keeps === "always" ? "subgraph with checkpointer: true" : "subgraph");
        ofGraph(found, node.graph);
        continue;
      }
      ofBody(found, node.body);
      if (node.is !== "sends") continue;
      found.add("Send");
      ofBody(found, node.worker);
    }
  }
}

function ofBody(found: Set<string>, { steps, fails }: BodyPlan): void {
  if (fails === "retried") found.add("node with a retry policy that fails");
  if (fails === "stops") found.add("node that fails the run");
  ofSteps(found, steps);
}

function ofSteps(found: Set<string>, steps: readonly StepPlan[]): void {
  for (const step of steps) {
    if (step.do === "ask") found.add("interrupt");
    if (step.do === "call") {
      const kept = step.keeps === "always" ? ", with checkpointer: true" : step.keeps ? "" : ", without checkpoints";
      found.add(`graph called by a node${kept}`);
      ofGraph(found, step.graph);
    }
    const effects = step.do === "effect" ? [step.effect] : step.do === "effects" ? step.effects : [];
    for (const { kind, throws } of effects) {
      found.add(KINDS[kind]);
      if (throws) found.add("effect that throws");
    }
    if (effects.length > 1) found.add("effects side by side");
  }
}

const KINDS = { probe: "effect with a probe", idempotent: "idempotent effect", bare: "effect without either" } as const;
