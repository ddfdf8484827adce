import { inspectableError } from "./error-text";
import { nodePathOf } from "../guards/path";
import type { TurnSaver } from "../saver";
import type { TurnStatus } from "../store/store";
import type { Turn } from "../turns/types";

/** What is known of the last attempt of a node task. */
export interface NodeOutcome {
  node: string;
  /** Its place in the graph: `sub|a`. */
  path: string;
  nodeNs: string;
  nodeTaskId: string;
  taskId: string;
  attempt: number;
  /** Undefined while it is at work. */
  status: TurnStatus | undefined;
  /** When it ended; of one that is in flight, when it began. */
  at: Date;
  fingerprint: string | undefined;
  /** What its confidence gate found. */
  validation: unknown;
  /** Name and message, of one that failed. */
  error: { name: string; message: string } | undefined;
  turnId: string;
}

/** The node tasks of a thread's last run, by how they stand. */
export interface RunNodes {
  /** They durably ended: a resume does not run them again. */
  completed: NodeOutcome[];
  failed: NodeOutcome[];
  inFlight: NodeOutcome[];
  /** They wait for a person's answer. */
  waiting: NodeOutcome[];
}

/**
 * @param since the input checkpoint of the run; undefined: all that is known. Checkpoint ids grow with time, so what started from a
 *   greater one belongs to it
 */
export async function runNodesOf(saver: TurnSaver, threadId: string, since: string | undefined): Promise<RunNodes> {
  const latest = new Map<string, Turn>();
  for (const turn of await turnsOfLastTask(saver, threadId)) {
    if (since === undefined || turn.checkpointId === undefined || turn.checkpointId >= since) latest.set(turn.nodeTaskId, turn);
  }
  const nodes: RunNodes = { completed: [], failed: [], inFlight: [], waiting: [] };
  for (const turn of await saver.inFlight(threadId)) {
    nodes.inFlight.push(outcomeOf(turn));
    latest.delete(turn.nodeTaskId);
  }
  for (const turn of latest.values()) {
    if (turn.turnType === "Thought") continue;
    if (turn.durable && (turn.status === "ok" || turn.status === "handoff")) nodes.completed.push(outcomeOf(turn));
    else if (turn.status === "interrupted") nodes.waiting.push(outcomeOf(turn));
    else if (turn.status === "error") nodes.failed.push({ ...outcomeOf(turn), error: await inspectableError(saver, turn) });
  }
  return nodes;
}

/** A run is at most what its task was, since tasks begin with an input. */
async function turnsOfLastTask(saver: TurnSaver, threadId: string): Promise<Turn[]> {
  const task = (await saver.listTasks(threadId)).at(-1);
  return task === undefined ? [] : saver.listTurns(threadId, { afterSeq: task.firstSeq - 1 });
}

function outcomeOf(turn: Turn): NodeOutcome {
  return {
    node: turn.nodeName,
    path: nodePathOf(turn.nodeNs),
    nodeNs: turn.nodeNs,
    nodeTaskId: turn.nodeTaskId,
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
