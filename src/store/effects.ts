import type { EFFECTS, RowOf } from "./tables";

/** `settledBy` of an effect that a person settled as belonging to the past. */
export const SETTLED_AS_HISTORY = "history";

/** A row of the journal of side effects. */
export type EffectRow = Omit<RowOf<typeof EFFECTS>, "content"> & {
  /** Codec text. */
  input: string | undefined;
  /** Codec text of the result, or of the error. */
  outcome: string | undefined;
  undoError: string | undefined;
};
export type EffectStatus = EffectRow["status"];
export type UndoStatus = "begun" | "done" | "failed";

/** The names of the nodes on the way to an effect: `a:1|2|b:3` → `a|2|b`. */
export function pathOf(nodeNs: string): string {
  return nodeNs
    .split("|")
    .map((segment) => segment.slice(0, segment.includes(":") ? segment.lastIndexOf(":") : undefined))
    .join("|");
}

/**
 * Where node tasks stand in their graphs, the outermost first: the step, and the index of a task that was sent or called
 * (`2|1.0`). A graph that starts again repeats the same spots.
 */
export function spotOf(tasks: readonly { step: number; path: readonly unknown[] }[]): string {
  return tasks
    .map(({ step, path }) => `${step}${path[0] === "__pregel_push" ? `.${JSON.stringify(path.slice(1))}` : ""}`)
    .join("|");
}

/** The steps of a spot. Two tasks with the same steps differ by their index. */
export function stepsOf(spot: string): string {
  return spot.replaceAll(/\.[^|]*/g, "");
}

/** The Sends of a spot without its steps. */
export function sendsOf(spot: string): string {
  return spot.replaceAll(/(^|\|)\d+/g, "$1");
}

/**
 * The attempts that an effect's node runs inside, the outermost first: the root node task, a slash, and the ids of the attempts
 * with dots between. What happens in an attempt, at any depth and on any thread, may start again with the next one. The node's
 * own attempt is left out, because the next attempt finds its effects by node task. For a node of the outermost graph it stays.
 */
export function runOf(rootNodeTaskId: string, attemptIds: readonly string[]): string {
  return `${rootNodeTaskId}/${(attemptIds.length > 1 ? attemptIds.slice(0, -1) : attemptIds).join(".")}`;
}

/** How many of the outermost attempts two runs of one root node task share. */
export function commonAttempts(run: string, other: string): number {
  const [left, right] = [run, other].map((each) => each.slice(each.indexOf("/") + 1).split(".")) as [string[], string[]];
  const differs = left.findIndex((id, depth) => id !== right[depth]);
  return differs === -1 ? left.length : differs;
}

/** Whether a functional entrypoint called the spot's task at this depth. The task then belongs to its caller's graph. */
export function isCalledAt(spot: string, depth: number): boolean {
  return spot.split("|")[depth]?.endsWith(",true]") === true;
}

export function rootTaskOf(run: string): string {
  return run.slice(0, run.indexOf("/"));
}

/** A statement for a transaction that isn't the store's. Its values stand for question marks. */
export interface EffectRecord {
  /** Returns a row if it has recorded the effect; then the effect's row was as it was seen. */
  readonly sql: string;
  readonly values: readonly (string | Uint8Array)[];
}
