import {
  type ChannelFingerprint,
  type GraphDocument,
  hashOf,
  type NodeFingerprint,
  ofNode,
  type Versions,
} from "./graph-document";
import { field, isProxy, nodesIn } from "./graph-nodes";
import { classesOf, shapeOf } from "./source";

/**
 * Describes a compiled graph. A node's fingerprint consists of
 * - its version label or, without one, the source of every function that can be reached in its runnable: sequences, lambdas,
 *   tools and their schemas, prompts, the user's own classes;
 * - the edges that leave it: static, waiting and conditional ones with their path maps, the `ends` of its Commands, its error
 *   handler; and, without a label, the source of the conditions. A label says "the code is this version", so it replaces all
 *   code. The edges are what LangGraph will do, and count either way.
 *
 * How a function is written doesn't count: formatting, comments, names of its own variables, rewrites of compilers and minifiers.
 * Nor do retry, cache and defer policies. No user code is called. docs/drift.md says what a source hash can't see, and what
 * changes it although nothing changed. A version label solves both.
 *
 * @returns the same for the same graph, in every process
 */
export function fingerprintOf(graph: object, versions: Versions = {}, stateVersion?: string): GraphDocument {
  const nodes = new Map<string, NodeFingerprint>();
  const outgoing = new Map<object, ReturnType<typeof edgesOf>>();
  for (const { path, name, node, graph: within } of nodesIn(graph)) {
    const edges = outgoing.get(within) ?? edgesOf(within);
    outgoing.set(within, edges);
    const found = nodeFingerprint(field(node, "bound") ?? node, edges(name), ofNode(versions, path));
    const twin = nodes.get(path);
    nodes.set(path, twin === undefined ? found : merged(twin, found));
  }
  const sorted = Object.fromEntries([...nodes].sort(([a], [b]) => (a < b ? -1 : 1)));
  const channels = channelsOf(graph, stateVersion);
  return { digest: hashOf({ nodes: sorted, channels }), nodes: sorted, channels };
}

function nodeFingerprint(bound: unknown, outgoing: Outgoing, label: string | undefined): NodeFingerprint {
  const { shape, blind } = shapeOf(bound);
  const source = hashOf(shape);
  const unnamed = hashOf(shapeOf(bound, true).shape);
  const { edges } = outgoing;
  const conditions = outgoing.conditions.length === 0 ? undefined : hashOf(outgoing.conditions);
  return {
    fingerprint: hashOf(label === undefined ? { source, edges, conditions } : { label, edges }),
    ...(label === undefined ? {} : { label }),
    source,
    ...(unnamed === source ? {} : { unnamed }),
    ...(conditions === undefined ? {} : { conditions }),
    edges,
    ...(blind ? { blind: true as const } : {}),
  };
}

/** Two graphs inside one node may have nodes of the same name. */
function merged(one: NodeFingerprint, other: NodeFingerprint): NodeFingerprint {
  const both = (key: "fingerprint" | "source"): string => hashOf([one[key], other[key]].sort());
  return {
    ...one,
    ...other,
    fingerprint: both("fingerprint"),
    source: both("source"),
    edges: [...one.edges, ...other.edges].sort(),
  };
}

interface Outgoing {
  /** The targets, readable and in a fixed order: `b`, `c with a, b`, `by route: x → b`, `by command: b`, `on error: e`. */
  edges: string[];
  conditions: unknown[];
}

/** The edges that leave each node of a graph, by the node's name. `__start__` is the entry point. */
function edgesOf(graph: object): (node: string) => Outgoing {
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

/** For a Pregel without a builder: the channels that its writers write. */
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

/** LangGraph's own channels, which follow from the edges. `__root__` is the state of a graph without named channels. */
const OWN = /^(__(?!root__)|branch:|join:)/;

/** The channels of a graph's state schema, by name. Values, defaults and types aren't included. */
function channelsOf(graph: object, label?: string): Record<string, ChannelFingerprint> {
  const channels = field(graph, "channels");
  if (typeof channels !== "object" || channels === null || isProxy(channels)) return {};
  const found: [string, ChannelFingerprint][] = [];
  for (const name of Object.keys(channels).sort()) {
    const channel = field(channels, name);
    if (!OWN.test(name) && typeof channel === "object" && channel !== null)
      found.push([name, { ...channelOf(channel), ...(label === undefined ? {} : { label }) }]);
  }
  return Object.fromEntries(found);
}

function channelOf(channel: object): ChannelFingerprint {
  if (isProxy(channel)) return { kind: "unknown" };
  const named = field(channel, "lc_graph_name");
  const kind = typeof named === "string" ? named : (classesOf(channel)[0]?.name ?? "unknown");
  const parts = ["operator", "reducer", "unique", "accumulate"].flatMap((key) => {
    const value = field(channel, key);
    return value === undefined ? [] : [[key, shapeOf(value).shape]];
  });
  return parts.length === 0 ? { kind } : { kind, hash: hashOf(parts) };
}
