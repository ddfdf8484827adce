import type { EffectResolution } from "../effects/effects";
import type { Effect } from "../effects/types";
import type { GraphRunner, GraphRunnerOptions, RunnableGraph } from "../graph-runner";
import type { TurnSaver } from "../saver";
import type { Ledger } from "./ledger";

/** What a graph under test is given. */
export interface GraphWorld<A = unknown> {
  /**
   * The database's path. If the graph needs a saver with its own options, it opens one there:
   * `TurnSaver.fromPath(world.path, …)`.
   */
  path: string;
  /** A saver on that database, opened when it is first used. */
  saver: TurnSaver;
  /** Records the side effects of the graph. */
  ledger: Ledger;
  threadId: string;
  /** The option `args` of the run. */
  args: A;
}

/** One step of a module's script: an input, or a rewind. */
export type Step =
  | { input: unknown; /** Default: `step-1`, `step-2`, … */ taskId?: string }
  /** A rewind, with the undos of the runner. */
  | { rewindTo: string; allowUncompensated?: boolean };

// eslint-disable-next-line @typescript-eslint/no-explicit-any -- a runner of any graph
type Tortured = RunnableGraph | GraphRunner<any>;

/**
 * The exports of a graph's file. Each process loads the file from scratch, so what must survive a crash belongs into the state,
 * into an effect, or into the ledger.
 */
export interface GraphModule<A = unknown> {
  /** Makes the graph, compiled with the world's saver (or one on the world's path), or a GraphRunner for it. */
  graph: (world: GraphWorld<A>) => Tortured | Promise<Tortured>;
  /** The graph's input, or a function from the world to it. Give either this or {@link steps}. */
  input?: unknown;
  /** Several inputs and rewinds, one after the other, on the same thread. Or a function from the world to them. */
  steps?: readonly Step[] | ((world: GraphWorld<A>) => readonly Step[]);
  /** The answer to an interrupt, or a function from the interrupt's value to it. Without one, the run stops where it waits. */
  answer?: unknown;
  /** Options of the GraphRunner that is created if `graph` returns a graph. */
  runner?: GraphRunnerOptions;
  /**
   * Settles an effect in doubt, as a person would. It is asked when a run stops with EFFECT_IN_DOUBT; undefined leaves the effect
   * in doubt. Without this function, such a run stays in doubt.
   */
  settle?: (effect: Effect, world: GraphWorld<A>) => EffectResolution | undefined | Promise<EffectResolution | undefined>;
  /** Removes from the final state what differs from run to run (times, random ids) before states are compared. */
  normalise?: (final: FinalState) => unknown;
}

/** The result of a run, for comparison with another one. */
export interface FinalState {
  /** What the last `invoke` or `resume` returned. Undefined after a rewind. */
  result: unknown;
  values: unknown;
}
