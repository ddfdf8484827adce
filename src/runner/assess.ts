import type { CheckpointTuple } from "@langchain/langgraph-checkpoint";
import { internalsOf } from "../internals";
import { describe, TurnsError } from "../errors";
import { nodePathOf } from "../guards/graph-document";
import { accepting, compareFingerprints, differenceInWords, type GraphDifference, recordedGraph } from "../guards/compare";
import type { TurnSaver } from "../saver";
import { attempted, sideBySide } from "../side-by-side";
import type { LastRun } from "../store/store";
import { nestedGraph, withoutTaskIds } from "../turns/nested-resume";
import { plannedTasks } from "../turns/node-task";
import type { PregelLike } from "../turns/attached-graph";
import { visitOf } from "../visits";
import {
  allOf,
  didEffects,
  dueFrom,
  effectsInWords,
  type EffectsOfRun,
  effectsOfRun,
  isUnreadable,
  lastRunOf,
  NO_STEP,
  readTuple,
  settleFirst,
  type Unfinished,
  UNREADABLE,
  unfinishedOf,
} from "./last-run";
import { unknownAccepted } from "./options";
import { isLost, type RunNodes, runNodesOf } from "./run-nodes";

/** The newest LangGraph checkpoint format that this package was tested with. */
const NEWEST_FORMAT = 4;

/** The state of a thread's last run, before anything is done about it. */
export interface Assessment {
  nodes: RunNodes;
  /** Undefined if nothing has run. */
  run: LastRun | undefined;
  unfinished: Unfinished | undefined;
  /** How the graph differs from the one the run was recorded with; undefined if that isn't known. */
  difference: GraphDifference | undefined;
  /** In words, why a resume must not simply continue; empty if it may. */
  drift: readonly string[];
  /** In words, what `accept` keeps from being drift; empty if the run is finished. */
  accepted: readonly string[];
  /** The most serious reason not to continue. */
  obstacle: TurnsError | undefined;
}

export interface AssessParts {
  saver: TurnSaver;
  graph: PregelLike;
  graphId: string | undefined;
  /** Completed nodes, by name or path, whose results are used although the nodes changed. */
  accept: readonly string[];
  /** Whether this call names them. The runner's own option is for many threads, and some never had such a node. */
  isAcceptOfCall: boolean;
}

/**
 * Examines a thread as a resume does (S3.2, S4.2, S4.3): is there anything to resume, can it be read, does it belong to this
 * graph, did the graph change. It changes nothing and throws only what the database throws.
 *
 * @param last the run, if somebody else asks for it too
 */
export async function assess(
  { saver, graph, graphId, accept, isAcceptOfCall }: AssessParts,
  threadId: string,
  last: Promise<LastRun | undefined> = lastRunOf(saver, threadId),
): Promise<Assessment> {
  const [run, head] = await sideBySide(
    () => last,
    () => attempted(() => saver.getTuple({ configurable: { thread_id: threadId } })),
  );
  const from = run?.damage === undefined ? headOf(threadId, head) : { obstacle: run.damage };
  const { tuple } = from;
  const [nodes, rest] = await sideBySide(
    () => runNodesOf(saver, threadId, run),
    () => attempted(() => (tuple === undefined ? undefined : unfinishedOf(saver, graph, threadId, tuple))),
  );
  const none = { nodes, run, unfinished: undefined, difference: undefined, drift: [], accepted: [] };
  if (from.tuple === undefined) {
    const { obstacle = isLost(nodes.inFlight) ? runLost(threadId, run) : nothingToResume(threadId) } = from;
    return { ...none, obstacle };
  }
  const { due } = from;
  // A run without a graph id has the thread's id.
  const recorded = run?.graphId === threadId ? undefined : run?.graphId;
  if (graphId !== undefined && recorded !== undefined && recorded !== graphId) {
    const obstacle = wrongGraph(threadId, `its graph id is ${describe(recorded)}, and this one's is ${describe(graphId)}`);
    return { ...none, obstacle };
  }
  const difference = await driftOf(saver, graph, threadId, nodes);
  // If the caller says it is the same graph, the graph changed as a whole.
  if (difference?.sameGraph === false && (graphId === undefined || graphId !== recorded)) {
    const obstacle = wrongGraph(threadId, "none of its nodes is in this one");
    return { ...none, difference, obstacle };
  }
  const gone = [
    ...new Set([
      ...goneOf(graph, nodes, run?.branch[0]),
      ...(await notStarted({ saver, threadId, graph, tuple: from.tuple, ns: "" })),
    ]),
  ];
  const open = difference && accepting(difference, accept);
  const drift = [...(open?.drifted === true ? differenceInWords(open) : []), ...gone];
  // LangGraph takes due work in removed nodes for finished.
  const unfinished = gone.length > 0 ? { nodes: due, waits: false, questions: undefined } : rest();
  // What is finished is an earlier run.
  if (unfinished === undefined && isLost(nodes.inFlight))
    return { ...none, nodes: { ...nodes, completed: [] }, obstacle: runLost(threadId, run) };
  // A finished run builds on nothing any more.
  const isOver = unfinished === undefined;
  const changed = open?.changed.map(({ node }) => node) ?? [];
  const isAsked = difference !== undefined && (isAcceptOfCall || drift.length > 0);
  const unknown = isAsked && !isOver ? unknownAccepted(graph, accept, removedOf(difference)) : undefined;
  const hasChanged = drift.length > 0 && !isOver;
  const obstacle = unknown ?? (hasChanged ? await graphChanged({ saver, threadId, run, drift, changed, accept }) : undefined);
  const accepted =
    isOver || difference === undefined || difference.changed.length === open?.changed.length ? [] : differenceInWords(difference);
  return { nodes, run, unfinished, difference, drift: isOver ? [] : drift, accepted, obstacle };
}

