import type { Turn } from "./types";

/**
 * Keeps the open Thoughts whose surroundings are in flight as well: a nested node's Thought that was left open under a task that has
 * since ended, or was abandoned, is history.
 */
export function inFlight(open: readonly Turn[]): Turn[] {
  const openTasks = new Set(open.map((turn) => turn.nodeTaskId));
  const openNames = new Set(open.filter((turn) => !turn.nodeNs.includes("|")).map((turn) => turn.nodeName));
  return open.filter((turn) => ancestorsOf(turn.nodeNs).every((segment) => isOpen(segment, openTasks, openNames)));
}

/** `a:1|2|b:3` → `a:1`; a bare number counts the calls of one graph within a node. */
function ancestorsOf(nodeNs: string): string[] {
  return nodeNs
    .split("|")
    .slice(0, -1)
    .filter((segment) => !/^\d+$/.test(segment));
}

/** A graph with `checkpointer: true` has a stable namespace without task id; there only the name can tell. */
function isOpen(segment: string, openTasks: ReadonlySet<string>, openNames: ReadonlySet<string>): boolean {
  const cut = segment.lastIndexOf(":");
  return cut === -1 ? openNames.has(segment) : openTasks.has(segment.slice(cut + 1));
}
