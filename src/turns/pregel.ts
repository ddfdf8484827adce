import type { RunnableConfig } from "@langchain/core/runnables";
import { describe, TurnsError } from "../errors";

/** What this package needs of a compiled graph. */
export interface PregelLike {
  config?: RunnableConfig;
  checkpointer?: unknown;
  nodes: Record<string, unknown>;
}

/** RemoteGraph calls itself a Pregel too, but has no nodes here. */
export function isPregel(value: unknown): value is PregelLike {
  const graph = value as { lg_is_pregel?: unknown; nodes?: unknown } | null | undefined;
  return graph?.lg_is_pregel === true && typeof graph.nodes === "object" && graph.nodes !== null;
}

/**
 * The Pregel behind what people hold in hand: a compiled graph, a functional entrypoint, or an agent that carries one as `.graph`.
 *
 * @throws {TurnsError} INVALID_GRAPH
 */
export function pregelOf(graph: unknown): PregelLike {
  for (const candidate of [graph, (graph as { graph?: unknown } | null | undefined)?.graph]) {
    if (isPregel(candidate)) return candidate;
  }
  throw new TurnsError("INVALID_GRAPH", {
    what: "the graph",
    expected: "a compiled graph, a functional entrypoint, or an agent that carries one as .graph",
    found: describe(graph),
    remedy: "Compile the graph first; a RemoteGraph runs elsewhere and cannot be attached to.",
  });
}