/** The newest checkpoint, with the nodes that are due from it, or why it can't be continued. Both are undefined if there is none. */
function headOf(
  threadId: string,
  head: () => CheckpointTuple | undefined,
): { tuple: CheckpointTuple; due: string[]; obstacle?: undefined } | { tuple?: undefined; obstacle: TurnsError | undefined } {
  try {
    const tuple = head();
    if (tuple === undefined) return { obstacle: undefined };
    const { checkpoint } = tuple;
    if (checkpoint.v > NEWEST_FORMAT) return { obstacle: newerFormat(threadId, checkpoint.v) };
    return { tuple, due: dueFrom(tuple) };
  } catch (error) {
    if (!isUnreadable(error)) throw error;
    return { obstacle: error };
  }
}

/** The nodes that the run had and the graph no longer has. */
function removedOf({ changed, removed }: GraphDifference): string[] {
  return [...changed.filter(({ what }) => what.includes("removed")).map(({ node }) => node), ...removed];
}

/** Nodes that began from the newest checkpoint but were removed from the graph. */
function goneOf(graph: PregelLike, { failed, inFlight, waiting }: RunNodes, headId: string | undefined): string[] {
  const begun = [...failed, ...inFlight, ...waiting].filter(
    ({ path, checkpointId }) => !path.includes("|") && checkpointId === headId,
  );
  return begun.filter(({ nodeName }) => !Object.hasOwn(graph.nodes, nodeName)).map(({ nodeName }) => dueBut(nodeName, "is gone"));
}

const dueBut = (path: string, what: string): string => `node ${JSON.stringify(path)}, which is due, ${what}`;

interface Saved {
  saver: TurnSaver;
  threadId: string;
  graph: PregelLike;
  tuple: CheckpointTuple;
  ns: string;
}

/** In words, the nodes that are due from a checkpoint, and those due inside them, that LangGraph wouldn't start in this graph. */
async function notStarted({ saver, threadId, graph, tuple: { checkpoint, metadata }, ns }: Saved): Promise<string[]> {
  const found: string[] = [];
  for (const { name, nodeNs, nodeTaskId, trigger } of plannedTasks(ns, checkpoint, metadata ?? NO_STEP)) {
    const path = nodePathOf(nodeNs);
    const node = Object.hasOwn(graph.nodes, name) ? graph.nodes[name] : undefined;
    if (node === undefined) found.push(dueBut(path, "is gone"));
    else if (trigger !== undefined && !triggers(graph, trigger, checkpoint.channel_values[trigger]))
      found.push(dueBut(path, "is deferred or joined in another way"));
    const inside = nestedGraph(node);
    if (inside === undefined) continue;
    const below = inside.checkpointer === true ? withoutTaskIds(nodeNs) : nodeNs;
    const saved = await readTuple(saver, threadId, undefined, below);
    if (saved === undefined || saved === UNREADABLE) continue;
    // What a graph with `checkpointer: true` left unfinished in another visit isn't due.
    if ((visitOf(saved.metadata ?? NO_STEP) ?? nodeTaskId) !== nodeTaskId) continue;
    found.push(...(await notStarted({ saver, threadId, graph: inside, tuple: saved, ns: below })));
  }
  return found;
}

/** Whether a channel of the graph, given its saved value, starts what it triggers. A deferred one can't read the value of another. */
function triggers(graph: PregelLike, name: string, value: unknown): boolean {
  try {
    graph.channels?.[name]?.fromCheckpoint(value).get();
    return graph.channels?.[name] !== undefined;
  } catch {
    return false;
  }
}

const runLost = (threadId: string, run: LastRun | undefined): TurnsError =>
  new TurnsError("NOTHING_TO_RESUME", {
    problem: `Thread ${describe(threadId)} can't be resumed: its last run (task ${describe(run?.taskId)}) stopped, and with durability "exit" nothing of it was saved.`,
    remedy: `Start it again with its input: runner.resume({ threadId: ${JSON.stringify(threadId)}, input }). Its effects that are done don't run again.`,
    data: { threadId, taskId: run?.taskId },
  });

