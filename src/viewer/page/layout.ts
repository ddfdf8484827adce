import { Graph as Layout, layout } from "@dagrejs/dagre";
import type { GraphEdge, GraphNode } from "../api";

/* A file of its own: dagre is half of the page's script, and is loaded when a graph is first shown. */

const MARGIN = 12;

export interface Placed {
  node: GraphNode;
  x: number;
  y: number;
  width: number;
}
export interface Way {
  edge: GraphEdge;
  points: readonly { x: number; y: number }[];
}
export interface Drawing {
  nodes: Placed[];
  ways: Way[];
  /** Left, top, width and height. */
  view: readonly number[];
}

/** Lays out a graph from top to bottom. */
export function placed(
  nodes: readonly GraphNode[],
  edges: readonly GraphEdge[],
  { widthOf, height }: { widthOf: (node: GraphNode) => number; height: number },
): Drawing {
  const graph = new Layout({ multigraph: true });
  graph.setGraph({ rankdir: "TB", nodesep: 34, ranksep: 46, marginx: 16, marginy: 16 });
  graph.setDefaultEdgeLabel(() => ({}));
  for (const node of nodes) graph.setNode(node.id, { width: widthOf(node), height });
  const known = edges.filter(({ from, to }) => graph.hasNode(from) && graph.hasNode(to));
  known.forEach(({ from, to }, index) => graph.setEdge(from, to, {}, String(index)));
  layout(graph);
  const at = nodes.map((node): Placed => {
    const { x = 0, y = 0, width: wide = 0 } = graph.node(node.id) as { x?: number; y?: number; width?: number };
    return { node, x, y, width: wide };
  });
  const ways = known.map((edge, index): Way => {
    const { points = [] } = graph.edge(edge.from, edge.to, String(index)) as { points?: { x: number; y: number }[] };
    return { edge, points };
  });
  // Ways back go around the nodes, and dagre's own measures leave them out.
  const across = [
    ...at.flatMap(({ x, width }) => [x - width / 2, x + width / 2]),
    ...ways.flatMap(({ points }) => points.map(({ x }) => x)),
  ];
  const down = [
    ...at.flatMap(({ y }) => [y - height / 2, y + height / 2]),
    ...ways.flatMap(({ points }) => points.map(({ y }) => y)),
  ];
  const [left, top] = [Math.min(...across) - MARGIN, Math.min(...down) - MARGIN];
  const size = [Math.max(...across) + MARGIN - left, Math.max(...down) + MARGIN - top] as const;
  return { nodes: at, ways, view: at.length === 0 ? [0, 0, 0, 0] : [left, top, ...size] };
}
