import type { GraphDocument, NodeFingerprint } from "./fingerprint";

/** A node task that ended, and the graph it ran in. */
export interface RecordedNode {
  path: string;
  graph: GraphDocument;
}

/**
 * What a thread was built on, as one document: each node as it was when it last ended, and the channels as they were then. A thread may
 * have run on several versions of its graph, each of which only added nodes or mended those that had failed.
 *
 * @param ended the node tasks that durably ended, oldest first
 * @returns undefined if nothing is known of them: they were recorded without their graph
 */
export function recordedGraph(ended: readonly RecordedNode[]): GraphDocument | undefined {
  const newest = ended.at(-1)?.graph;
  if (newest === undefined) return undefined;
  const nodes = new Map<string, NodeFingerprint>(Object.entries(newest.nodes));
  for (const { path, graph } of ended)
    if (Object.hasOwn(graph.nodes, path)) nodes.set(path, graph.nodes[path] as NodeFingerprint);
  return { digest: newest.digest, channels: newest.channels, nodes: Object.fromEntries(nodes) };
}
