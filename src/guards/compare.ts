import type { GraphDocument, NodeFingerprint } from "./graph-document";
import { isUsers } from "./graph-nodes";

/** What changed about a node: its version label, its source, the edges that leave it, or it was removed. */
export type NodeChange = "label" | "source" | "edges" | "removed";

export interface GraphDifference {
  /** Changes of completed nodes whose results are used. A resume would build on what these nodes did before the change. */
  changed: {
    node: string;
    what: NodeChange[];
    from?: string | undefined;
    to?: string | undefined;
    /** Only names from outside the node's functions differ in its source: another build's names, or a call of something else. */
    onlyNames?: true;
  }[];
  /** New nodes, and removed nodes that never completed. Neither is drift. */
  added: string[];
  removed: string[];
  channels: { added: string[]; removed: string[]; changed: string[] };
  /** Completed nodes whose code can't be seen, so it may have changed. Version labels tell. */
  blind: string[];
  /** Whether the graph still has a node of the recorded graph, by name. Without any, it is another graph (S3.2). */
  sameGraph: boolean;
  /** Whether a resume must not simply continue: a completed node or a channel changed or was removed, or it is another graph. */
  drifted: boolean;
}

/**
 * Compares a recorded graph with the current one, for the nodes that completed (S2.7, S3.3, S4.2). A node counts as changed
 * - with labels before and now: if the labels differ, no matter what the source is;
 * - otherwise, if its source or the source of its conditions differs. Adding a label to an unchanged node, or removing it, is no
 *   change;
 * - and if its edges lead elsewhere.
 *
 * Nodes that (also) failed or were in flight are exempt: changing them is what a repair does. Added nodes are fine.
 *
 * @param ran paths of nodes: those that durably completed, and those that failed or were in flight
 */
export function compareFingerprints(
  before: GraphDocument,
  now: GraphDocument,
  ran: { completed: Iterable<string>; failed?: Iterable<string> },
): GraphDifference {
  const failed = new Set(ran.failed ?? []);
  const completed = [...new Set(ran.completed)].filter((path) => !failed.has(path) && Object.hasOwn(before.nodes, path)).sort();
  const changed = completed.flatMap((path) => {
    const was = before.nodes[path] as NodeFingerprint;
    const is = Object.hasOwn(now.nodes, path) ? now.nodes[path] : undefined;
    const what: NodeChange[] = is === undefined ? ["removed"] : changesOf(was, is);
    if (what.length === 0) return [];
    const labels = what.includes("label") ? { from: was.label, to: is?.label } : {};
    const isNames = what.includes("source") && (was.unnamed ?? was.source) === (is?.unnamed ?? is?.source);
    return [{ node: path, what, ...labels, ...(isNames ? { onlyNames: true as const } : {}) }];
  });
  const channels = channelChanges(before, now);
  const names = nodesOf(before);
  const sameGraph = names.length === 0 || names.some((path) => Object.hasOwn(now.nodes, path));
  const gone = new Set(changed.filter(({ what }) => what.includes("removed")).map(({ node }) => node));
  return {
    changed,
    added: nodesOf(now).filter((path) => !Object.hasOwn(before.nodes, path)),
    removed: names.filter((path) => !Object.hasOwn(now.nodes, path) && !gone.has(path)),
    channels,
    blind: completed.filter((path) => !gone.has(path) && isBlind(before.nodes[path], now.nodes[path])),
    sameGraph,
    drifted: isDrift({ changed, channels, sameGraph }),
  };
}

/** The difference without changes of nodes whose results the user accepts, by name or path. */
export function accepting(difference: GraphDifference, nodes: readonly string[]): GraphDifference {
  if (nodes.length === 0) return difference;
  const accepted = new Set(nodes);
  const changed = difference.changed.filter(
    ({ node }) => !accepted.has(node) && !accepted.has(node.slice(node.lastIndexOf("|") + 1)),
  );
  return { ...difference, changed, drifted: isDrift({ ...difference, changed }) };
}

function isDrift({ changed, channels, sameGraph }: Pick<GraphDifference, "changed" | "channels" | "sameGraph">): boolean {
  return changed.length > 0 || channels.removed.length > 0 || channels.changed.length > 0 || !sameGraph;
}

