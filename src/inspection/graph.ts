import type { BaseTurnSaver } from "../base-saver";
import { compareFingerprints, differenceInWords, recordedGraph } from "../guards/compare";
import { type GraphDocument, nodePathOf } from "../guards/graph-document";
import { internalsOf } from "../internals";
import { lastRunOf } from "../runner/last-run";
import { runNodesOf } from "../runner/run-nodes";
import { isAlive } from "../turns/process-identity";
import { numberOf } from "./place";
import { type AttemptRows, attemptRows } from "./turns";

/** The graph as it was recorded, with the path that a thread took through it. */
export interface GraphView {
  /** Null if no graph was recorded: then there are only nodes that ran, without edges. */
  digest: string | null;
  nodes: GraphNode[];
  edges: GraphEdge[];
  /** How many different graphs were recorded on this thread, as far back as this looks. */
  versions: number;
  /** What differs between what completed nodes were and the newest graph, or the one given by `--graph`. */
  drift: GraphDrift;
  /** The graph as Mermaid text, to copy. */
  mermaid: string;
}

export interface GraphNode {
  /** The path: `a`, or `sub|a` for a node of the graph inside `sub`. `__start__` and `__end__` too. */
  id: string;
  name: string;
  /** The node whose graph it's in; null for the outermost graph. */
  parent: string | null;
  /** What became of its newest attempt in the newest task. */
  state: "not-run" | "done" | "failed" | "waiting" | "in-flight" | "running";
  /** How many of the newest 1,000 attempts were this node's, and how many of those failed. */
  attempts: number;
  failed: number;
  /** The number of its newest attempt; null if it never ran. */
  number: number | null;
  drifted: boolean;
}

export interface GraphEdge {
  from: string;
  to: string;
  /** `static`: always; `conditional`: a condition or a Command chooses; `error`: when it failed. */
  kind: "static" | "conditional" | "error";
  label: string | null;
  /** How often the newest task went this way. */
  taken: number;
}

export interface GraphDrift {
  /** What it was compared with. `recorded`: a newer graph of this thread. `module`: the one given by `--graph`. Null: with nothing. */
  with: "recorded" | "module" | null;
  drifted: boolean;
  /** One line each. */
  words: string[];
}

/** How far back this looks. */
const ATTEMPTS = 1_000;
const START = "__start__";
const END = "__end__";

/**
 * The recorded graph of a thread. No code of the graph is loaded.
 *
 * @param now the graph as it is now, if somebody has loaded it
 * @throws {TurnsError} CHECKPOINT_CORRUPTED if a recorded graph isn't what was stored
 */
export async function graphOf(saver: BaseTurnSaver, threadId: string, now?: GraphDocument): Promise<GraphView> {
  const internals = internalsOf(saver);
  const rows: AttemptRows[] = [];
  for await (const row of attemptRows(saver, threadId)) {
    if (rows.length === ATTEMPTS) break;
    rows.push(row);
  }
  rows.reverse();
  const recorded = await internals.recordedGraphs(
    threadId,
    rows.map(({ thought, action }) => action ?? thought),
  );
  const newest = newestOf(rows, recorded);
  const isRunning = (await internals.store.listRuns(threadId)).some((run) => isAlive(run));
  const open = new Set((await saver.turns.inFlight(threadId)).map(({ id }) => id));
  const task = rows.at(-1)?.thought.taskId;
  const own = rows.filter(({ thought }) => thought.taskId === task);
  const edges = newest === undefined ? [] : edgesOf(newest);
  walk(own, edges, isRunning || open.size > 0);
  const drift = await driftOf(saver, threadId, newest, now);
  const changed = new Set(drift.nodes);
  const paths = new Set([
    ...(newest === undefined ? [] : Object.keys(newest.nodes)),
    ...own.map(({ thought }) => nodePathOf(thought.nodeNs ?? thought.nodeName)),
    ...edges.flatMap(({ from, to }) => [from, to]),
  ]);
  const nodes = [...paths].map((id): GraphNode => {
    const of = (list: readonly AttemptRows[]): readonly AttemptRows[] =>
      list.filter(({ thought }) => nodePathOf(thought.nodeNs ?? thought.nodeName) === id);
    const [all, last] = [of(rows), of(own).at(-1)];
    const names = id.split("|");
    return {
      id,
      name: names.at(-1) ?? id,
      parent: names.length === 1 ? null : names.slice(0, -1).join("|"),
      state: last === undefined ? "not-run" : stateOf(last, open, isRunning),
      attempts: all.length,
      failed: all.filter(({ action }) => action?.status === "error").length,
      number: all.length === 0 ? null : numberOf(all.at(-1)?.thought.seq ?? 0),
      drifted: changed.has(id),
    };
  });
  return {
    ...{ digest: newest?.digest ?? null, nodes, edges, versions: recorded.length },
    drift: { with: drift.with, drifted: drift.drifted, words: drift.words },
    mermaid: mermaidOf(nodes, edges),
  };
}

type Recorded = readonly { document: GraphDocument; turnIds: readonly string[] }[];

/** The graph of the newest turn that has one. */
function newestOf(rows: readonly AttemptRows[], recorded: Recorded): GraphDocument | undefined {
  const byTurn = new Map(recorded.flatMap(({ document, turnIds }) => turnIds.map((id) => [id, document] as const)));
  const newest = rows.findLast(({ thought, action }) => byTurn.has((action ?? thought).id));
  return newest && byTurn.get((newest.action ?? newest.thought).id);
}

function stateOf({ thought, action }: AttemptRows, open: ReadonlySet<string>, isRunning: boolean): GraphNode["state"] {
  if (action === undefined) return open.has(thought.id) ? (isRunning ? "running" : "in-flight") : "failed";
  return action.status === "error" ? "failed" : action.status === "interrupted" ? "waiting" : "done";
}

