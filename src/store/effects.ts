/** `intent`: begun, and not known how it ended. `failed` may run again, `final` failed for good. */
export type EffectStatus = "intent" | "done" | "failed" | "final";
export type UndoStatus = "begun" | "done" | "failed";

/** `settledBy` of what somebody settled as belonging to the past. */
export const SETTLED_AS_HISTORY = "history";

/** A row of the journal of side effects. */
export interface EffectRow {
  seq: number;
  id: string;
  threadId: string;
  /** The thread's rewind epoch when it began: node task ids repeat after a rewind. */
  epoch: number;
  taskId: string;
  nodeName: string;
  nodeNs: string;
  nodeTaskId: string;
  /** The node's namespace without task ids; see {@link pathOf}. */
  path: string;
  /** Where in the course of its graphs; see {@link spotOf}. */
  spot: string;
  /** The root checkpoint whose node tasks it is a part of. */
  anchor: string | undefined;
  /** The thread that the anchor is a checkpoint of, if it is another one. */
  anchorThread: string | undefined;
  /** The root node task and the attempts around it; see {@link runOf}. */
  run: string;
  /**
   * The outermost graph run, while a checkpoint that the effect ran under is not saved, nor a later one of its graph. Durability "exit"
   * saves them when the run stops: a crash loses all that the run did, or, of a run that went on, what the graphs inside of it did since.
   */
  unsavedRun: string | undefined;
  name: string;
  /** Which of the effects of this name in the node task. */
  label: string;
  /** What the outside world may tell a repetition by. */
  key: string;
  idempotent: boolean;
  /** The name of its undo; empty if it needs none; undefined if nothing was said. */
  undo: string | undefined;
  inputDigest: string | undefined;
  /** Codec text. */
  input: string | undefined;
  status: EffectStatus;
  /** Codec text of the result, or of the error. */
  outcome: string | undefined;
  tries: number;
  /**
   * Reserved by a try that repeats one in doubt: the seq of the effect from when that try is known to have done it. Until then its row
   * stays where the first try was, which may have done it too.
   */
  triedSeq: number | undefined;
  process: string;
  startedAt: string;
  endedAt: string | undefined;
  /** Who told the outcome, if not the effect's own function. */
  settledBy: string | undefined;
  undoStatus: UndoStatus | undefined;
  undoError: string | undefined;
  undoneAt: string | undefined;
  /** In a copied thread: the deed is the source's, and so is its undo. */
  inherited: boolean;
}

/** The names of the nodes on the way to an effect: `a:1|2|b:3` → `a|2|b`. */
export function pathOf(nodeNs: string): string {
  return nodeNs
    .split("|")
    .map((segment) => segment.slice(0, segment.includes(":") ? segment.lastIndexOf(":") : undefined))
    .join("|");
}

/**
 * Where node tasks stand in their graphs, the outermost first: the step, and for a task that was sent or called its index, `2|1.0`.
 * A graph that is begun anew gives it again.
 */
export function spotOf(tasks: readonly { step: number; path: readonly unknown[] }[]): string {
  return tasks
    .map(({ step, path }) => `${step}${path[0] === "__pregel_push" ? `.${JSON.stringify(path.slice(1))}` : ""}`)
    .join("|");
}

/** The steps of a spot. Of two tasks of the same steps the index tells that they are not the same one. */
export function stepsOf(spot: string): string {
  return spot.replaceAll(/\.[^|]*/g, "");
}

/** The Sends of a spot without its steps. */
export function sendsOf(spot: string): string {
  return spot.replaceAll(/(^|\|)\d+/g, "$1");
}

/**
 * The attempts that an effect's node runs inside of, the outermost first: the root node task, a slash, and the ids of the attempts with
 * dots between. What happens in an attempt, at whatever depth and on whatever thread, may begin anew with the next one. The node's own
 * attempt is left out, since by its node task its next one finds what it did; that of a node of the outermost graph stays.
 */
export function runOf(rootNodeTaskId: string, attemptIds: readonly string[]): string {
  return `${rootNodeTaskId}/${(attemptIds.length > 1 ? attemptIds.slice(0, -1) : attemptIds).join(".")}`;
}

/** How many of the outermost attempts two runs of one root node task have in common. */
export function commonAttempts(run: string, other: string): number {
  const [left, right] = [run, other].map((each) => each.slice(each.indexOf("/") + 1).split(".")) as [string[], string[]];
  const differs = left.findIndex((id, depth) => id !== right[depth]);
  return differs === -1 ? left.length : differs;
}

/** Whether a spot's task at a depth is one that a functional entrypoint called: it belongs to the graph that its caller belongs to. */
export function isCalledAt(spot: string, depth: number): boolean {
  return spot.split("|")[depth]?.endsWith(",true]") === true;
}

export function rootTaskOf(run: string): string {
  return run.slice(0, run.indexOf("/"));
}
