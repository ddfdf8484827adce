import type { RunnableConfig } from "@langchain/core/runnables";
import type { CheckpointTuple } from "@langchain/langgraph-checkpoint";
import type { PregelLike } from "../turns/attached-graph";
import { nestedGraph } from "../turns/nested-resume";
import { plannedTasks } from "../turns/node-task";
import { internalsOf } from "../internals";
import type { TurnSaver } from "../saver";
import type { Turn } from "../turns/turn";
import type { Assessment } from "./assess";

interface Place {
  saver: TurnSaver;
  graph: PregelLike;
  threadId: string;
  /** A call's LangGraph config, which may name breakpoints of its own. */
  config: Readonly<Record<string, unknown>>;
  found: Pick<Assessment, "unfinished" | "nodes" | "run">;
}

/** LangGraph's snapshot of a graph, with those of the graphs in it that it knows. */
interface Snapshot {
  next: readonly string[];
  tasks: readonly { name: string; error?: unknown; interrupts: readonly unknown[]; state?: Snapshot }[];
  config: { configurable?: { checkpoint_ns?: string; checkpoint_id?: string } };
}

/**
 * Whether a thread stands at a breakpoint, of its graph or of one inside it: what comes next there hasn't begun. To continue it is the
 * approval that a person gives there, and a runner records it as an answer. Of a graph that a node's body calls, only the recorded
 * turn tells that it stopped.
 */
export async function isAtBreakpoint({ saver, graph, threadId, config, found }: Place): Promise<boolean> {
  const { unfinished, nodes, run } = found;
  if (unfinished === undefined || unfinished.nodes.length === 0) return false;
  const continued = Math.max(-1, ...(run?.answers.values() ?? []));
  const asked = new Set([...(run?.asked.keys() ?? []), ...(unfinished.questions ?? []).map(({ nodeTaskId }) => nodeTaskId)]);
  // A node that stopped without a question of its own: a graph in it has a breakpoint.
  const isInside = ({ nodeNs, nodeName, nodeTaskId, checkpointId, seq }: Turn): boolean =>
    !nodeNs.includes("|") &&
    checkpointId === run?.branch[0] &&
    unfinished.nodes.includes(nodeName) &&
    !asked.has(nodeTaskId) &&
    seq > continued;
  if (nodes.waitingTurns.some(isInside)) return true;
  if (!hasBreakpoints(graph, config)) return false;
  const { inFlight, failed, waiting, completed } = nodes;
  const begun = new Set([...inFlight, ...failed, ...waiting, ...completed].map(({ checkpointId }) => checkpointId));
  const read = async ({ configurable }: RunnableConfig): Promise<Read> =>
    saver.getTuple({ configurable: { ...configurable, thread_id: threadId } });
  const stateOf = async (of: PregelLike, ns: string): Promise<Snapshot> => {
    const inside = ns === "" ? {} : { checkpoint_ns: ns, __pregel_checkpointer: saver };
    return (of as unknown as WithState).getState({ configurable: { thread_id: threadId, ...inside } }, { subgraphs: true });
  };
  const ranBefore: Look["ranBefore"] = async ({ configurable }) => {
    const { checkpoint_ns: ns = "", checkpoint_id: id = "" } = configurable ?? {};
    const place = await internalsOf(saver).store.placeOf(threadId, ns, id);
    if (begun.has(id) || place === undefined || place.position < continued) return undefined;
    let { ran, before } = { ran: await read({ configurable }), before: undefined as Read };
    for (; ran !== undefined; ran = before) {
      before = ran.parentConfig && (await read(ran.parentConfig));
      const { source } = ran.metadata ?? {};
      // Somebody has only changed the state.
      if (source !== "update" && source !== "fork") break;
    }
    return before?.metadata === undefined ? [] : plannedTasks("", before.checkpoint, before.metadata).map(({ name }) => name);
  };
  return standsAt(graph, config, await stateOf(graph, ""), { ranBefore, stateOf });
}

type Read = CheckpointTuple | undefined;

interface WithState {
  getState(config: object, options: object): Promise<Snapshot>;
}

interface Look {
  /** The nodes that ran before a checkpoint; undefined if some of those after it have begun. */
  ranBefore(at: Snapshot["config"]): Promise<readonly string[] | undefined>;
  /** The newest state of a nested graph with `checkpointer: true`, which LangGraph 1.4 doesn't find. */
  stateOf(graph: PregelLike, ns: string): Promise<Snapshot>;
}

async function standsAt(
  graph: PregelLike,
  config: Readonly<Record<string, unknown>>,
  { next, tasks, config: at }: Snapshot,
  look: Look,
): Promise<boolean> {
  const due = tasks.filter(({ name }) => next.includes(name));
  if (due.length === 0) return false;
  const covers = (when: "Before" | "After", names: readonly string[]): boolean => {
    const breakpoints = breakpointsOf(graph, config, when);
    return names.some((name) => breakpoints.includes("*") || breakpoints.includes(name));
  };
  const hasTold = due.some(({ error, interrupts }) => error !== undefined || interrupts.length > 0);
  const ran = hasTold ? undefined : await look.ranBefore(at);
  if (ran !== undefined && (covers("Before", next) || covers("After", ran))) return true;
  for (const { name, state } of due) {
    const inside = nestedGraph(graph.nodes[name]);
    if (inside === undefined) continue;
    const ns = [at.configurable?.checkpoint_ns, name].filter(Boolean).join("|");
    const isKept = inside.checkpointer === true && state?.config.configurable?.checkpoint_id === undefined;
    const own = isKept ? await look.stateOf(inside, ns) : state;
    if (own?.tasks !== undefined && (await standsAt(inside, {}, own, look))) return true;
  }
  return false;
}

/** Whether a graph, or one in it, stops anywhere. */
function hasBreakpoints(graph: PregelLike, config: Readonly<Record<string, unknown>>, seen = new Set<PregelLike>()): boolean {
  if (seen.has(graph)) return false;
  seen.add(graph);
  if ([...breakpointsOf(graph, config, "Before"), ...breakpointsOf(graph, config, "After")].length > 0) return true;
  const nested = Object.values(graph.nodes).map(nestedGraph);
  return nested.some((inside) => inside !== undefined && hasBreakpoints(inside, {}, seen));
}

function breakpointsOf(graph: PregelLike, config: Readonly<Record<string, unknown>>, when: "Before" | "After"): string[] {
  const own = graph as unknown as Readonly<Record<string, unknown>>;
  return [own, config].flatMap((of) => {
    const nodes = of[`interrupt${when}`];
    return nodes === "*" ? ["*"] : Array.isArray(nodes) ? (nodes as string[]) : [];
  });
}
