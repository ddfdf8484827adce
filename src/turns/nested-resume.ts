import { isDeepStrictEqual } from "node:util";
import { Runnable, type RunnableConfig } from "@langchain/core/runnables";
import { isPregel, type PregelLike } from "./pregel";

interface PregelNodeLike {
  bound?: Runnable;
  subgraphs?: unknown[];
}

const repaired = new WeakSet<Runnable>();

/**
 * Mends a resume inside nested graphs, by replacing the nodes' runnables.
 *
 * LangGraph tests whether the *key* `checkpoint_id` is present to tell a replay from a resume, and hands every node `checkpoint_id:
 * undefined`, so finished siblings inside a subgraph and finished functional tasks run again (internals, section 8; langgraphjs#2667):
 * the key is dropped when it is undefined.
 *
 * A graph with `checkpointer: true` goes on from its newest checkpoint in a resume, also when that is the end of an earlier visit and
 * this one had saved nothing yet: it would do nothing, and its old state would count as the visit's result. It is not told to resume then.
 */
export function repairNestedResume(graph: PregelLike, seen = new Set<PregelLike>()): void {
  if (seen.has(graph)) return;
  seen.add(graph);
  for (const [name, value] of Object.entries(graph.nodes)) {
    const node = value as PregelNodeLike;
    if (name === "__start__" || typeof node.bound?.invoke !== "function") continue;
    if (!repaired.has(node.bound)) {
      if ((node.subgraphs?.length ?? 0) === 0 && graphIn(node.bound) !== undefined) node.subgraphs = [node.bound];
      node.bound = new WithoutUndefinedCheckpointId(node.bound);
      repaired.add(node.bound);
    }
    for (const subgraph of (node.subgraphs ?? []).map(graphIn)) if (isPregel(subgraph)) repairNestedResume(subgraph, seen);
  }
}

/** The graph that LangGraph finds in a node's runnable (its `findSubgraphPregel`): the runnable itself, or a step of a sequence. */
function graphIn(runnable: unknown): unknown {
  const candidates = [runnable as { lg_is_pregel?: unknown; steps?: unknown }];
  for (const candidate of candidates) {
    if (candidate.lg_is_pregel === true) return candidate;
    if (Array.isArray(candidate.steps)) candidates.push(...(candidate.steps as typeof candidates));
  }
  return undefined;
}

/** By this guards/shape.ts sees through the wrapper, also of another copy of this package. */
const ORIGINAL = Symbol.for("langgraph-checkpoint-turns.original");

class WithoutUndefinedCheckpointId extends Runnable {
  lc_namespace = ["langgraph_checkpoint_turns"];
  readonly [ORIGINAL]: Runnable;
  readonly #inner: Runnable;

  constructor(inner: Runnable) {
    super();
    this.#inner = inner;
    this[ORIGINAL] = inner;
  }

  override getName(suffix?: string): string {
    return this.#inner.getName(suffix);
  }

  override async invoke(input: unknown, config?: Partial<RunnableConfig>): Promise<unknown> {
    countCallsAnew(config);
    const repaired = withoutUndefinedCheckpointId(config);
    const isNewVisit = await isVisitToBegin(graphIn(this.#inner), repaired);
    return this.#inner.invoke(
      input,
      isNewVisit ? { ...repaired, configurable: { ...repaired?.configurable, [RESUMING]: false } } : repaired,
    );
  }
}

/** LangGraph's word to the graphs inside a run, or a retry, that they are to go on. */
const RESUMING = "__pregel_resuming";

interface KeepingGraph {
  checkpointer: true;
  getState(config: RunnableConfig): Promise<{ next: readonly string[]; metadata?: { parents?: Record<string, string> } }>;
}

/** Whether a resume leads to a graph that keeps its state from visit to visit, and what it keeps is an earlier visit that has ended. */
async function isVisitToBegin(graph: unknown, config: Partial<RunnableConfig> | undefined): Promise<boolean> {
  const { configurable } = config ?? {};
  if (configurable?.[RESUMING] !== true || !keepsItsState(graph)) return false;
  const ns = String(configurable["checkpoint_ns"]).replaceAll(/:[^|]*/g, "");
  const { next, metadata } = await graph.getState({ configurable: { ...configurable, checkpoint_ns: ns } });
  return next.length === 0 && !isDeepStrictEqual(metadata?.parents, configurable["checkpoint_map"]);
}

function keepsItsState(graph: unknown): graph is KeepingGraph {
  return (graph as { checkpointer?: unknown } | undefined)?.checkpointer === true;
}

/**
 * LangGraph counts the graphs that a node calls, and by that number each finds its checkpoints. A retry in the same process goes on
 * counting and would find none: the graphs would begin anew, their finished nodes again.
 */
function countCallsAnew(config: Partial<RunnableConfig> | undefined): void {
  const scratchpad = config?.configurable?.["__pregel_scratchpad"] as { subgraphCounter?: unknown } | undefined;
  if (typeof scratchpad?.subgraphCounter === "number") scratchpad.subgraphCounter = 0;
}

function withoutUndefinedCheckpointId<C extends Partial<RunnableConfig>>(config: C | undefined): C | undefined {
  const configurable = config?.configurable;
  if (config === undefined || configurable === undefined) return config;
  if (!("checkpoint_id" in configurable) || configurable["checkpoint_id"] !== undefined) return config;
  const rest = { ...configurable };
  delete rest["checkpoint_id"];
  return { ...config, configurable: rest };
}
