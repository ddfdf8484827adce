import { isDeepStrictEqual } from "node:util";
import type { Attempt, OuterRun } from "./node-task";

/** What the graphs were called with that a node has called: in its attempt that runs, and in the one before. */
interface Calls {
  runId: string;
  inputs: unknown[];
  before: readonly unknown[];
}

/**
 * Notices when a node is tried again in the same run and calls a graph with another input than before. The graph resumes nevertheless:
 * its finished nodes, and what they did, aren't repeated. So it doesn't see that input.
 */
export class CalledGraphs {
  readonly #ofRuns = new WeakMap<OuterRun, Map<string, Calls>>();

  /** A node calls a graph. @returns whether it gave another input to it in its attempt before */
  isChanged({ run, runId, nodeTaskId }: Attempt, input: unknown): boolean {
    const ofRun = this.#ofRuns.get(run) ?? new Map<string, Calls>();
    this.#ofRuns.set(run, ofRun);
    const known = ofRun.get(nodeTaskId);
    const calls = known?.runId === runId ? known : { runId, inputs: [], before: known?.inputs ?? [] };
    ofRun.set(nodeTaskId, calls);
    const at = calls.inputs.push(input) - 1;
    return at < calls.before.length && !isDeepStrictEqual(calls.before[at], input);
  }
}
