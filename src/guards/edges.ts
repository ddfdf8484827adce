import { field, isProxy } from "./fields";
import { shapeOf } from "./shape";

/** What leaves a node. */
export interface Outgoing {
  /** Where to, readably and in a fixed order: `b`, `c with a, b`, `by route: x → b`, `by command: b`, `on error: e`. */
  edges: string[];
  /** What decides at its conditional edges. */
  conditions: unknown[];
}

/** The edges that leave each node of a graph, by the node's name; `__start__` is where the input enters. */
export function edgesOf(graph: object): (node: string) => Outgoing {
  const outgoing = new Map<string, Outgoing>();
  const of = (node: string): Outgoing => {
    const known = outgoing.get(node) ?? { edges: [], conditions: [] };
    outgoing.set(node, known);
    return known;
  };
  const builder = field(graph, "builder");
  for (const [from, to] of setOf<[string, string]>(builder, "edges")) if (to !== "__end__") of(from).edges.push(to);
  for (const [sources, to] of setOf<[string[], string]>(builder, "waitingEdges")) {
    for (const from of sources) of(from).edges.push(`${to} with ${[...sources].sort().join(", ")}`);
  }
  for (const [node, branches] of entriesOf(field(builder, "branches"))) {
    for (const [name, branch] of entriesOf(branches)) {
      const ends = entriesOf(field(branch, "ends")).map(([key, to]) => (key === to ? key : `${key} → ${String(to)}`));
      of(node).edges.push(`by ${name}${ends.length === 0 ? "" : `: ${ends.join(", ")}`}`);
      of(node).conditions.push([name, shapeOf(field(branch, "path")).shape]);
    }
  }
  for (const [name, node] of entriesOf(field(graph, "nodes"))) {
    const ends = field(node, "ends");
    if (Array.isArray(ends) && ends.length > 0) of(name).edges.push(`by command: ${[...(ends as string[])].sort().join(", ")}`);
    const handler = field(node, "errorHandlerNode");
    if (typeof handler === "string") of(name).edges.push(`on error: ${handler}`);
    if (builder === undefined) of(name).edges.push(...writesOf(node));
  }
  return (node) => {
    const { edges, conditions } = of(node);
    return { edges: [...new Set(edges)].sort(), conditions };
  };
}

/** Of a Pregel without a builder: the channels that its writers write. */
function writesOf(node: unknown): string[] {
  const writers = field(node, "writers");
  if (!Array.isArray(writers)) return [];
  return writers
    .flatMap((writer) => field(writer, "writes") ?? [])
    .flatMap((write) => {
      const channel = field(write, "channel");
      return typeof channel === "string" && !channel.startsWith("__") ? [`writes ${channel}`] : [];
    });
}

function setOf<T>(target: unknown, key: string): T[] {
  const value = field(target, key);
  return value instanceof Set ? [...(value as Set<T>)] : [];
}

function entriesOf(target: unknown): [string, unknown][] {
  if (typeof target !== "object" || target === null || isProxy(target)) return [];
  return Object.keys(target)
    .sort()
    .map((key) => [key, field(target, key)]);
}
