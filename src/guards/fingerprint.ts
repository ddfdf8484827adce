import { sha256 } from "../sealing/sealing";
import { classesOf, field, isProxy, originalOf, shapeOf } from "./source";

/** What is known of a node: enough to tell later what has changed. */
export interface NodeFingerprint {
  /** Covers the label or the source, and the edges that leave the node. */
  fingerprint: string;
  label?: string;
  source: string;
  /**
   * Like `source`, but all names from outside the functions count as equal, because a minifier renames them. Absent if it is the
   * same.
   */
  unnamed?: string;
  /** Hash of the source that decides at its conditional edges. */
  conditions?: string;
  /** The edges that leave it, in readable form. */
  edges: readonly string[];
  /** Whether a part of its source can't be seen, so that it could change unnoticed. */
  blind?: true;
}

/** The structure of a graph at some time (requirement S3.3). */
export interface GraphDocument {
  digest: string;
  /** By path: `a`, or `sub|a` for a node of the graph inside the node `sub`. */
  nodes: Readonly<Record<string, NodeFingerprint>>;
  /** The state of the outermost graph. */
  channels: Readonly<Record<string, ChannelFingerprint>>;
}

/** Version labels by a node's path, or by its name anywhere in the graph. */
export type Versions = Readonly<Record<string, string>>;

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
  collect(graph, "", versions, nodes, new Set());
  const sorted = Object.fromEntries([...nodes].sort(([a], [b]) => (a < b ? -1 : 1)));
  const channels = channelsOf(graph, stateVersion);
  return { digest: hashOf({ nodes: sorted, channels }), nodes: sorted, channels };
}

/** As a text to store; {@link parseDocument} reads it. */
export function documentText({ nodes, channels }: GraphDocument): string {
  return canonical({ nodes, channels });
}

/** @returns undefined unless the text is a valid document with that digest. Anyone who can write the file can also hash */
export function parseDocument(digest: string, text: string): GraphDocument | undefined {
  try {
    const { nodes, channels } = JSON.parse(text) as GraphDocument;
    const isDocument =
      isRecordOf(nodes, isNode) && isRecordOf(channels, (channel) => typeof channel === "object" && channel !== null);
    return isDocument && hashOf({ nodes, channels }) === digest ? { digest, nodes, channels } : undefined;
  } catch {
    return undefined;
  }
}

function isRecordOf(value: unknown, is: (part: unknown) => boolean): boolean {
  return typeof value === "object" && value !== null && !Array.isArray(value) && Object.values(value).every(is);
}

function isNode(value: unknown): boolean {
  const { fingerprint, source, edges } = (value ?? {}) as Partial<NodeFingerprint>;
  return typeof fingerprint === "string" && typeof source === "string" && Array.isArray(edges) && edges.every(isText);
}

function isText(value: unknown): value is string {
  return typeof value === "string";
}

/** The entry for a node: by its path, or by its name anywhere in the graph. */
export function ofNode<T>(all: Readonly<Record<string, T>>, path: string): T | undefined {
  const name = path.slice(path.lastIndexOf("|") + 1);
  return Object.hasOwn(all, path) ? all[path] : Object.hasOwn(all, name) ? all[name] : undefined;
}

function collect(
  graph: object,
  prefix: string,
  versions: Versions,
  into: Map<string, NodeFingerprint>,
  above: ReadonlySet<object>,
): void {
  const nodes = field(graph, "nodes");
  if (above.has(graph) || typeof nodes !== "object" || nodes === null || isProxy(nodes)) return;
  const within = new Set([...above, graph]);
  const outgoing = edgesOf(graph);
  for (const name of Object.keys(nodes)) {
    const path = prefix === "" ? name : `${prefix}|${name}`;
    const node = field(nodes, name);
    const found = nodeFingerprint(field(node, "bound") ?? node, outgoing(name), ofNode(versions, path));
    const twin = into.get(path);
    into.set(path, twin === undefined ? found : merged(twin, found));
    for (const inner of graphsIn(node)) collect(inner, path, versions, into, within);
  }
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

/** The graphs that LangGraph finds in a node: declared ones, the runnable itself, a step of a sequence. */
function graphsIn(node: unknown): object[] {
  const declared = field(node, "subgraphs");
  const candidates: unknown[] = [...(Array.isArray(declared) ? (declared as unknown[]) : []), field(node, "bound")];
  const found = new Set<object>();
  for (let at = 0; at < candidates.length && at < 1000; at++) {
    const candidate = originalOf(candidates[at]);
    if (typeof candidate !== "object" || candidate === null) continue;
    if (field(candidate, "lg_is_pregel") === true) found.add(candidate);
    else candidates.push(field(candidate, "first"), ...list(field(candidate, "middle")), field(candidate, "last"));
  }
  return [...found];
}

function list(value: unknown): unknown[] {
  return Array.isArray(value) ? (value as unknown[]) : [];
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

/** One channel of a graph's state: its kind, and a hash of its reducer. */
export interface ChannelFingerprint {
  kind: string;
  hash?: string;
  /** The user's version of the state, which then replaces the hash. */
  label?: string;
}

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

/** 132 bits of a SHA-256 in base64url: drift is no attack, and every turn carries one. */
const LENGTH = 22;

/** The hash of a JSON value, independent of the order of its keys. */
export function hashOf(value: unknown): string {
  return sha256(canonical(value)).slice(0, LENGTH);
}

/** JSON with sorted keys. */
function canonical(value: unknown): string {
  return JSON.stringify(value, (_, inner: unknown) => {
    if (typeof inner !== "object" || inner === null || Array.isArray(inner)) return inner;
    const record = inner as Record<string, unknown>;
    return Object.fromEntries(
      Object.keys(record)
        .sort()
        .map((key) => [key, record[key]]),
    );
  });
}

/**
 * A node's path in its graph: `sub:1|2|a:3` → `sub|a`, the names from the root as in the graph's document. A bare number counts
 * the calls of one graph within a node. A graph with a namespace of its own (`checkpointer: true`) has no task id.
 */
export function nodePathOf(nodeNs: string): string {
  return nodeNs
    .split("|")
    .filter((segment) => !/^\d+$/.test(segment))
    .map((segment) => segment.slice(0, segment.includes(":") ? segment.lastIndexOf(":") : undefined))
    .join("|");
}