/** The differences in words, one line each. Those that are drift come first. */
export function differenceInWords(difference: GraphDifference): string[] {
  const { changed, added, removed, channels, sameGraph } = difference;
  return [
    ...(sameGraph ? [] : ["none of the recorded nodes is in this graph: it is another one"]),
    ...changed.map(changeInWords),
    ...channels.removed.map((name) => `channel ${JSON.stringify(name)} of the state is gone`),
    ...channels.changed.map((name) => `channel ${JSON.stringify(name)} of the state joins values in another way`),
    ...removed.map((node) => `node ${JSON.stringify(node)}, which hadn't completed, is gone`),
    ...added.map((node) => `node ${JSON.stringify(node)} is new`),
    ...channels.added.map((name) => `channel ${JSON.stringify(name)} of the state is new`),
  ];
}

function changeInWords({ node, what, from, to, onlyNames }: GraphDifference["changed"][number]): string {
  if (what.includes("removed")) return `node ${JSON.stringify(node)}, which had completed, is gone`;
  const words = what.map((part) => (part === "label" ? `its version, from ${from ?? "?"} to ${to ?? "?"}` : IN_WORDS[part]));
  const hint = onlyNames === true ? NAMES_HINT : "";
  return `node ${JSON.stringify(node)}, which had completed, changed: ${words.join(", and ")}${hint}`;
}

const NAMES_HINT =
  " (only names of what it uses from outside differ, as after another build or minifier; give it a version label if it is the same)";

const IN_WORDS = { source: "its source", edges: "the edges that leave it", removed: "it is gone" } as const;

function changesOf(was: NodeFingerprint, is: NodeFingerprint): NodeChange[] {
  if (was.fingerprint === is.fingerprint) return [];
  const labelled = was.label !== undefined && is.label !== undefined;
  const changes: NodeChange[] = [];
  if (labelled && was.label !== is.label) changes.push("label");
  if (!labelled && was.source !== is.source) changes.push("source");
  const conditions = !labelled && was.conditions !== is.conditions;
  if (conditions || JSON.stringify(was.edges) !== JSON.stringify(is.edges)) changes.push("edges");
  return changes;
}

function isBlind(was: NodeFingerprint | undefined, is: NodeFingerprint | undefined): boolean {
  const labelled = was?.label !== undefined && is?.label !== undefined;
  return !labelled && (was?.blind === true || is?.blind === true);
}

function channelChanges(before: GraphDocument, now: GraphDocument): GraphDifference["channels"] {
  const had = Object.keys(before.channels);
  return {
    added: Object.keys(now.channels).filter((name) => !Object.hasOwn(before.channels, name)),
    removed: had.filter((name) => !Object.hasOwn(now.channels, name)),
    changed: had.filter((name) => {
      const [was, is] = [before.channels[name], Object.hasOwn(now.channels, name) ? now.channels[name] : undefined];
      if (is === undefined || was === undefined) return false;
      const labelled = was.label !== undefined && is.label !== undefined;
      return was.kind !== is.kind || (labelled ? was.label !== is.label : was.hash !== is.hash);
    }),
  };
}

/** The nodes users know: without the entry point of the input. */
function nodesOf(document: GraphDocument): string[] {
  return Object.keys(document.nodes).filter(isUsers);
}

/**
 * What a thread was built on, as one document: each node as it was when it last completed, and the channels at that time. A
 * thread may have run on several versions of its graph, if each only added nodes or repaired failed ones.
 *
 * The node tasks in `ended` durably completed. They come oldest first, each with the graph it ran in, if that was recorded.
 *
 * @returns undefined if nothing is known about them, because they were recorded without their graph
 */
export function recordedGraph(ended: readonly { path: string; graph: GraphDocument | undefined }[]): GraphDocument | undefined {
  const newest = ended.findLast(({ graph }) => graph !== undefined)?.graph;
  if (newest === undefined) return undefined;
  const nodes = new Map<string, NodeFingerprint>(Object.entries(newest.nodes));
  for (const { path, graph } of ended) {
    const node = graph !== undefined && Object.hasOwn(graph.nodes, path) ? graph.nodes[path] : undefined;
    if (node !== undefined) nodes.set(path, node);
  }
  return { digest: newest.digest, channels: newest.channels, nodes: Object.fromEntries(nodes) };
}
