import type { EffectResolution } from "../effects/effects";
import type { Effect } from "../effects/types";
import type { GraphRunner, GraphRunnerOptions, RunnableGraph } from "../graph-runner";
import type { TurnSaver } from "../saver";
import type { Ledger } from "./ledger";

export interface GraphWorld<A = unknown> {
  /** The database's path. A graph that wants a saver with options of its own opens it there: `TurnSaver.fromPath(world.path, …)`. */
  path: string;
  /** A saver on it, opened when it is first asked for. */
  saver: TurnSaver;
  /** For what the graph does to the world. */
  ledger: Ledger;
  threadId: string;
  /** The option `args` of whoever started the run. */
  args: A;
}

export type Step =
  | { input: unknown; /** Default: `step-1`, `step-2`, … */ taskId?: string }
  /** A rewind, with the undos of the runner. */
  | { rewindTo: string; allowUncompensated?: boolean };

// eslint-disable-next-line @typescript-eslint/no-explicit-any -- a runner of whatever graph
type Tortured = RunnableGraph | GraphRunner<any>;

/**
 * What a file exports whose graph is tortured. It is loaded anew in each process, so what must outlive a crash belongs into the state,
 * into an effect, or into the ledger.
 */
export interface GraphModule<A = unknown> {
  /** Makes the graph, compiled with the world's saver (or one on the world's path), or a GraphRunner of it. */
  graph: (world: GraphWorld<A>) => Tortured | Promise<Tortured>;
  /** What the graph is invoked with, or a function of the world that says it. Either this or {@link steps}. */
  input?: unknown;
  /** Several inputs and rewinds, one after the other, on the same thread. Or a function of the world. */
  steps?: readonly Step[] | ((world: GraphWorld<A>) => readonly Step[]);
  /** The answer to an interrupt, or a function from the value of the interrupt to it. Without one the run ends where it waits. */
  answer?: unknown;
  /** Options of the GraphRunner that is made where `graph` returns a graph. */
  runner?: GraphRunnerOptions;
  /**
   * Settles an effect in doubt, as a person would: asked where a run ended with EFFECT_IN_DOUBT; undefined leaves it. Without it such a
   * run ends in doubt.
   */
  settle?: (effect: Effect, world: GraphWorld<A>) => EffectResolution | undefined | Promise<EffectResolution | undefined>;
  /** Takes out of the final state what differs from run to run (times, random ids) before states are compared. */
  normalise?: (final: FinalState) => unknown;
}

/** How a run ended, for a comparison with another one. */
export interface FinalState {
  /** What the last `invoke` or `resume` gave. Undefined after a rewind. */
  result: unknown;
  values: unknown;
}
