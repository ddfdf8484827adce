import { nodePathOf } from "../guards/graph-document";
import type { Validation } from "../guards/gates";
import type { TurnSaver } from "../saver";
import { sideBySide } from "../side-by-side";
import type { LastRun, TokenCounts, TurnStatus } from "../store/store";
import type { Turn } from "../turns/turn";

/** What is known of the last attempt of a node task. */
export interface NodeOutcome {
  nodeName: string;
  /** Its path in the graph: `sub|a`. */
  path: string;
  nodeNs: string;
  nodeTaskId: string;
  /** The checkpoint of its own graph that it started from; undefined with durability "exit". */
  checkpointId: string | undefined;
  taskId: string;
  attempt: number;
  /** Undefined while it is running. */
  status: TurnStatus | undefined;
  /** When it finished or, if it is in flight, when it started. */
  at: Date;
  fingerprint: string | undefined;
  validation: Validation | undefined;
  error: { name: string; message: string } | undefined;
  turnId: string;
}

/** The node tasks of a thread's last run, by their state. */
export interface RunNodes {
  /** They durably completed: a resume doesn't run them again. */
  completed: NodeOutcome[];
  /** Their last attempt failed, even if an error handler or the node around them dealt with it. */
  failed: NodeOutcome[];
  inFlight: NodeOutcome[];
  /** They wait for a person's answer; includes the nodes around them. */
  waiting: NodeOutcome[];
  /** The turns of the waiting nodes. */
  waitingTurns: Turn[];
  /** What the models of the run's nodes reported. */
  tokens: TokenCounts;
}

/** @param run undefined if nothing has run */
export async function runNodesOf(saver: TurnSaver, threadId: string, run: LastRun | undefined): Promise<RunNodes> {
  const tokens = { input: 0, output: 0, cached: 0, reasoning: 0 };
  const nodes: RunNodes = { completed: [], failed: [], inFlight: [], waiting: [], waitingTurns: [], tokens };
  if (run === undefined) return nodes;
  const latest = new Map<string, Turn>();
  const [turns, inFlight] = await sideBySide(
    () => turnsOf(saver, threadId, run),
    () => saver.turns.inFlight(threadId),
  );
  for (const turn of turns) {
    latest.set(turn.nodeTaskId, turn);
    // An Action repeats the tokens of its Thought.
    if (turn.turnType === "Action") continue;
    for (const kind of Object.keys(tokens) as (keyof TokenCounts)[]) tokens[kind] += turn.tokens[kind];
  }
  for (const turn of inFlight) {
    nodes.inFlight.push(outcomeOf(turn));
    latest.delete(turn.nodeTaskId);
  }
  const failed: Turn[] = [];
  for (const turn of latest.values()) {
    if (turn.turnType === "Thought") continue;
    if (turn.durable && (turn.status === "ok" || turn.status === "handoff")) nodes.completed.push(outcomeOf(turn));
    else if (turn.status === "interrupted") {
      nodes.waiting.push(outcomeOf(turn));
      nodes.waitingTurns.push(turn);
    } else if (turn.status === "error") failed.push(turn);
  }
  const errors = await Promise.all(failed.map((turn) => inspectableError(saver, turn)));
  nodes.failed.push(...failed.map((turn, at) => ({ ...outcomeOf(turn), error: errors[at] })));
  return nodes;
}

/**
 * The turns of the run's own branch. A restarted or forked run has left turns of another branch from the same time. A nested
 * graph belongs to the same branch as its node.
 */
async function turnsOf(saver: TurnSaver, threadId: string, { sinceSeq, inputId, branch }: LastRun): Promise<Turn[]> {
  const turns = await saver.turns.list(threadId, { after: Math.max(0, sinceSeq - 1) });
  // Without the run's input, the start of the branch is unknown.
  if (inputId === undefined) return turns;
  const known = new Set(branch);
  const standing = new Map<string, boolean>();
  return turns.filter(({ nodeNs, nodeName, checkpointId }) => {
    // A graph with a memory of its own has a stable namespace without task id. It belongs to the node of that name that ran last.
    if (nodeNs.includes("|")) return standing.get(nodeNs.slice(0, nodeNs.indexOf("|"))) ?? true;
    const isOwn = checkpointId === undefined || known.has(checkpointId);
    standing.set(nodeNs, isOwn).set(nodeName, isOwn);
    return isOwn;
  });
}

/** Whether the last run began and nothing of it was saved: with durability "exit", when its process was killed. */
export function isLost(inFlight: readonly { checkpointId: string | undefined; nodeNs: string }[]): boolean {
  return inFlight.some(({ checkpointId, nodeNs }) => checkpointId === undefined && !nodeNs.includes("|"));
}

export function outcomeOf(turn: Turn): NodeOutcome {
  return {
    nodeName: turn.nodeName,
    path: nodePathOf(turn.nodeNs),
    nodeNs: turn.nodeNs,
    nodeTaskId: turn.nodeTaskId,
    checkpointId: turn.checkpointId,
    taskId: turn.taskId,
    attempt: turn.attempt,
    status: turn.status,
    at: turn.createdAt,
    fingerprint: turn.fingerprint,
    validation: turn.validation,
    error: undefined,
    turnId: turn.id,
  };
}

/**
 * Why a node failed: what its gate found or what it threw, as its Action says. Undefined where turns are kept without content.
 */
async function inspectableError(saver: TurnSaver, turn: Turn): Promise<{ name: string; message: string } | undefined> {
  const refused = turn.validation;
  if (refused?.verdict === "failed") {
    const { confidence, minConfidence, reason } = refused;
    const why = reason === undefined ? "" : `: ${reason}`;
    return { name: "ValidationFailedError", message: `confidence ${confidence}, at least ${minConfidence} was wanted${why}` };
  }
  try {
    const { error } = (await saver.turns.state(turn)) as { error?: { name?: unknown; message?: unknown } };
    if (error === undefined) return undefined;
    const { name, message } = error;
    return { name: typeof name === "string" ? name : "Error", message: typeof message === "string" ? message : "" };
  } catch {
    return undefined;
  }
}
