import type { RunnableConfig } from "@langchain/core/runnables";
import { RESUME, WRITES_IDX_MAP } from "@langchain/langgraph-checkpoint";
import { describe, TurnsError } from "../errors";
import type { TurnSaver } from "../saver";
import type { PregelLike } from "../turns/attached-graph";

/** What stands between a thread and new input. */
export interface Unfinished {
  /** Nodes that are due, or wait for an answer. */
  nodes: readonly string[];
  /** Whether only a person's answer can finish it. */
  waits: boolean;
}

interface GraphWithState {
  getState(config: RunnableConfig): Promise<{ next: string[]; tasks: { name: string; interrupts: unknown[] }[] }>;
}

/**
 * `next` alone does not tell: it is empty after a crash between a step's writes and its checkpoint, and while a resume value is
 * pending (internals, F4). Writes that no checkpoint has taken up yet are work too.
 */
export async function unfinishedOf(saver: TurnSaver, graph: PregelLike, threadId: string): Promise<Unfinished | undefined> {
  const config = { configurable: { thread_id: threadId } };
  const head = await saver.getTuple(config);
  if (head === undefined) return undefined;
  const state = await (graph as unknown as GraphWithState).getState(config);
  const taken = (head.pendingWrites ?? []).filter(([, channel]) => channel === RESUME || !Object.hasOwn(WRITES_IDX_MAP, channel));
  if (state.next.length === 0 && taken.length === 0) return undefined;
  const due = state.tasks.filter((task) => state.next.includes(task.name));
  return { nodes: state.next, waits: due.length > 0 && due.every((task) => task.interrupts.length > 0) };
}

export function unfinishedWork(threadId: string, unfinished: Unfinished): TurnsError {
  const nodes = unfinished.nodes.map((name) => JSON.stringify(name)).join(", ");
  return new TurnsError("UNFINISHED_WORK", {
    what: `new input for thread ${describe(threadId)}`,
    expected: "a thread whose last run is finished",
    found: unfinished.waits
      ? `a run that waits for an answer at ${nodes}`
      : `unfinished work${nodes === "" ? "" : ` at ${nodes}`}`,
    remedy: unfinished.waits
      ? 'Answer with resume({ threadId, command: new Command({ resume }) }), or pass onUnfinished: "abandon" to drop it.'
      : 'Call resume({ threadId }) first, or pass onUnfinished: "finish" (or "abandon" to drop it).',
    data: { threadId, nodes: unfinished.nodes, waits: unfinished.waits },
  });
}

/** `null` and a Command that answers an interrupt go on with what there is. */
export function isResume(input: unknown): boolean {
  if (input === null || input === undefined) return true;
  const { lg_name: name, resume } = input as { lg_name?: unknown; resume?: unknown };
  return name === "Command" && resume !== undefined && resume !== null;
}
