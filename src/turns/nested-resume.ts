import { Runnable, type RunnableConfig } from "@langchain/core/runnables";
import { isPregel, type PregelLike } from "./pregel";

interface PregelNodeLike {
  bound?: Runnable;
  subgraphs?: unknown[];
}

const repaired = new WeakSet<Runnable>();

/**
 * Mends a resume inside nested graphs (internals, section 8; langgraphjs#2667): LangGraph tests whether the *key* `checkpoint_id` is
 * present to tell a replay from a resume, and hands every node `checkpoint_id: undefined`, so finished siblings inside a subgraph and
 * finished functional tasks run again. The nodes' runnables are replaced by ones that drop the key when it is undefined.
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

  override invoke(input: unknown, config?: Partial<RunnableConfig>): Promise<unknown> {
    countCallsAnew(config);
    return this.#inner.invoke(input, withoutUndefinedCheckpointId(config)) as Promise<unknown>;
  }
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
