import type { Turn } from "./types";

/**
 * Keeps the open Thoughts whose surroundings are in flight as well: a nested node's Thought that was left open under a task that has
 * since ended, or was abandoned, is history.
 *
 * @param known those of the {@link surroundings} that ran on this thread; a graph that was called from another thread has none here
 */
export function inFlight(open: readonly Turn[], known: ReadonlySet<string>): Turn[] {
  const openTasks = new Set(open.map((turn) => turn.nodeTaskId));
  const openNames = new Set(open.filter((turn) => !turn.nodeNs.includes("|")).map((turn) => turn.nodeName));
  const isOpen = (segment: string): boolean => {
    const id = taskIdOf(segment);
    // A graph with `checkpointer: true` has a stable namespace without task id; there only the name can tell.
    return id === undefined ? openNames.has(segment) : openTasks.has(id) || !known.has(id);
  };
  return open.filter((turn) => segmentsAbove(turn.nodeNs).every(isOpen));
}

/** The ids of the node tasks that these turns ran inside of. */
export function surroundings(open: readonly Turn[]): string[] {
  return [...new Set(open.flatMap((turn) => segmentsAbove(turn.nodeNs)).flatMap((segment) => taskIdOf(segment) ?? []))];
}

/** `a:1|2|b:3` → `a:1`; a bare number counts the calls of one graph within a node. */
function segmentsAbove(nodeNs: string): string[] {
  return nodeNs
    .split("|")
    .slice(0, -1)
    .filter((segment) => !/^\d+$/.test(segment));
}

function taskIdOf(segment: string): string | undefined {
  const cut = segment.lastIndexOf(":");
  return cut === -1 ? undefined : segment.slice(cut + 1);
}
