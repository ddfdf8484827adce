// What a program is, as plain data: it is sent to other processes, printed in reports, and passed to `--repeat`.

/** How an effect whose outcome is unknown is settled: the ledger is asked, it runs again with its key, or a person looks. */
export type EffectKind = "probe" | "idempotent" | "bare";

export interface EffectPlan {
  /** Effects share names, so that their order has to tell them apart. */
  name: "pay" | "mail";
  kind: EffectKind;
  /** Its function throws the first time it is called, before the side effect. */
  throws: boolean;
  told: "input" | "id" | "nothing";
  slow: boolean;
}

export type StepPlan =
  | { do: "effect"; effect: EffectPlan }
  | { do: "effects"; effects: readonly EffectPlan[] }
  | { do: "ask" }
  | { do: "wait" }
  /** A graph in the body's closure. Without `keeps` it has no checkpointer; `always`: its state is kept from visit to visit. */
  | { do: "call"; graph: GraphPlan; times: 1 | 2; keeps: boolean | "always" };

export interface BodyPlan {
  steps: readonly StepPlan[];
  /** Whether it throws the first time it is run, after its steps, and what handles that: its retry policy, or an error of the run. */
  fails: "no" | "retried" | "stops";
}

export type NodePlan =
  | { is: "body"; body: BodyPlan }
  | { is: "sends"; body: BodyPlan; packets: number; worker: BodyPlan }
  /** `always`: compiled with `checkpointer: true`, its state is kept from visit to visit. */
  | { is: "graph"; graph: GraphPlan; keeps: "task" | "always" };

export interface LayerPlan {
  nodes: readonly NodePlan[];
  /** How the layer before leads here: an edge from each, one that waits for all, a conditional edge, a Command's goto. */
  entered: "by any" | "by all" | "chosen" | "goto";
}

export interface GraphPlan {
  layers: readonly LayerPlan[];
  /** How often a conditional edge leads from the last layer back to the first, 0 for no such edge. */
  rounds: number;
  /** Edges over a layer, so that branches of different length meet. */
  skips: boolean;
  /** Whether it has a breakpoint before or after each of its nodes. */
  stops: "no" | "before" | "after";
}

export type StagePlan = { tasks: readonly BodyPlan[] } | { steps: readonly StepPlan[] };

/** A functional entrypoint: tasks side by side, and steps of its own between them. */
export interface FlowPlan {
  stages: readonly StagePlan[];
}

export interface Plan {
  durability: "sync" | "async" | "exit";
  program: { graph: GraphPlan } | { flow: FlowPlan };
}

/** When a process dies: after this many points, each a named place, or after this time, at any place. */
export type Kill = number | { afterMs: number };

/** By how much the wall clock of each process is wrong, in milliseconds. */
export interface ClockPlan {
  /** The first process begins with the first of them, the second with the second, … */
  offsets: readonly number[];
  /** Within a process, the clock changes to the next offset after this many readings; 0: it keeps its offset. */
  every: number;
}

/** A plan, and when each process dies: the first kills the first process, the second the one that resumes, … */
export interface Case {
  plan: Plan;
  kills: readonly Kill[];
  /** Undefined: a clock that's right. */
  clock?: ClockPlan | undefined;
}