export const nothingToResume = (threadId: string): TurnsError =>
  new TurnsError("NOTHING_TO_RESUME", {
    problem: `Thread ${describe(threadId)} can't be resumed: it has no checkpoint.`,
    remedy:
      "Either its run stopped before the input was saved, or the id is wrong. Pass `input` to begin, or invoke the graph with it. If it had run before, call saver.verify() first: rows of it may be gone.",
    data: { threadId },
  });

interface Changed {
  saver: TurnSaver;
  threadId: string;
  run: LastRun | undefined;
  drift: readonly string[];
  /** The completed nodes that changed. */
  changed: readonly string[];
  /** Those that the caller accepts already. */
  accept: readonly string[];
}

/** Says what changed, what a restart would repeat, and which calls continue from here. */
async function graphChanged({ saver, threadId, run, drift, changed, accept: accepted }: Changed): Promise<TurnsError> {
  const did = await effectsOfRun(saver, threadId, run);
  const call = (drift: string): string => `runner.resume({ threadId: ${JSON.stringify(threadId)}${drift} })`;
  // With durability "exit", the run's input wasn't saved.
  const restart = `, drift: "restart"${run?.inputId === undefined ? ", input" : ""}`;
  const accept =
    changed.length === 0 ? "" : ` For these nodes alone: drift: { accept: ${JSON.stringify([...accepted, ...changed])} }.`;
  return new TurnsError("GRAPH_CHANGED", {
    problem: `The graph changed since thread ${describe(threadId)} ran: ${drift.join("; ")}.${effectsInWords(did)}`,
    remedy:
      `Nothing was changed. Choose one. 1. Repair: put the graph back as it was, or give the changed nodes the version label they had, and call ${call("")}. ` +
      `2. Continue with what the completed nodes did: ${call(', drift: "continue"')}.${accept} ` +
      `3. Start again: ${await startAgain(saver, threadId, run, did, call(restart))}`,
    data: { threadId, changes: drift, nodes: changed, effects: allOf(did) },
  });
}

/**
 * Without effects a restart is harmless. With effects, a rewind undoes them first. With effects in doubt, it is refused until
 * somebody has settled them.
 */
async function startAgain(
  saver: TurnSaver,
  threadId: string,
  run: LastRun | undefined,
  did: EffectsOfRun,
  restart: string,
): Promise<string> {
  if (!didEffects(did)) return `${restart}.`;
  const tasks = (await saver.turns.tasks(threadId)).map(({ taskId }) => taskId);
  const before = tasks[tasks.indexOf(run?.taskId ?? "") - 1];
  const undo =
    before === undefined
      ? "run it on a new thread, as there is no earlier task to rewind to"
      : `undo them with runner.rewind({ threadId: ${JSON.stringify(threadId)}, toTask: ${JSON.stringify(before)} }) and invoke it again`;
  const again = `${undo}; or repeat them with ${restart}.`;
  if (did.open.length === 0) return again;
  const none = did.done.length === 0 ? `If none happened, call ${restart}; otherwise ` : "Then ";
  const probes = before === undefined ? "" : "A rewind asks their probes by itself. ";
  return `${settleFirst(did)} ${probes}${none}${again}`;
}

const wrongGraph = (threadId: string, why: string): TurnsError =>
  new TurnsError("WRONG_GRAPH", {
    problem: `Thread ${describe(threadId)} was run with another graph: ${why}.`,
    remedy:
      "Resume the thread with the graph it was run with. If it is this one, all of whose nodes were replaced: a graph that has a graphId of its own counts as changed then. Nothing was changed.",
    data: { threadId },
  });

const newerFormat = (threadId: string, found: number): TurnsError =>
  new TurnsError("SCHEMA_TOO_NEW", {
    problem: `The newest checkpoint of thread ${describe(threadId)} has format ${found}, and this version reads formats up to ${NEWEST_FORMAT}.`,
    remedy: "It was written by a newer LangGraph; update LangGraph and this package. Nothing was changed.",
    data: { threadId, format: found },
  });

/** How the graph differs from the one that a run's nodes ran in (S3.3); undefined if they were recorded without their graph. */
async function driftOf(
  saver: TurnSaver,
  graph: PregelLike,
  threadId: string,
  nodes: RunNodes,
): Promise<GraphDifference | undefined> {
  const again = [...nodes.failed, ...nodes.inFlight, ...nodes.waiting];
  // If nothing completed, the nodes that started at least tell which graph it was.
  const known = nodes.completed.length > 0 ? nodes.completed : again;
  const turns = known.map(({ turnId: id }) => ({ id }));
  const graphs = await internalsOf(saver).recordedGraphs(threadId, turns);
  const byTurn = new Map(graphs.flatMap(({ turnIds, document }) => turnIds.map((id) => [id, document] as const)));
  const recorded = recordedGraph(known.map(({ turnId, path }) => ({ path, graph: byTurn.get(turnId) })));
  if (recorded === undefined) return undefined;
  return compareFingerprints(recorded, await internalsOf(saver).documentOf(graph), {
    completed: nodes.completed.map(({ path }) => path),
    failed: again.map(({ path }) => path),
  });
}