/** What the document says in words: `b`, `c with a, b`, `by route: x → b, c`, `by command: b`, `on error: e`. */
function edgesOf({ nodes }: GraphDocument): GraphEdge[] {
  const edges: GraphEdge[] = [];
  for (const [path, { edges: leaving }] of Object.entries(nodes)) {
    const prefix = path.includes("|") ? path.slice(0, path.lastIndexOf("|") + 1) : "";
    const add = (to: string, kind: GraphEdge["kind"], label: string | null): void => {
      const edge = { from: path, to: prefix + to, kind, label, taken: 0 };
      if (!edges.some((one) => one.from === edge.from && one.to === edge.to && one.kind === kind)) edges.push(edge);
    };
    for (const text of leaving) {
      const [, how = "", ends = ""] = /^(by [^:]*|on error): (.*)$/s.exec(text) ?? [];
      if (how === "on error") add(ends, "error", "on error");
      else if (how !== "") {
        for (const end of ends.split(", ")) {
          const [key = "", to = key] = end.split(" → ");
          add(to, "conditional", to === key ? null : key);
        }
      } else if (text.includes(" with ")) add(text.slice(0, text.indexOf(" with ")), "static", null);
      else if (!text.startsWith("by ") && !text.startsWith("writes ")) add(text, "static", null);
    }
    // An edge to the end isn't recorded: it leads to nothing that could run.
    if (leaving.length === 0) add(END, "static", null);
  }
  return edges;
}

/** Counts the edges that a task went, from the steps of its nodes. A condition without named ends shows them only so. */
function walk(own: readonly AttemptRows[], edges: GraphEdge[], isOpen: boolean): void {
  const graphs = new Map<string, Map<number, Set<string>>>();
  for (const { thought } of own) {
    const ns = thought.nodeNs ?? "";
    const graph = ns.includes("|") ? ns.slice(0, ns.lastIndexOf("|")) : "";
    const steps = graphs.get(graph) ?? new Map<number, Set<string>>();
    graphs.set(graph, steps);
    const step = steps.get(thought.step ?? 0) ?? new Set<string>();
    steps.set(thought.step ?? 0, step.add(nodePathOf(thought.nodeNs ?? thought.nodeName)));
  }
  for (const [graph, steps] of graphs) {
    const prefix = graph === "" ? "" : `${nodePathOf(graph)}|`;
    let before = new Set([`${prefix}${START}`]);
    for (const [, paths] of [...steps].sort(([one], [other]) => one - other)) {
      for (const path of paths) go(edges, before, path);
      before = paths;
    }
    if (!isOpen) go(edges, before, `${prefix}${END}`);
  }
}

function go(edges: GraphEdge[], before: ReadonlySet<string>, to: string): void {
  const known = edges.filter((edge) => edge.to === to && before.has(edge.from));
  for (const edge of known) edge.taken += 1;
  if (known.length > 0 || edges.length === 0) return;
  // One node alone must have chosen it. The end is chosen by having no other way.
  const [from, ...others] = before;
  const isEnd = to.endsWith(END) && edges.some((edge) => edge.from === from && edge.kind === "static");
  if (from !== undefined && others.length === 0 && !isEnd) edges.push({ from, to, kind: "conditional", label: null, taken: 1 });
}

/** Compares what the last run's nodes were when they completed with a newer graph. */
async function driftOf(
  saver: BaseTurnSaver,
  threadId: string,
  newest: GraphDocument | undefined,
  module: GraphDocument | undefined,
): Promise<GraphDrift & { nodes: string[] }> {
  const now = module ?? newest;
  if (now === undefined) return { with: null, drifted: false, words: [], nodes: [] };
  const { completed, failed, inFlight } = await runNodesOf(saver, threadId, await lastRunOf(saver, threadId));
  const graphs = await internalsOf(saver).recordedGraphs(
    threadId,
    completed.map(({ turnId: id }) => ({ id })),
  );
  const byTurn = new Map(graphs.flatMap(({ document, turnIds }) => turnIds.map((id) => [id, document] as const)));
  const was = recordedGraph(completed.map(({ path, turnId }) => ({ path, graph: byTurn.get(turnId) })));
  const isSame = module === undefined && graphs.every(({ document }) => document.digest === now.digest);
  if (was === undefined || isSame) return { with: null, drifted: false, words: [], nodes: [] };
  const difference = compareFingerprints(was, now, {
    completed: completed.map(({ path }) => path),
    failed: [...failed, ...inFlight].map(({ path }) => path),
  });
  return {
    with: module === undefined ? "recorded" : "module",
    drifted: difference.drifted,
    words: differenceInWords(difference),
    nodes: difference.changed.map(({ node }) => node),
  };
}

/** Ids are numbers and labels are quoted: names may contain anything. */
function mermaidOf(nodes: readonly GraphNode[], edges: readonly GraphEdge[]): string {
  const idOf = new Map(nodes.map(({ id }, at) => [id, `n${at}`]));
  const quoted = (text: string): string =>
    `"${text
      .replaceAll(/[\r\n]+/g, " ")
      .replaceAll("#", "#35;")
      .replaceAll('"', "#quot;")}"`;
  const lines = nodes.map(({ id, name }) => `  ${idOf.get(id)}[${quoted(name)}]`);
  const arrows = edges.map(({ from, to, kind, label }) => {
    const arrow = kind === "static" ? "-->" : "-.->";
    return `  ${idOf.get(from)} ${arrow}${label === null ? "" : `|${quoted(label)}|`} ${idOf.get(to)}`;
  });
  return ["flowchart TD", ...lines, ...arrows].join("\n");
}
