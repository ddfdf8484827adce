/**
 * Where a node is in its graph: `sub:1|2|a:3` → `sub|a`, the names on the way to it as a graph's document has them. A bare number counts
 * the calls of one graph within a node; a graph with a namespace of its own (`checkpointer: true`) has no task id.
 */
export function nodePathOf(nodeNs: string): string {
  return nodeNs
    .split("|")
    .filter((segment) => !/^\d+$/.test(segment))
    .map((segment) => segment.slice(0, segment.includes(":") ? segment.lastIndexOf(":") : undefined))
    .join("|");
}
