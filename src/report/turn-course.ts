import type { Turn } from "../turns/turn";
import { addedTokens, noTokens, type PhaseTokens, TOKEN_KINDS } from "./progress";
import type { Head } from "./head";

/** What came of a row of turns: how the newest superstep among them stands. */
export interface Course {
  /** The checkpoint that superstep started from. */
  checkpointId: string | undefined;
  /** A node that had begun and has not ended. */
  open: Turn | undefined;
  /** A node that failed and was not tried again. */
  failed: Turn | undefined;
  /** A node that waits for an answer. */
  waiting: Turn | undefined;
}

/** @param turns of nodes at the top of the graph and inside, oldest first; undefined if there are none at the top */
export function courseOf(turns: readonly Turn[]): Course | undefined {
  const atTop = turns.filter((turn) => !turn.nodeNs.includes("|"));
  const last = atTop.findLast((turn) => turn.turnType === "Thought") ?? atTop.at(-1);
  if (last === undefined) return undefined;
  const newest = new Map<string, Turn>();
  for (const turn of atTop) {
    if (turn.checkpointId === last.checkpointId && turn.step === last.step) newest.set(turn.nodeTaskId, turn);
  }
  const states = [...newest.values()];
  return {
    checkpointId: last.checkpointId,
    open: states.find((turn) => turn.turnType === "Thought"),
    failed: states.find((turn) => turn.status === "error" && !turn.durable),
    waiting: states.find((turn) => turn.status === "interrupted"),
  };
}

/** What is left of a course now: a failure or question that the thread has gone past is none any more. */
export function liveCourse(course: Course | undefined, head: Head, inFlight: ReadonlySet<string>): Course | undefined {
  if (course === undefined) return undefined;
  const isAtHead = course.checkpointId === head.checkpointId;
  return {
    checkpointId: course.checkpointId,
    open: course.open !== undefined && inFlight.has(course.open.id) ? course.open : undefined,
    failed: isAtHead ? course.failed : undefined,
    waiting: isAtHead ? course.waiting : undefined,
  };
}

/** The node at the top of the graph in which a turn took place. */
export function nodeOf(turn: Turn): string {
  const cut = turn.nodeNs.indexOf("|");
  if (cut === -1) return turn.nodeName;
  const segment = turn.nodeNs.slice(0, cut);
  const end = segment.lastIndexOf(":");
  return end === -1 ? segment : segment.slice(0, end);
}

/** An attempt's Action repeats what its Thought has counted up to then. */
export function tokensOf(turns: readonly Turn[]): PhaseTokens {
  const attempts = new Map<string, PhaseTokens>();
  for (const turn of turns) {
    const key = JSON.stringify([turn.nodeTaskId, turn.attempt]);
    const known = attempts.get(key) ?? noTokens();
    const told: Partial<PhaseTokens> = turn.tokens;
    for (const kind of TOKEN_KINDS) known[kind] = Math.max(known[kind], told[kind] ?? 0);
    attempts.set(key, known);
  }
  return [...attempts.values()].reduce((sum, tokens) => addedTokens(sum, tokens), noTokens());
}
