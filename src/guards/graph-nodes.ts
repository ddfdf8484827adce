import { types } from "node:util";

/** Marks a runnable that this package put around another. */
const ORIGINAL = Symbol.for("langgraph-checkpoint-turns.original");

/** A node of a graph, or of a graph in one of its nodes. */
interface NodeOfGraph {
  /** From the outermost graph: `a`, or `sub|a` for a node of the graph in the node `sub`. */
  path: string;
  name: string;
  node: unknown;
  /** The graph that it is a node of. */
  graph: object;
}

/** All nodes that a graph shows, each before those of the graphs in it. No user code is called. */
export function* nodesIn(graph: object, prefix = "", above: ReadonlySet<object> = new Set()): Generator<NodeOfGraph> {
  const nodes = field(graph, "nodes");
  if (above.has(graph) || typeof nodes !== "object" || nodes === null || isProxy(nodes)) return;
  const within = new Set([...above, graph]);
  for (const name of Object.keys(nodes)) {
    const path = prefix === "" ? name : `${prefix}|${name}`;
    const node = field(nodes, name);
    yield { path, name, node, graph };
    for (const inner of graphsIn(node)) yield* nodesIn(inner, path, within);
  }
}

/** The paths of the nodes that users know: without the entry point of the input. */
export function nodePathsOf(graph: object): string[] {
  return [...new Set([...nodesIn(graph)].map(({ path }) => path))].filter(isUsers);
}

/** Whether a path isn't that of the entry point of the input. */
export function isUsers(path: string): boolean {
  return path.slice(path.lastIndexOf("|") + 1) !== "__start__";
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

/** The runnable inside this package's wrapper, or the runnable itself. */
export function originalOf(runnable: unknown): unknown {
  let found = runnable;
  while (typeof found === "object" && found !== null && !isProxy(found)) {
    const inner: unknown = Object.getOwnPropertyDescriptor(found, ORIGINAL)?.value;
    if (inner === undefined) break;
    found = inner;
  }
  return found;
}

/** The value of a property, read without running anything: accessors, inherited properties and proxies give undefined. */
export function field(target: unknown, key: string): unknown {
  if ((typeof target !== "object" && typeof target !== "function") || target === null || types.isProxy(target)) return undefined;
  return Object.getOwnPropertyDescriptor(target, key)?.value;
}

export function isProxy(value: unknown): boolean {
  return types.isProxy(value);
}
