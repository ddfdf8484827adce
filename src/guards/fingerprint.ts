import { channelsOf, type ChannelFingerprint } from "./channels";
import { edgesOf, type Outgoing } from "./edges";
import { field, isProxy } from "./fields";
import { canonical, hashOf } from "./hash";
import { originalOf, shapeOf } from "./shape";

export type { ChannelFingerprint } from "./channels";

/** What is known of a node: enough to say later what of it has changed. */
export interface NodeFingerprint {
  /** Over the label or the source, and over the edges that leave it. */
  fingerprint: string;
  /** The version that the user gave the node. */
  label?: string;
  /** Hash of its source. */
  source: string;
  /** Hash of the source that decides at its conditional edges. */
  conditions?: string;
  /** The edges that leave it, readably. */
  edges: readonly string[];
  /** Whether a part of its source cannot be seen, so that it could change unnoticed. */
  blind?: true;
}

/** What a graph was made of at a moment (requirement S3.3). */
export interface GraphDocument {
  /** Over all of it. */
  digest: string;
  /** By path: `a`, and `sub|a` for the node of a graph inside the node `sub`. */
  nodes: Readonly<Record<string, NodeFingerprint>>;
  /** The state of the outermost graph. */
  channels: Readonly<Record<string, ChannelFingerprint>>;
}

/** Version labels, by a node's path or by its name, wherever it is. */
export type Versions = Readonly<Record<string, string>>;

/**
 * Describes a compiled graph. A node's fingerprint is made of
 * - its version label, or without one the source of every function that can be reached in its runnable: sequences, lambdas, tools and
 *   their schemas, prompts, the user's own classes;
 * - the edges that leave it: static, waiting and conditional ones with their path maps, the `ends` of its Commands, its error handler;
 *   and, without a label, the source of the conditions. A label says "the code is this version", so it stands for all code, while the
 *   edges are what LangGraph will do, and count either way.
 *
 * Comments, indentation and line endings do not count, nor do retry, cache and defer policies. Nothing of the user's is called.
 *
 * What a source hash cannot see: values in closures, functions that a node calls, imports; functions that `tool(fn)`, `entrypoint(fn)`,
 * `fn.bind()` or a proxy hide (such nodes are `blind`); fields of the user's own classes; defaults in schemas. What it sees although
 * nothing changed: another bundler, minifier, TypeScript target or coverage tool; for nodes that LangGraph makes by itself
 * (createReactAgent), another version of LangGraph. A version label is the answer to both.
 *
 * @returns the same for the same graph, in every process
 */
export function fingerprintOf(graph: object, versions: Versions = {}, stateVersion?: string): GraphDocument {
  const nodes: Record<string, NodeFingerprint> = {};
  collect(graph, "", versions, nodes, new Set());
  const sorted = Object.fromEntries(Object.entries(nodes).sort(([a], [b]) => (a < b ? -1 : 1)));
  const channels = channelsOf(graph, stateVersion);
  return { digest: hashOf({ nodes: sorted, channels }), nodes: sorted, channels };
}

/** As a text to store; {@link parseDocument} reads it. */
export function documentText({ nodes, channels }: GraphDocument): string {
  return canonical({ nodes, channels });
}

/** @returns undefined unless the text is what was stored under that digest, and a document: whoever can write the file can hash, too */
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

/** What belongs to a node: by its path, or by its name wherever it is. */
export function ofNode<T>(all: Readonly<Record<string, T>>, path: string): T | undefined {
  const name = path.slice(path.lastIndexOf("|") + 1);
  return Object.hasOwn(all, path) ? all[path] : Object.hasOwn(all, name) ? all[name] : undefined;
}

function collect(
  graph: object,
  prefix: string,
  versions: Versions,
  into: Record<string, NodeFingerprint>,
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
    const twin = Object.hasOwn(into, path) ? into[path] : undefined;
    define(into, path, twin === undefined ? found : merged(twin, found));
    for (const inner of graphsIn(node)) collect(inner, path, versions, into, within);
  }
}

function nodeFingerprint(bound: unknown, outgoing: Outgoing, label: string | undefined): NodeFingerprint {
  const { shape, blind } = shapeOf(bound);
  const source = hashOf(shape);
  const { edges } = outgoing;
  const conditions = outgoing.conditions.length === 0 ? undefined : hashOf(outgoing.conditions);
  return {
    fingerprint: hashOf(label === undefined ? { source, edges, conditions } : { label, edges }),
    ...(label === undefined ? {} : { label }),
    source,
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

/** Assignment would run the setter of a name like `__proto__`. */
function define<T>(target: Record<string, T>, key: string, value: T): void {
  Object.defineProperty(target, key, { value, enumerable: true, configurable: true, writable: true });
}
